//! Models of the reader-writer semaphore.

mod another;
mod bias;
mod claims;
mod in_order;
mod keep;
mod last;
mod pair;
mod plain;
pub mod programs;
mod promises;
mod readers;
pub mod shared;
mod slots;
mod states;
mod tries;

use std::rc::Rc;

use lockyard_check::{Explorer, Wakes, afterwards, free, history, limit_whims, spawn};
use lockyard_core::{
    Event,
    Ordering::Relaxed,
    Word,
    rwsem::{Lockless, Trylock, WakeCheck},
};

use crate::{DEADLINE, LATE, explore, explore_to};
use shared::{
    Shared, Step, Work, behind, behind_one, started, take_to_read, take_to_write, take_upgradably,
    tasks,
};

/// How many executions of a model to explore that has too many.
const MOST: u64 = 16_000;
/// How many to sample of one that has far too many.
const MANY: u64 = 3_000;

// The count word and its bits: see rwsem.rs in the core.
const COUNT: usize = 0;
const WRITER: u32 = 1;
const WAITERS: u32 = 2;
const HANDOFF: u32 = 4;
const SPINNER: u32 = 8;
const MARKS: u32 = WAITERS | HANDOFF | SPINNER;
const UPGRADABLE: u32 = 16;
const READER: u32 = 32;

#[test]
fn two_writers() {
    let events = [Event::SpinAcquired, Event::SpinResched, Event::WokeFirst];
    let explorer = Explorer::new().whims(1).always_running().executions(MOST);
    explore("rwsem, 2 writers", &explorer, &events, || {
        tasks::<Lockless>(&[(1, Shared::write), (1, Shared::write)]);
    });
    let explorer = Explorer::new().whims(3).pct(1, 2, MANY);
    explore("rwsem, 2 writers", &explorer, &[Event::Parked], || {
        tasks::<Lockless>(&[(3, Shared::write), (3, Shared::write)]);
    });
}

#[test]
fn two_writers_that_poll() {
    let explorer = Explorer::new().whims(3).polling().pct(1, 2, MANY);
    let events = [Event::WokeFirst, Event::Parked];
    explore("rwsem, 2 writers, polling", &explorer, &events, || {
        tasks::<Lockless>(&[(3, Shared::write), (3, Shared::write)]);
    });
}

#[test]
fn spurious_wakes() {
    let explorer = Explorer::new()
        .whims(2)
        .wakes(Wakes::Permissive(1))
        .pct(1, 2, MANY);
    explore("rwsem, spurious wakes", &explorer, &[Event::Parked], || {
        tasks::<Lockless>(&[(1, Shared::write), (2, Shared::write), (0, Shared::read)]);
    });
}

#[test]
fn a_reader_and_a_writer() {
    let explorer = Explorer::new().whims(1);
    let parked = [Event::Parked, Event::WokeFirst];
    for (most, explorer, events) in [
        (LATE, explorer, &parked[..]),
        (MANY, explorer.pct(1, 2, MANY), &[Event::ReadersGranted]),
    ] {
        explore_to(most, "rwsem, reader and writer", &explorer, events, || {
            tasks::<Lockless>(&[(1, Shared::read), (1, Shared::write)]);
        });
    }
}

#[test]
fn two_readers_and_a_writer() {
    let events = [Event::ReadersGranted, Event::WokeFirst];
    for changes in 1..=3 {
        let explorer = Explorer::new().whims(2).pct(1, changes, MANY);
        explore("rwsem, 2 readers and a writer", &explorer, &events, || {
            tasks::<Lockless>(&[(2, Shared::read), (2, Shared::read), (2, Shared::write)]);
        });
    }
}

#[test]
fn a_reader_and_two_writers() {
    let events = [Event::ReadersGranted, Event::WokeFirst];
    let explorer = Explorer::new().whims(2).pct(1, 3, MANY);
    explore("rwsem, a reader and 2 writers", &explorer, &events, || {
        tasks::<Lockless>(&[(2, Shared::read), (2, Shared::write), (2, Shared::write)]);
    });
}

/// A reader that has the lock waits for another that comes, or sleeps already behind
/// a writer that sleeps: recursive readers wait for none of these.
#[test]
fn recursive_readers_wait_for_no_waiter() {
    let explorer = Explorer::new().whims(1).pct(1, 2, MANY);
    explore("rwsem, read twice", &explorer, &[Event::Parked], || {
        tasks::<Lockless>(&[(1, Shared::write), (0, Shared::read_recursively_twice)]);
    });
    let readers: [(u32, Work); 2] = [
        (1, Shared::read_recursively_until_another_has),
        (1, Shared::read_recursively_and_say_so),
    ];
    for changes in 2..=5 {
        let explorer = Explorer::new().whims(6).pct(1, changes, MANY);
        let events = [Event::ReadStolen, Event::WokeFirst, Event::ReadersGranted];
        let writer: (u32, Work) = (2, Shared::write);
        explore("rwsem, recursive readers", &explorer, &events, move || {
            let others: Vec<_> = [writer].into_iter().chain(readers).collect();
            behind::<Lockless>(take_to_write, &[Step::UnlockWrite], &others);
        });
    }
}

