//! Models of the mutex.

mod left;

use std::rc::Rc;

use lockyard_check::{Check, CheckWord, Explorer, Wakes, afterwards, free, limit_whims, spawn};
use lockyard_core::{
    Event, FOREVER, Look,
    Ordering::{Acquire, Release},
    Platform, Word,
};

use crate::{DEADLINE, LATE, explore, explore_to, guarded::Guarded};

/// One task for each element, which says how many whims it may meet.
pub fn tasks(whims: &[u32], work: impl Fn(&Guarded) + 'static) -> Rc<Guarded> {
    let guarded = Guarded::new();
    let work = Rc::new(work);
    for &most in whims {
        let (guarded, work) = (guarded.clone(), work.clone());
        spawn(move || {
            limit_whims(most);
            work(&guarded);
        });
    }
    guarded
}

/// Each task takes the mutex once: nobody else is in, and nobody is left out.
fn locking(whims: &[u32]) {
    let count = whims.len() as u32;
    let guarded = tasks(whims, Guarded::lock_work_unlock);
    afterwards(move || {
        assert_eq!(guarded.payload.get(), count);
        assert!(!guarded.mutex.is_locked());
    });
}

#[test]
fn two_tasks() {
    let events = [
        Event::SpinAcquired,
        Event::SpinResched,
        Event::Parked,
        Event::Napped,
        Event::WokeFirst,
        Event::MadeWay,
        Event::HandoffAsked,
        Event::HandedOff,
    ];
    explore("mutex of 2", &Explorer::new().whims(3), &events, || {
        locking(&[3, 3])
    });
}

/// The unlock replaces the owner and the front at once.
#[test]
fn released_at_once() {
    let explorer = Explorer::new().whims(2).pairing();
    let events = [Event::SpinAcquired, Event::Parked, Event::WokeFirst];
    explore("mutex, at once", &explorer, &events, || locking(&[2, 2]));
    explore("mutex, at once, freed", &explorer, &events, || {
        tasks(&[2, 2], |guarded| use_and_free(guarded, false));
    });
    let explorer = Explorer::new().whims(3).pairing();
    for explorer in [
        explorer,
        explorer.polling(),
        explorer.seldom(),
        explorer.keeping(),
    ] {
        for changes in 2..=4 {
            let explorer = explorer.pct(1, changes, 4_000);
            explore("mutex of 3, at once", &explorer, &[], || {
                let guarded = of_all_kinds();
                afterwards(move || assert!(!guarded.mutex.is_locked()));
            });
        }
    }
}

#[test]
fn two_tasks_that_poll() {
    let explorer = Explorer::new().whims(3).polling();
    explore(
        "mutex of 2, polling",
        &explorer,
        &[Event::WokeFirst],
        || locking(&[3, 3]),
    );
}

/// Who looks seldom watches somebody else come and go for a turn, and is handed the mutex
/// meanwhile, or recalls it.
#[test]
fn two_tasks_that_look_seldom() {
    let events = [Event::WokeFirst, Event::HandedOff, Event::SpinAcquired];
    let explorer = Explorer::new().whims(3).seldom();
    explore("mutex of 2, seldom", &explorer, &events, || {
        locking(&[3, 3])
    });
    let explorer = Explorer::new().whims(20).seldom().keeping();
    for changes in 1..=3 {
        let explorer = explorer.pct(6, changes, 2_000);
        explore("mutex, a turn", &explorer, &[Event::Recalled], || {
            let guarded = tasks(&[20, 0], |guarded| {
                for _ in 0..16 {
                    guarded.lock_work_unlock();
                }
            });
            afterwards(move || assert_eq!(guarded.payload.get(), 32));
        });
    }
}

/// Who looks seldom sees the mutex free, and then somebody come back for it, who hands it over.
#[test]
fn an_heir_that_looks_seldom() {
    let explorer = Explorer::new().whims(1).seldom();
    for changes in 1..=2 {
        let explorer = explorer.pct(1, changes, 8_000);
        let events = [Event::HandedOff];
        explore(
            "mutex, an heir that looks seldom",
            &explorer,
            &events,
            || {
                let (guarded, locked) = (Guarded::new(), Rc::new(CheckWord::ZERO));
                let (owner, says) = (Rc::clone(&guarded), Rc::clone(&locked));
                spawn(move || {
                    limit_whims(0);
                    owner.mutex.lock();
                    says.store(1, Release);
                    owner.work();
                    owner.unlock();
                    owner.unlock_fairly();
                });
                spawn(move || {
                    Check::spin_until(
                        &locked,
                        Acquire,
                        Look::Poll,
                        FOREVER,
                        |now| now == 1,
                        || false,
                    );
                    guarded.lock_work_unlock();
                });
            },
        );
    }
}

#[test]
fn two_tasks_with_spurious_wakes() {
    let explorer = Explorer::new().whims(2).wakes(Wakes::Permissive(1));
    explore(
        "mutex of 2, spurious wakes",
        &explorer,
        &[Event::Parked],
        || locking(&[2, 2]),
    );
}

