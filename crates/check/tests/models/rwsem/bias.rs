//! Readers that are not counted, and who ends that.

use super::*;

/// Reads, which biases the lock with a fence, then by a slot, whereupon it may shed the
/// fence, and then by a slot once more, if nobody came in between.
pub(super) fn read_again(shared: &Shared) {
    (0..3).for_each(|_| shared.read());
}

/// What the models of a fenced bias have to reach, and those of one without.
const FENCED: [Event; 2] = [Event::Biased, Event::FencedBiasRevoked];
const SHED: [Event; 3] = [Event::Biased, Event::FenceShed, Event::BiasRevoked];

/// One without takes three reads, of which the second finds that time has passed.
fn shedding(changes: u32) -> Explorer {
    Explorer::new().biasing().whims(2).pct(1, changes, MANY)
}

/// The reader is about to come, is in, or leaves, while a writer revokes.
#[test]
fn a_reader_and_a_writer() {
    let explorer = Explorer::new().biasing();
    for (explorer, events) in [
        (explorer.executions(MOST), &FENCED[..]),
        (explorer.whims(1).pct(1, 2, MANY), &FENCED),
        (shedding(2), &SHED),
        (shedding(3), &SHED),
    ] {
        explore("rwsem, a biased reader", &explorer, events, || {
            tasks(&[(1, read_again), (1, Shared::write)]);
        });
    }
}

/// Some of the readers are counted, and others are not.
#[test]
fn two_readers_and_a_writer() {
    for changes in 1..=3 {
        for events in [&FENCED[..], &SHED, &[Event::Parked]] {
            explore("rwsem, biased readers", &shedding(changes), events, || {
                tasks(&[(2, read_again), (2, read_again), (2, Shared::write)]);
            });
        }
    }
}

/// One of them ends the bias. It may come back while the other spins, or waits, and is told
/// to come again.
#[test]
fn two_writers() {
    fn write_often(shared: &Shared) {
        (0..2).for_each(|_| shared.write());
    }
    for changes in 1..=3 {
        for second in [Shared::write, Shared::try_to_write as Work] {
            let explorer = Explorer::new().biasing().whims(3).polling();
            let explorer = explorer.pct(1, changes, MANY);
            let events = [Event::FencedBiasRevoked, Event::SpinAcquired];
            explore("rwsem, bias and writers", &explorer, &events, move || {
                tasks(&[(3, read_again), (2, write_often), (2, second)]);
            });
        }
    }
}

/// Who waits for a lock that is to have a fenced bias is told to come again, may have taken
/// the lock meanwhile, or gives up.
#[test]
fn who_is_to_come_again() {
    fn write_often(shared: &Shared) {
        (0..3).for_each(|_| shared.write());
    }
    for others in [
        [Shared::write, write_often as Work],
        [Shared::write, Shared::try_to_write],
        [Shared::read, Shared::write],
    ] {
        for changes in 2..=5 {
            // Of fifty such numbers one finds a twin.
            let explorer = Explorer::new().biasing().whims(3).pct(42, changes, MANY);
            let events = [Event::ToldToComeAgain, Event::Parked];
            for explorer in [explorer, explorer.polling(), explorer.seldom()] {
                explore("rwsem, come again", &explorer, &events, move || {
                    tasks(&[(3, read_again), (3, others[0]), (3, others[1])]);
                });
            }
        }
    }
}

/// A writer takes a lock with a fenced bias if it finds no reader, and else leaves it so.
#[test]
fn a_writer_that_tries() {
    let explorer = Explorer::new().biasing();
    for explorer in [explorer.executions(MOST), explorer.whims(1).pct(1, 3, MANY)] {
        explore("rwsem, fenced, try", &explorer, &FENCED, || {
            tasks(&[(0, read_again), (0, Shared::write_at_once)]);
        });
    }
}

/// Another comes to wait meanwhile: then it cannot be left so.
#[test]
fn a_writer_that_tries_before_another() {
    for changes in 1..=4 {
        let explorer = Explorer::new().biasing().whims(3).pct(1, changes, MANY);
        let events = [Event::FencedBiasRevoked, Event::Parked];
        explore("rwsem, fenced, tries", &explorer, &events, || {
            tasks(&[
                (0, read_again),
                (0, Shared::write_at_once),
                (3, Shared::write),
            ]);
        });
    }
}