/// Each kind of release, and each kind of waiter.
#[test]
fn no_lost_wake() {
    use Step::*;
    let releases: [(Work, &[Step]); 9] = [
        (take_to_write, &[UnlockWrite]),
        (take_to_write, &[UnlockWriteFairly]),
        (take_to_write, &[Downgrade, UnlockRead]),
        (take_to_write, &[DowngradeToUpgradable, UnlockUpgradable]),
        (take_to_read, &[UnlockRead]),
        (take_to_read, &[UnlockReadFairly]),
        (take_upgradably, &[UnlockUpgradable]),
        (take_upgradably, &[UnlockUpgradableFairly]),
        (take_upgradably, &[DowngradeUpgradable, UnlockRead]),
    ];
    let waits: [Work; 4] = [
        Shared::write,
        Shared::read,
        Shared::read_upgradably,
        Shared::upgrade,
    ];
    for (take, steps) in releases {
        for wait in waits {
            let explorer = Explorer::new().whims(3).always_running();
            let explorer = explorer.pct(1, 2, 600);
            explore("rwsem, a waiter", &explorer, &[], move || {
                behind(take, steps, &[(3, wait)]);
            });
        }
    }
}

/// A waiter gives up at any moment, while the lock is released or granted.
#[test]
fn cancel_against_release() {
    let events = [Event::Cancelled, Event::WokeFirst];
    let explorer = Explorer::new().whims(1).always_running();
    explore("rwsem, a writer gives up", &explorer, &events, || {
        behind::<Lockless>(
            take_to_write,
            &[Step::UnlockWrite],
            &[(0, Shared::try_to_write)],
        );
    });
    let events = [
        Event::Cancelled,
        Event::CancelGranted,
        Event::ReadersGranted,
    ];
    explore("rwsem, a reader gives up", &explorer, &events, || {
        behind::<Lockless>(
            take_to_write,
            &[Step::UnlockWrite],
            &[(0, Shared::try_to_read)],
        );
    });
}

#[test]
fn an_heir_that_gives_up() {
    let events = [Event::Cancelled, Event::CancelGranted, Event::HandedOff];
    let explorer = Explorer::new().whims(1).always_running().pct(1, 2, MANY);
    explore("rwsem, a late heir", &explorer, &events, || {
        behind::<Lockless>(
            take_to_write,
            &[Step::UnlockWriteFairly],
            &[(1, Shared::try_to_write)],
        );
    });
}

/// A waiter leaves while it is woken, and another waits behind it: the wake-up
/// must not be lost with it. Too many executions to see them all.
#[test]
fn cancel_before_another() {
    let others: [Work; 3] = [Shared::write, Shared::read, Shared::upgrade];
    let takes: [(Work, &[Step]); 2] = [
        (take_to_write, &[Step::UnlockWrite]),
        (take_to_read, &[Step::UnlockRead]),
    ];
    for (take, steps) in takes {
        for other in others {
            for changes in 1..=3 {
                let explorer = Explorer::new().whims(2).always_running();
                let explorer = explorer.pct(1, changes, 1_000);
                let events = [Event::Cancelled, Event::Parked];
                explore(
                    "rwsem, cancel before another",
                    &explorer,
                    &events,
                    move || {
                        behind(take, steps, &[(1, Shared::try_to_write), (1, other)]);
                    },
                );
            }
        }
    }
}

/// Readers sleep behind a writer, and are let in together.
#[test]
fn a_batch() {
    let events = [Event::ReadersGranted, Event::Parked];
    let explorer = Explorer::new().whims(2).always_running().pct(1, 3, MANY);
    explore("rwsem, a batch", &explorer, &events, || {
        let meet = |shared: &Shared| {
            shared.lock.read();
            shared.been.fetch_add(1, Relaxed);
            shared.wait_for(2); // both are in
            shared.payload.get();
            shared.unlock_read();
        };
        behind(take_to_write, &[Step::UnlockWrite], &[(1, meet), (1, meet)]);
    });
}

/// Readers of a batch leave while others of it are told.
#[test]
fn a_batch_and_a_writer() {
    let events = [Event::ReadersGranted, Event::Parked];
    for changes in 1..=3 {
        let explorer = Explorer::new()
            .whims(3)
            .always_running()
            .pct(1, changes, MANY);
        explore("rwsem, a batch and a writer", &explorer, &events, || {
            let others: [(u32, Work); 3] = [
                (1, Shared::read),
                (1, Shared::try_to_read),
                (1, Shared::write),
            ];
            behind(take_to_write, &[Step::UnlockWrite], &others);
        });
    }
}