#[test]
fn twice() {
    let explorer = Explorer::new().whims(1).executions(3_000_000);
    explore("mutex, twice", &explorer, &[Event::OsqUnqueueB], || {
        let guarded = tasks(&[0, 1], |guarded| {
            guarded.lock_work_unlock();
            guarded.lock_work_unlock();
        });
        afterwards(move || assert_eq!(guarded.payload.get(), 4));
    });
}

#[test]
fn three_tasks() {
    let explorer = Explorer::new().whims(1).executions(3_000_000);
    explore("mutex of 3", &explorer, &[Event::OsqUnqueueB], || {
        locking(&[0, 0, 1])
    });
}

#[test]
fn three_tasks_at_random() {
    for seed in 0..2 {
        let explorer = Explorer::new().whims(3).random(seed, 20_000);
        explore("mutex of 3, random", &explorer, &[], || locking(&[3, 3, 3]));
        let explorer = Explorer::new().whims(3).pct(seed, 3, 20_000);
        explore("mutex of 3, PCT", &explorer, &[], || locking(&[3, 3, 3]));
        explore("mutex of 3, seldom", &explorer.seldom(), &[], || {
            locking(&[3, 3, 3]);
        });
    }
}

/// One owns the mutex, one is awake as the first waiter and overdue, and one that spins
/// gives way to it.
#[test]
fn three_tasks_that_poll() {
    let explorer = Explorer::new().whims(6).polling().pct(0, 3, 20_000);
    let events = [Event::SpinGaveWay, Event::HandedOff];
    explore("mutex of 3, polling", &explorer, &events, || {
        locking(&[6, 6, 6])
    });
}

/// Three tasks that lock, lock fairly, and give up, each two of these.
pub fn of_all_kinds() -> Rc<Guarded> {
    let kinds: [fn(&Guarded); 3] = [
        Guarded::lock_work_unlock,
        Guarded::unlock_fairly,
        Guarded::lock_in_time,
    ];
    let guarded = Guarded::new();
    for task in 0..3 {
        let guarded = Rc::clone(&guarded);
        spawn(move || {
            kinds[task](&guarded);
            kinds[(task + 1) % 3](&guarded);
        });
    }
    guarded
}

#[test]
#[ignore = "6,000,000 random executions; `states` samples the same tasks each time"]
fn three_tasks_of_all_kinds() {
    for seed in 0..100 {
        let explorer = Explorer::new().whims(4);
        for explorer in [
            explorer,
            explorer.polling(),
            explorer.seldom(),
            explorer.keeping(),
        ] {
            for explorer in [
                explorer.random(seed, 5_000),
                explorer.pct(seed, 2, 5_000),
                explorer.pct(seed, 5, 5_000),
            ] {
                explore("mutex of 3, all kinds", &explorer, &[], || {
                    let guarded = of_all_kinds();
                    afterwards(move || assert!(!guarded.mutex.is_locked()));
                });
            }
        }
    }
}

#[test]
fn handed_over() {
    explore(
        "mutex, fair",
        &Explorer::new().whims(2),
        &[Event::HandedOff],
        || {
            let guarded = tasks(&[2, 2], Guarded::unlock_fairly);
            afterwards(move || assert_eq!(guarded.payload.get(), 2));
        },
    );
}

#[test]
fn deadlines() {
    let explorer = Explorer::new().whims(1);
    explore("mutex, deadlines", &explorer, &[Event::Cancelled], || {
        let guarded = tasks(&[1, 1], Guarded::lock_in_time);
        afterwards(move || assert!(!guarded.mutex.is_locked()));
    });
}

/// An owner that locks again makes no promise that it cannot keep.
#[test]
fn an_owner_that_waits_for_itself() {
    let explorer = Explorer::new().whims(4).polling();
    let events = [Event::WokeFirst];
    explore("mutex, owner twice", &explorer, &events, || {
        let guarded = Guarded::new();
        let other = guarded.clone();
        spawn(move || {
            guarded.mutex.lock();
            assert!(!guarded.mutex.lock_until(DEADLINE));
            guarded.work();
            guarded.unlock();
        });
        spawn(move || other.lock_work_unlock());
    });
}

/// The heir reaches its deadline when the mutex is handed to it.
#[test]
fn an_heir_that_times_out() {
    let events = [Event::CancelGranted, Event::Cancelled];
    explore_to(
        LATE,
        "mutex, late heir",
        &Explorer::new().whims(1),
        &events,
        || {
            let guarded = Guarded::new();
            let other = guarded.clone();
            let last = Rc::clone(&guarded);
            spawn(move || guarded.unlock_fairly());
            spawn(move || other.lock_in_time());
            afterwards(move || assert!(!last.mutex.is_locked()));
        },
    );
}

/// Who uses the mutex last frees it, as C++ programs do.
fn use_and_free(guarded: &Guarded, fairly: bool) {
    guarded.mutex.lock();
    guarded.work();
    let last = guarded.payload.get() == 2;
    if fairly {
        // SAFETY: locked above.
        unsafe { guarded.mutex.unlock_fair() };
    } else {
        guarded.unlock();
    }
    if last {
        free(&guarded.mutex);
    }
}

