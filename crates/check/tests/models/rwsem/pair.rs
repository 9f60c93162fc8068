//! Writers that come and go by replacing both words at once.

use super::{bias::read_again, *};

/// A writer or a reader leaves a lock that another wants, who takes it, sleeps or frees it.
#[test]
fn released_at_once() {
    let explorer = Explorer::new().whims(1).pairing().executions(MOST);
    for other in [Shared::write, Shared::read as Work, Shared::upgrade] {
        let most = explorer.whims(3).pct(1, 2, MANY);
        for (explorer, event) in [(explorer, Event::SpinAcquired), (most, Event::Parked)] {
            explore("rwsem, at once", &explorer, &[event], move || {
                tasks(&[(3, Shared::write), (3, other)]);
            });
        }
    }
    explore("rwsem, at once, freed", &explorer, &[], || {
        freed::<Lockless>(1, write_and_free, read_and_free);
    });
}

/// Who leaves has nobody to wake, for somebody has promised to come.
#[test]
fn released_to_a_promise() {
    let events = [Event::WakeSkipped, Event::Parked];
    let takes: [(Work, &[Step]); 2] = [
        (take_to_write, &[Step::UnlockWrite]),
        (take_to_read, &[Step::UnlockRead]),
    ];
    for (take, steps) in takes {
        for sleeper in [Shared::write, Shared::read as Work] {
            for changes in 1..=3 {
                let explorer = Explorer::new().whims(3).always_running().pairing();
                let explorer = explorer.pct(1, changes, MANY);
                explore("rwsem, at once, a promise", &explorer, &events, move || {
                    behind(take, steps, &[(4, Shared::write), (1, sleeper)]);
                });
            }
        }
    }
}

/// A writer takes a lock that has just become free, or has a fenced bias, while others want it
/// and say in the owner word that they have or had it.
#[test]
fn taken_at_once() {
    fn write_often(shared: &Shared) {
        (0..2).for_each(|_| shared.write());
    }
    let explorer = Explorer::new().biasing().pairing();
    let few = explorer.executions(MOST);
    explore("rwsem, drained at once", &few, &[Event::Biased], || {
        tasks(&[(1, read_again), (1, Shared::write)]);
    });
    for changes in 1..=4 {
        for other in [Shared::write, Shared::try_to_write, Shared::read as Work] {
            let explorer = explorer.whims(3).polling().pct(1, changes, MANY);
            let events = [Event::FencedBiasRevoked, Event::SpinAcquired];
            explore("rwsem, taken at once", &explorer, &events, move || {
                tasks(&[(3, read_again), (2, write_often), (2, other)]);
            });
        }
    }
}

/// Readers leave each other's company, and a writer comes.
#[test]
fn readers_leave_at_once() {
    for changes in 1..=3 {
        let explorer = Explorer::new().whims(2).pairing().pct(1, changes, MANY);
        let events = [Event::Parked, Event::WokeFirst];
        explore("rwsem, readers at once", &explorer, &events, || {
            tasks::<Lockless>(&[(2, Shared::read), (2, Shared::read), (2, Shared::write)]);
        });
        explore(
            "rwsem, upgrade at once",
            &explorer,
            &[Event::Upgraded],
            || {
                tasks::<Lockless>(&[(1, Shared::upgrade), (2, Shared::read), (2, Shared::read)]);
            },
        );
    }
}

/// Beside reservations and biases, by which a lock is left in other ways.
#[test]
fn of_all_kinds_at_once() {
    let explorer = Explorer::new().whims(4).pairing();
    for explorer in [
        explorer,
        explorer.keeping(),
        explorer.biasing(),
        explorer.polling(),
    ] {
        for rotate in 0..9 {
            let explorer = explorer.pct(rotate, 3, 600);
            explore("rwsem, all kinds at once", &explorer, &[], move || {
                let shared = of_all_kinds(rotate as usize);
                afterwards(move || assert!(!shared.lock.is_locked()));
            });
        }
    }
}

/// A task takes the lock for a usual one, and it is not any more: another has biased or
/// reserved it meanwhile.
#[test]
fn no_longer_usual() {
    fn read_and_look(shared: &Shared) {
        shared.read();
        (0..2).for_each(|_| {
            if shared.lock.try_read() {
                shared.payload.get();
                shared.unlock_read();
            }
        });
        shared.read();
    }
    fn write_often(shared: &Shared) {
        (0..2).for_each(|_| shared.write());
    }
    let explorer = Explorer::new().fickle().whims(3).pairing();
    for changes in 1..=4 {
        for explorer in [explorer, explorer.polling()] {
            let biased = explorer.biasing().pct(1, changes, MANY);
            let events = [Event::Biased, Event::FencedBiasRevoked];
            explore("rwsem, usual, biased", &biased, &events, || {
                tasks(&[(2, read_and_look), (1, read_again), (1, Shared::write)]);
            });
            let kept = explorer.keeping().pct(1, changes, MANY);
            explore("rwsem, usual, kept", &kept, &[Event::Revoked], || {
                tasks(&[(2, write_often), (1, Shared::read), (1, write_often)]);
            });
        }
    }
}