/// When all releases are fair, the lock is never free while somebody waits: so
/// nobody can overtake who is handed it.
#[test]
fn nobody_overtakes_an_heir() {
    let events = [Event::HandedOff, Event::ReadersGranted];
    for changes in 1..=3 {
        let explorer = Explorer::new().whims(3).pct(1, changes, MANY);
        explore("rwsem, an heir", &explorer, &events, || {
            let shared = started::<Lockless>(&[
                (3, Shared::write_fairly),
                (3, Shared::write_fairly),
                (2, Shared::read_fairly),
            ]);
            afterwards(move || {
                let is_free = |count: u32| count & WRITER == 0 && count < READER;
                let waited_for = |&count: &u32| is_free(count) && count & WAITERS != 0;
                assert_eq!(
                    history(&shared.lock, COUNT).into_iter().find(waited_for),
                    None
                );
            });
        });
    }
}

/// An overdue waiter asks, and is handed the lock.
#[test]
fn handed_over() {
    let events = [Event::HandoffAsked, Event::HandedOff];
    let explorer = Explorer::new().whims(3).always_running().pct(1, 2, MANY);
    explore("rwsem, hand-off", &explorer, &events, || {
        behind::<Lockless>(take_to_write, &[Step::UnlockWrite], &[(3, Shared::write)]);
    });
    explore("rwsem, hand-off by a reader", &explorer, &events, || {
        behind::<Lockless>(take_to_read, &[Step::UnlockRead], &[(3, Shared::write)]);
    });
}

/// Both ways to check for waiters, in a model of all executions.
#[test]
fn both_wake_checks() {
    let explorer = Explorer::new().whims(1).always_running().executions(MOST);
    explore("rwsem, trylock", &explorer, &[Event::WokeFirst], || {
        tasks::<Trylock>(&[(1, Shared::write), (1, Shared::write)]);
    });
    explore("rwsem, trylock", &explorer, &[Event::Parked], || {
        tasks::<Trylock>(&[(1, Shared::write), (0, Shared::read)]);
    });
}

/// The reader that waits is in before the writer that became a reader leaves.
#[test]
fn a_downgrade_lets_readers_in() {
    let explorer = Explorer::new().whims(1).always_running();
    for to_upgradable in [false, true] {
        let events = [Event::ReadersGranted];
        explore_to(LATE, "rwsem, downgrade", &explorer, &events, move || {
            let shared = Shared::<Lockless>::new();
            let writer = Rc::clone(&shared);
            spawn(move || {
                limit_whims(0);
                writer.lock.write();
                writer.work();
                if to_upgradable {
                    writer.step(Step::DowngradeToUpgradable);
                    writer.wait_for(1);
                    writer.unlock_upgradable();
                } else {
                    writer.step(Step::Downgrade);
                    writer.wait_for(1);
                    writer.unlock_read();
                }
            });
            spawn(move || {
                shared.lock.read();
                shared.been.store(1, Relaxed);
                shared.payload.get();
                shared.unlock_read();
            });
        });
    }
}

#[test]
fn an_upgrade() {
    let events = [Event::Upgraded, Event::Parked];
    let explorer = Explorer::new().whims(1).always_running();
    explore("rwsem, upgrade", &explorer, &events, || {
        tasks::<Lockless>(&[(1, Shared::upgrade), (0, Shared::read)]);
    });
    explore("rwsem, 2 upgrades", &explorer, &[Event::Parked], || {
        tasks::<Lockless>(&[(1, Shared::upgrade), (1, Shared::upgrade)]);
    });
    let events = [Event::Cancelled, Event::CancelGranted];
    explore("rwsem, upgrade, deadline", &explorer, &events, || {
        tasks::<Lockless>(&[(0, Shared::try_to_upgrade), (0, Shared::read)]);
    });
}

/// Who upgrades comes before a writer that waits.
#[test]
fn an_upgrade_before_a_writer() {
    for changes in 1..=3 {
        let explorer = Explorer::new().whims(2).pct(1, changes, MANY);
        let events = [Event::Upgraded, Event::Parked];
        explore("rwsem, upgrade and others", &explorer, &events, || {
            tasks::<Lockless>(&[(1, Shared::upgrade), (0, Shared::read), (1, Shared::write)]);
        });
        explore("rwsem, upgrade and others", &explorer, &[], || {
            tasks::<Lockless>(&[
                (1, Shared::try_to_upgrade),
                (0, Shared::downgrade_by_steps),
                (1, Shared::upgrade),
            ]);
        });
    }
}

/// Who is the last to have the lock frees it.
fn and_free<C: WakeCheck>(shared: &Shared<C>, of: u32, unlock: Work<C>) {
    let last = shared.been.fetch_add(1, Relaxed) + 1 == of;
    unlock(shared);
    if last {
        free(&shared.lock);
    }
}