#[test]
fn freed_after_the_last_use() {
    explore(
        "mutex, freed",
        &Explorer::new().whims(3),
        &[Event::WokeFirst],
        || {
            tasks(&[3, 3], |guarded| use_and_free(guarded, false));
        },
    );
}

#[test]
fn freed_after_a_hand_over() {
    explore(
        "mutex, freed by the heir",
        &Explorer::new().whims(2),
        &[Event::HandedOff],
        || {
            tasks(&[2, 2], |guarded| use_and_free(guarded, true));
        },
    );
}

/// An owner comes back for a mutex whose first waiter is awake and does not run.
#[test]
fn an_owner_that_finds_the_first_late() {
    let explorer = Explorer::new().whims(4).inspecting();
    let events = [Event::FoundLate, Event::MadeWay, Event::Recalled];
    for explorer in [explorer, explorer.keeping()] {
        for changes in 1..=3 {
            let explorer = explorer.pct(1, changes, 40_000);
            explore_to(LATE, "mutex, a late first", &explorer, &events, || {
                let guarded = tasks(&[4, 3], |guarded| {
                    guarded.lock_work_unlock();
                    guarded.lock_work_unlock();
                });
                afterwards(move || {
                    assert_eq!(guarded.payload.get(), 4);
                    assert!(!guarded.mutex.is_locked());
                });
            });
        }
    }
}

/// Each task takes the mutex twice, and what it took stays reserved for it.
#[test]
fn kept_by_two() {
    let explorer = Explorer::new().whims(1).keeping().polling();
    let events = [Event::Revoked, Event::Recalled];
    explore("mutex, kept by 2", &explorer, &events, || {
        let guarded = tasks(&[0, 1], |guarded| {
            guarded.lock_work_unlock();
            guarded.lock_work_unlock();
        });
        afterwards(move || {
            assert_eq!(guarded.payload.get(), 4);
            assert!(!guarded.mutex.is_locked());
        });
    });
}

/// A keeper comes back while another revokes and goes to sleep when it was too late.
#[test]
fn kept_by_one() {
    let explorer = Explorer::new().whims(2).keeping();
    let events = [Event::Revoked, Event::Parked, Event::WokeFirst];
    explore("mutex, kept by 1", &explorer, &events, || {
        let guarded = Guarded::new();
        let (keeper, other) = (guarded.clone(), guarded.clone());
        spawn(move || {
            limit_whims(0);
            keeper.lock_work_unlock();
            keeper.lock_work_unlock();
        });
        spawn(move || other.lock_work_unlock());
        afterwards(move || assert_eq!(guarded.payload.get(), 3));
    });
}

#[test]
fn kept_by_three_at_random() {
    let explorer = Explorer::new().whims(3).keeping();
    for explorer in [
        explorer.random(0, 10_000),
        explorer.pct(0, 3, 10_000),
        explorer.seldom().pct(0, 3, 10_000),
    ] {
        explore("mutex of 3, kept", &explorer, &[Event::Revoked], || {
            let guarded = of_all_kinds();
            afterwards(move || assert!(!guarded.mutex.is_locked()));
        });
    }
}

#[test]
fn kept_by_one_in_the_shortest_ways() {
    let explorer = Explorer::new().whims(2).keeping();
    let events = [Event::Revoked, Event::Parked, Event::WokeFirst];
    explore("mutex, kept, shortly", &explorer, &events, || {
        let guarded = tasks(&[0, 2], |guarded| {
            (0..2).for_each(|_| guarded.lock_work_unlock_shortly());
        });
        afterwards(move || assert_eq!(guarded.payload.get(), 4));
    });
}

#[test]
fn three_in_the_shortest_ways() {
    let explorer = Explorer::new().whims(3).keeping();
    for explorer in [explorer.fickle(), explorer.pairing(), explorer.inspecting()] {
        let explorer = explorer.pct(0, 3, 10_000);
        explore("mutex of 3, shortly", &explorer, &[Event::Revoked], || {
            let guarded = tasks(&[1, 1, 1], |guarded| {
                (0..2).for_each(|_| guarded.lock_work_unlock_shortly());
            });
            afterwards(move || assert!(!guarded.mutex.is_locked()));
        });
    }
}

#[test]
fn freed_while_kept() {
    let explorer = Explorer::new().whims(2).keeping();
    explore("mutex, freed, kept", &explorer, &[Event::Revoked], || {
        tasks(&[1, 2], |guarded| use_and_free(guarded, false));
    });
}

#[test]
fn tried_while_kept() {
    let explorer = Explorer::new().whims(1).keeping();
    explore("mutex, tried, kept", &explorer, &[Event::Revoked], || {
        let guarded = tasks(&[1, 1], |guarded| {
            (0..2).for_each(|_| guarded.lock_at_once());
        });
        afterwards(move || assert!(!guarded.mutex.is_locked()));
    });
}