/// A reader in a slot is counted, and another that was counted leaves: the count is as
/// before, and the slot is not.
#[test]
fn a_counted_reader_leaves() {
    for changes in 2..=4 {
        let explorer = Explorer::new().biasing().whims(3).pct(1, changes, MANY);
        explore("rwsem, as many readers", &explorer, &FENCED, || {
            let others: [(u32, Work); 2] = [(1, read_again), (3, Shared::write)];
            behind_one((0, take_to_read), &[Step::UnlockRead], &others);
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
    fn shed(shared: &Shared) {
        shared.read();
        bias(shared);
    }
    let others: [Work; 4] = [
        Shared::write,
        Shared::try_to_write,
        Shared::upgrade,
        Shared::try_to_upgrade,
    ];
    for other in others {
        for changes in 1..=2 {
            for (first, event) in [
                ((0, bias as Work), Event::FencedBiasRevoked),
                ((1, shed), Event::BiasRevoked),
            ] {
                let explorer = Explorer::new().biasing().whims(2).pct(1, changes, 1_000);
                explore("rwsem, who comes", &explorer, &[event], move || {
                    behind_one(
                        first,
                        &[Step::UnlockRead],
                        &[(1, other), (1, Shared::upgrade)],
                    );
                });
            }
        }
    }
}

#[test]
fn an_upgrade() {
    let fenced = Explorer::new().biasing().executions(MOST);
    for (explorer, events) in [(fenced, &FENCED[..]), (shedding(3), &SHED)] {
        explore("rwsem, biased, upgrade", &explorer, events, || {
            tasks(&[(0, Shared::upgrade), (1, read_again)]);
        });
        explore("rwsem, upgraded", &explorer, &[Event::Upgraded], || {
            tasks(&[(0, Shared::upgrade), (1, read_again)]);
        });
    }
}

#[test]
fn a_writer_that_gives_up() {
    let fenced = Explorer::new().biasing().executions(MOST);
    for (explorer, events) in [(fenced, &FENCED[..]), (shedding(3), &SHED)] {
        explore("rwsem, biased, deadline", &explorer, events, || {
            tasks(&[(1, read_again), (0, Shared::try_to_write)]);
        });
    }
}

/// A task that reads twice at a time is in two slots, or in one and counted.
#[test]
fn nested_readers() {
    for events in [&FENCED[..], &SHED] {
        explore("rwsem, nested", &shedding(3), events, || {
            tasks::<Lockless>(&[(1, Shared::read_nested), (0, Shared::write)]);
        });
    }
}

/// A reader in a slot touches nothing of the lock when it has left.
#[test]
fn freed_after_the_last_use() {
    fn read_again_and_free(shared: &Shared) {
        shared.read();
        shared.read();
        read_and_free(shared);
    }
    let fenced = Explorer::new().biasing().executions(MOST);
    for (explorer, events) in [(fenced, &FENCED[..]), (shedding(3), &SHED)] {
        explore("rwsem, freed in a bias", &explorer, events, || {
            freed::<Lockless>(1, read_again_and_free, write_and_free);
        });
    }
}

/// A guard of a biased lock is forgotten, and a new lock lies where that one was: the
/// two have one name.
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
    for wait in [Shared::write, read_again] {
        explore("rwsem, forgotten", &explorer, &FENCED, move || model(wait));
    }
}

/// A reader releases the lock as another task than it took it as, as a thread that ends may,
/// while a writer revokes.
#[test]
fn a_reader_with_another_number() {
    fn read_and_stay(shared: &Shared) {
        read_again(shared);
        shared.read_for_another();
    }
    for changes in 1..=4 {
        let explorer = Explorer::new().biasing().whims(2).pct(1, changes, MANY);
        explore("rwsem, another number", &explorer, &FENCED, || {
            let works: [(u32, Work); 3] = [
                (1, read_and_stay),
                (1, Shared::leave_for_another),
                (2, Shared::write),
            ];
            tasks(&works);
        });
    }
}

/// The same of a new lock for which a reader waits: a writer that waits as well biases it.
#[test]
fn a_forgotten_guard_and_who_waits() {
    fn write_often(shared: &Shared) {
        (0..2).for_each(|_| shared.write());
    }
    for changes in 1..=4 {
        let explorer = Explorer::new().biasing().whims(2).pct(1, changes, MANY);
        let events = [Event::Parked, Event::FencedBiasRevoked];
        explore("rwsem, forgotten and waits", &explorer, &events, || {
            let (old, shared) = (Shared::<Lockless>::new(), Shared::<Lockless>::new());
            let others = [Rc::clone(&shared), Rc::clone(&shared)];
            spawn(move || {
                old.read();
                old.lock.read();
                shared.write(); // who has the lock next knows of the guard
                shared.been.store(1, Relaxed);
                write_often(&shared);
            });
            for (other, work) in others.into_iter().zip([read_again, write_often as Work]) {
                spawn(move || {
                    other.wait_for(1);
                    work(&other);
                });
            }
        });
    }
}

/// A reader that waits asks for a bias of a lock that has one by now.
#[test]
fn asked_for_too_late() {
    fn write_often(shared: &Shared) {
        (0..2).for_each(|_| shared.write());
    }
    for changes in 3..=6 {
        // Of 30 such numbers eight find the twin.
        let explorer = Explorer::new().biasing().whims(1).pct(9, changes, MANY);
        let events = [Event::Biased, Event::Parked, Event::FencedBiasRevoked];
        explore("rwsem, asked late", &explorer, &events, || {
            tasks(&[
                (1, Shared::read),
                (1, read_again),
                (1, read_again),
                (1, write_often),
            ]);
        });
    }
}

/// A reader is known to read, by a slot or in the count, while writers revoke.
#[test]
fn known_to_read() {
    fn read_again(shared: &Shared) {
        (0..3).for_each(|_| shared.read_knowingly());
    }
    for changes in 1..=3 {
        for events in [&FENCED[..], &SHED] {
            let explorer = shedding(changes).pct(18, changes, MANY); // of 30 numbers 27 find a twin
            explore("rwsem, biased, known", &explorer, events, || {
                tasks(&[(2, read_again), (2, read_again), (2, Shared::write)]);
            });
        }
    }
}
