//! Readers that are not counted, and who ends that.

use super::*;

/// Reads, which biases the lock, and reads again, by a slot if nobody came in between.
fn read_again(shared: &Shared) {
    shared.read();
    shared.read();
}

/// The reader is about to come, is in, or leaves, while a writer revokes.
#[test]
fn a_reader_and_a_writer() {
    let explorer = Explorer::new().biasing();
    for explorer in [
        explorer.executions(MOST),
        explorer.whims(1).pct(1, 2, MANY),
        explorer.whims(1).pct(1, 3, MANY),
    ] {
        let events = [Event::Biased, Event::BiasRevoked];
        explore("rwsem, a biased reader", &explorer, &events, || {
            tasks(&[(1, read_again), (1, Shared::write)]);
        });
    }
}

/// Some of the readers are counted, and others are not.
#[test]
fn two_readers_and_a_writer() {
    for changes in 1..=3 {
        let explorer = Explorer::new().biasing().whims(2).pct(1, changes, MANY);
        let events = [Event::Biased, Event::BiasRevoked, Event::Parked];
        explore("rwsem, biased readers", &explorer, &events, || {
            tasks(&[(2, read_again), (2, read_again), (2, Shared::write)]);
        });
    }
}

/// One of them ends the bias. It may come back while the other spins.
#[test]
fn two_writers() {
    fn read_often(shared: &Shared) {
        (0..3).for_each(|_| shared.read());
    }
    for changes in 1..=3 {
        let explorer = Explorer::new().biasing().whims(3).polling();
        let explorer = explorer.pct(1, changes, MANY);
        let events = [Event::Biased, Event::BiasRevoked, Event::SpinAcquired];
        explore("rwsem, bias and writers", &explorer, &events, || {
            tasks(&[(3, read_often), (2, Shared::write), (2, Shared::write)]);
        });
    }
}

/// Readers and writers come to a biased lock: whoever is to wait revokes first.
#[test]
fn nobody_waits_for_a_biased_lock() {
    fn bias(shared: &Shared) {
        shared.read();
        shared.lock.read();
        shared.payload.get();
    }
    let others: [Work; 4] = [
        Shared::write,
        Shared::try_to_write,
        Shared::upgrade,
        Shared::try_to_upgrade,
    ];
    for other in others {
        for changes in 1..=2 {
            let explorer = Explorer::new().biasing().whims(1).pct(1, changes, 1_000);
            explore(
                "rwsem, who comes",
                &explorer,
                &[Event::BiasRevoked],
                move || {
                    behind(
                        bias,
                        &[Step::UnlockRead],
                        &[(1, other), (1, Shared::upgrade)],
                    );
                },
            );
        }
    }
}

#[test]
fn an_upgrade() {
    let explorer = Explorer::new().biasing().executions(MOST);
    let events = [Event::Biased, Event::BiasRevoked, Event::Upgraded];
    explore("rwsem, biased, upgrade", &explorer, &events, || {
        tasks(&[(0, Shared::upgrade), (0, read_again)]);
    });
}

#[test]
fn a_writer_that_gives_up() {
    let explorer = Explorer::new().biasing().executions(MOST);
    let events = [Event::BiasRevoked, Event::Cancelled];
    explore("rwsem, biased, deadline", &explorer, &events, || {
        tasks(&[(0, read_again), (0, Shared::try_to_write)]);
    });
}

/// A task that reads twice at a time is in two slots, or in one and counted.
#[test]
fn nested_readers() {
    let explorer = Explorer::new().biasing().whims(1).pct(1, 3, MANY);
    let events = [Event::Biased, Event::BiasRevoked];
    explore("rwsem, nested", &explorer, &events, || {
        tasks::<Lockless>(&[(1, Shared::read_nested), (0, Shared::write)]);
    });
}

/// A reader in a slot touches nothing of the lock when it has left.
#[test]
fn freed_after_the_last_use() {
    fn read_again_and_free(shared: &Shared) {
        shared.read();
        read_and_free(shared);
    }
    let explorer = Explorer::new().biasing().executions(MOST);
    let events = [Event::Biased, Event::BiasRevoked];
    explore("rwsem, freed in a bias", &explorer, &events, || {
        freed::<Lockless>(0, read_again_and_free, write_and_free);
    });
}

/// A guard of a biased lock is forgotten, and a new lock lies where that one was: all
/// locks of a model have one name.
#[test]
fn a_forgotten_guard() {
    fn model(wait: Work) {
        let (old, shared) = (Shared::<Lockless>::new(), Shared::<Lockless>::new());
        let second = Rc::clone(&shared);
        spawn(move || {
            old.read();
            old.lock.read();
            shared.been.store(1, Relaxed);
            read_again(&shared);
        });
        spawn(move || {
            second.wait_for(1);
            wait(&second);
            second.write();
        });
    }
    let explorer = Explorer::new().biasing().executions(MOST);
    let events = [Event::Biased, Event::BiasRevoked];
    for wait in [Shared::write, read_again] {
        explore("rwsem, forgotten", &explorer, &events, move || model(wait));
    }
}