fn freed<C: WakeCheck>(most: u32, first: Work<C>, second: Work<C>) {
    let shared = Shared::<C>::new();
    for work in [first, second] {
        let shared = Rc::clone(&shared);
        spawn(move || {
            limit_whims(most);
            work(&shared);
        });
    }
}

fn write_and_free<C: WakeCheck>(shared: &Shared<C>) {
    shared.lock.write();
    and_free(shared, 2, Shared::unlock_write);
}

fn write_fairly_and_free<C: WakeCheck>(shared: &Shared<C>) {
    shared.lock.write();
    and_free(shared, 2, Shared::unlock_write_fairly);
}

fn read_and_free<C: WakeCheck>(shared: &Shared<C>) {
    shared.lock.read();
    and_free(shared, 2, Shared::unlock_read);
}

#[test]
fn freed_after_the_last_use() {
    let explorer = Explorer::new().whims(1).executions(MOST);
    explore("rwsem, freed", &explorer, &[Event::WokeFirst], || {
        freed::<Lockless>(1, write_and_free, write_and_free);
    });
    explore(
        "rwsem, freed by a reader",
        &explorer,
        &[Event::ReadersGranted],
        || {
            freed::<Lockless>(1, write_and_free, read_and_free);
        },
    );
    explore(
        "rwsem, freed by an heir",
        &explorer,
        &[Event::HandedOff],
        || {
            freed::<Lockless>(1, write_fairly_and_free, write_fairly_and_free);
        },
    );
    explore(
        "rwsem, freed, trylock",
        &explorer,
        &[Event::WokeFirst],
        || {
            freed::<Trylock>(1, write_and_free, write_and_free);
        },
    );
}

/// An heir that gives up and was granted the lock frees it.
#[test]
fn freed_by_who_gave_up() {
    let events = [Event::CancelGranted];
    let explorer = Explorer::new().whims(1).always_running();
    explore("rwsem, freed by who gave up", &explorer, &events, || {
        freed::<Lockless>(0, write_fairly_and_free, |shared| {
            if shared.lock.read_until(DEADLINE) {
                and_free(shared, 2, Shared::unlock_read);
            }
        });
    });
}

/// Three tasks that do all there is to do, each two things of it.
pub fn of_all_kinds(rotate: usize) -> Rc<Shared> {
    let kinds: [Work; 9] = [
        Shared::write,
        Shared::read,
        Shared::try_to_write,
        Shared::try_to_read,
        Shared::upgrade,
        Shared::downgrade_by_steps,
        Shared::write_fairly,
        Shared::try_to_upgrade,
        Shared::downgrade,
    ];
    let shared = Shared::new();
    for task in 0..3 {
        let shared = Rc::clone(&shared);
        spawn(move || {
            kinds[(rotate + 2 * task) % kinds.len()](&shared);
            kinds[(4 * rotate + task + 1) % kinds.len()](&shared);
        });
    }
    shared
}

fn three_tasks_of_all_kinds_with(seeds: u64, executions: u64) {
    for seed in 0..seeds {
        for rotate in 0..9 {
            let explorer = Explorer::new().whims(4);
            for explorer in [
                explorer.random(seed, executions),
                explorer.polling().pct(seed, 2, executions),
                explorer.pct(seed, 4, executions),
            ] {
                explore("rwsem of 3, all kinds", &explorer, &[], move || {
                    let shared = of_all_kinds(rotate);
                    afterwards(move || assert!(!shared.lock.is_locked()));
                });
            }
        }
    }
}

#[test]
fn three_tasks_of_all_kinds() {
    three_tasks_of_all_kinds_with(1, 400);
}

#[test]
#[ignore = "5,400,000 random executions; the test above has 10,800"]
fn three_tasks_of_all_kinds_for_long() {
    three_tasks_of_all_kinds_with(40, 5_000);
}

/// The last reader lets in a writer, which must see that the first is done.
#[test]
fn a_grant_by_the_last_reader() {
    let explorer = Explorer::new().whims(2).always_running().pct(1, 2, MANY);
    explore(
        "rwsem, a grant by the last reader",
        &explorer,
        &[Event::HandedOff],
        || {
            tasks::<Lockless>(&[
                (0, Shared::read),
                (0, Shared::read_fairly),
                (2, Shared::write),
            ]);
        },
    );
}

/// A reader's fair release, with a writer behind.
#[test]
fn fair_readers() {
    let explorer = Explorer::new().whims(2).always_running().pct(1, 2, MANY);
    explore(
        "rwsem, fair readers",
        &explorer,
        &[Event::HandedOff],
        || {
            tasks::<Lockless>(&[(0, Shared::read_fairly), (2, Shared::write_fairly)]);
        },
    );
}
