//! Models of the futex. Those of words that processes share are in `shared`.

mod alone;
mod borrowed;
mod growth;
mod harness;
mod lookup;
mod mapped;
mod programs;
mod shared;
mod signal;

use std::{cell::Cell, collections::HashSet, num::NonZeroU32, rc::Rc};

use harness::*;
use lockyard_check::{Check, CheckWord, Explorer, Tracked, Wakes, afterwards, limit_whims, spawn};
use lockyard_core::{
    Deadline, Event, FOREVER, Look,
    Ordering::{Acquire, Relaxed, Release},
    Platform, RawMutex, TaskId, Word,
    futex::{Key, Table, Waited, WaitedAfter, WaitedAny, Waiter},
};

use crate::{DEADLINE, explore};

/// One waits, one changes the word and wakes.
fn wait_and_wake<const FIRST: usize, const MOST: usize>(
    shared: Rc<SharedIn<FIRST, MOST>>,
    waiter: Waiter,
    deadline: Option<Deadline>,
) {
    let waker = Rc::clone(&shared);
    let ended = Rc::clone(&shared);
    spawn(move || {
        if shared.wait_as(&shared.a, waiter, deadline) != Waited::TimedOut {
            assert_eq!(shared.a.payload.get(), 1);
        }
    });
    spawn(move || {
        waker.change(&waker.a);
        waker.wake(&waker.a, 1);
    });
    afterwards(move || {
        let woken = ended.waited.get()[1] == Some(Waited::Woken);
        assert_eq!(
            ended.woke.get()[2],
            u32::from(woken),
            "who is woken is told"
        );
    });
}

#[test]
fn no_lost_wake_up() {
    let explorer = Explorer::new().whims(1);
    for (waiter, which) in WAITERS {
        let name = format!("futex{which}");
        explore(&name, &explorer, &[Event::Parked], move || {
            wait_and_wake(apart(), waiter, None);
        });
    }
}

/// What happened before a wake-up happens before the wait returns, whatever made
/// the waiter look.
#[test]
fn spurious_wakes() {
    let explorer = Explorer::new().whims(1).wakes(Wakes::Permissive(1));
    for (waiter, which) in WAITERS {
        let name = format!("futex, spurious wakes{which}");
        explore(&name, &explorer, &[Event::Parked], move || {
            let shared = apart();
            let waker = Rc::clone(&shared);
            spawn(move || {
                if shared.wait_as(&shared.a, waiter, None) == Waited::Woken {
                    assert_eq!(shared.a.payload.get(), 1);
                }
            });
            spawn(move || {
                waker.announce_by_wake();
            });
        });
    }
}

#[test]
fn wake_against_timeout() {
    let events = [Event::Cancelled, Event::CancelGranted, Event::GateParked];
    let explorer = Explorer::new().whims(2);
    for (waiter, which) in WAITERS {
        let name = format!("futex, deadline{which}");
        explore(&name, &explorer, &events, move || {
            wait_and_wake(apart(), waiter, Some(DEADLINE));
        });
    }
}

/// Of two waiters the first may give up, and who is woken wakes the other: no
/// wake-up goes to one that says that it has timed out.
#[test]
fn a_wake_up_is_passed_on() {
    let explorer = Explorer::new().whims(1).pct(1, 3, 6_000);
    let events = [Event::Cancelled, Event::Parked];
    explore("futex, passed on", &explorer, &events, || {
        let shared = apart();
        for deadline in [Some(DEADLINE), None] {
            let shared = Rc::clone(&shared);
            spawn(move || {
                if shared.wait(&shared.a, deadline) == Waited::Woken {
                    shared.wake(&shared.a, 1);
                }
            });
        }
        spawn(move || {
            shared.change(&shared.a);
            shared.wake(&shared.a, 1);
        });
    });
}

/// A copy of the address space is made when the task has counted itself, and is about to
/// stand in the queue: it still comes out of that at its deadline.
#[test]
fn forgotten_in_the_midst_of_it() {
    let events = [Event::Cancelled];
    explore("futex, forgotten", &Explorer::new(), &events, || {
        let shared = apart();
        spawn(move || {
            let forgotten = || {
                shared.futex.forget();
                true
            };
            let (a, deadline) = (&shared.a.key, Some(DEADLINE));
            let waited = (shared.futex).wait(a, Waiter::ANY, forgotten, deadline);
            assert_eq!(waited, Waited::TimedOut);
        });
    });
}

/// One waits for the first word, one requeues from there to the second, and one changes
/// the first and wakes at both.
fn requeue_and_wake<const FIRST: usize, const MOST: usize>(
    shared: &Rc<SharedIn<FIRST, MOST>>,
    waits: Waiter,
) {
    let [waiter, requeuer, waker] = [(); 3].map(|()| Rc::clone(shared));
    spawn(move || {
        waiter.wait_as(&waiter.a, waits, None);
    });
    spawn(move || {
        requeuer.requeue();
    });
    spawn(move || {
        waker.change(&waker.a);
        waker.wake(&waker.b, 1);
        waker.wake(&waker.a, 1);
    });
}

/// Who has changed the first word, and then finds nobody at the second, finds
/// who waited at the first: a requeue has come before, or finds the word changed.
#[test]
fn requeue_against_wake() {
    for (waiter, which) in WAITERS {
        for (gate, is) in [
            ("inner", usize::gt as fn(&_, &_) -> _),
            ("outer", usize::lt),
        ] {
            let name = format!("futex, requeue to the {gate} gate{which}");
            explore(&name, &Explorer::new(), &[Event::Requeued], move || {
                requeue_and_wake(&Shared::new(A, another(A, is)), waiter);
            });
        }
    }
}

/// A waiter leaves while it is moved, and is woken where it was moved to.
#[test]
fn requeue_against_timeout() {
    let events = [Event::Requeued, Event::Cancelled];
    let explorer = Explorer::new().whims(2);
    for (waits, which) in WAITERS {
        let name = format!("futex, requeue, deadline{which}");
        explore(&name, &explorer, &events, move || {
            let shared = apart();
            let (waiter, ended) = (Rc::clone(&shared), Rc::clone(&shared));
            spawn(move || {
                waiter.wait_as(&waiter.a, waits, Some(DEADLINE));
            });
            spawn(move || {
                limit_whims(0);
                shared.requeue();
                shared.wake(&shared.b, 1);
            });
            afterwards(move || {
                let woken = ended.waited.get()[1] == Some(Waited::Woken);
                assert_eq!(ended.woke.get()[2], u32::from(woken));
            });
        });
    }
}

/// Two tasks requeue in opposite directions, between two buckets and within one.
#[test]
fn requeue_both_ways() {
    for (buckets, is) in [("two", usize::gt as fn(&_, &_) -> _), ("one", usize::eq)] {
        let name = format!("futex, both ways, {buckets}");
        explore(&name, &Explorer::new(), &[], move || {
            let shared = Shared::new(A, another(A, is));
            let other = Rc::clone(&shared);
            spawn(move || {
                shared.requeue();
            });
            spawn(move || {
                (other.futex).requeue(&other.b.key, &other.a.key, (1, 1), || true);
            });
        });
    }
}

/// One waits at each of two words whose waiters stand in one bucket, or in two:
/// a wake-up goes to the word that it is for.
fn two_words(a: Key, b: Key) {
    let shared = Shared::new(a, b);
    let (at_a, at_b) = (Rc::clone(&shared), Rc::clone(&shared));
    spawn(move || {
        if at_a.wait(&at_a.a, None) != Waited::TimedOut {
            assert_eq!(at_a.a.payload.get(), 1);
        }
    });
    spawn(move || {
        if at_b.wait(&at_b.b, None) != Waited::TimedOut {
            assert_eq!(at_b.b.payload.get(), 1);
        }
    });
    spawn(move || {
        shared.change(&shared.a);
        shared.wake(&shared.a, 1);
        shared.change(&shared.b);
        shared.wake(&shared.b, 1);
    });
}

#[test]
fn two_keys_in_one_bucket() {
    let explorer = Explorer::new().whims(1).pct(1, 2, 8_000);
    explore("futex, one bucket", &explorer, &[Event::Parked], || {
        two_words(A, another(A, usize::eq));
    });
}

/// Keys that differ in one field are two words', wherever their waiters stand.
#[test]
fn every_field_is_compared() {
    let alike = [
        (Key::private(1, 1 << 32 | 4), Key::private(1, 4)),
        (Key::private(1, 8), Key::private(1, 4)),
        (Key::private(1, 4), Key::private(2, 4)),
        (Key::private(1, 4), Key::private(1 << 32 | 1, 4)),
        (Key::private(1, 4), Key::shared(1, 4)),
    ];
    for (number, (a, b)) in alike.into_iter().enumerate() {
        let name = format!("futex, field {number} is compared");
        explore(&name, &Explorer::new(), &[], move || {
            // One bucket for all: only the comparison tells them apart.
            let futex = Rc::new(Table::<Check, 1>::new());
            let word = Rc::new(CheckWord::ZERO);
            let (waiting, waited) = (Rc::clone(&futex), Rc::clone(&word));
            spawn(move || {
                waiting.wait(&a, Waiter::ANY, || waited.load(Relaxed) == 0, None);
            });
            spawn(move || {
                assert_eq!(futex.wake(&b, ALL, EVERY_BIT), 0, "{b:?} is not {a:?}");
                word.store(1, Relaxed);
                futex.wake(&a, ALL, EVERY_BIT);
            });
        });
    }
}

/// Keys that differ in one field alone are spread over the buckets, and neighbouring
/// words are spread evenly.
#[test]
fn every_field_is_hashed() {
    type With = fn(u64) -> Key;
    let fields: [(&str, With); 7] = [
        ("address", |n| Key::private(1, n * 4)),
        ("page", |n| Key::private(1, n << 12)),
        ("upper half of the address", |n| Key::private(1, n << 32)),
        ("top of the address", |n| Key::private(1, n << 48)),
        ("space", |n| Key::private(n, 64)),
        ("upper half of the object", |n| Key::shared(n << 32, 64)),
        ("kind", |n| match n % 2 {
            0 => Key::private(n / 2, 64),
            _ => Key::shared(n / 2, 64),
        }),
    ];
    explore("futex, hash", &Explorer::new(), &[], move || {
        const BUCKETS: usize = 16;
        const KEYS: u64 = 64 * 16;
        for (field, key) in fields {
            let table = Table::<Check, BUCKETS>::new();
            let mut counts = [0; BUCKETS];
            (0..KEYS).for_each(|n| counts[table.slot(&key(n))] += 1);
            let most = counts.into_iter().max().expect("there are buckets");
            assert!(
                most < 64 * 2,
                "{field}: {most} keys of {KEYS} in one bucket"
            );
        }
        let table = Table::<Check, { 16 * BUCKETS }>::new();
        let words = (0..2 * BUCKETS as u64).map(|n| Key::private(1, n * 4));
        let slots: HashSet<_> = words.map(|key| table.slot(&key)).collect();
        assert_eq!(slots.len(), 2 * BUCKETS, "neighbours share buckets");
        // What the kind adds moves every key.
        let table = Table::<Check, BUCKETS>::new();
        let slots = |n| [Key::private(n, 64), Key::shared(n, 64)].map(|key| table.slot(&key));
        let moved = (0..KEYS).filter(|&n| slots(n)[0] != slots(n)[1]).count();
        assert!(
            moved > KEYS as usize * 7 / 8,
            "kind: {moved} keys of {KEYS} move"
        );
    });
}

/// A waiter is woken by a bit that it waits for, and by no other.
#[test]
fn bitsets() {
    explore(
        "futex, bit sets",
        &Explorer::new(),
        &[Event::Parked],
        || {
            let shared = apart();
            let waiter = Rc::clone(&shared);
            let set = |bits| NonZeroU32::new(bits).expect("a bit");
            spawn(move || {
                let waits = Waiter {
                    bitset: set(0b0110),
                    rank: 0,
                };
                waiter.wait_as(&waiter.a, waits, None);
            });
            spawn(move || {
                let wake = |bits| shared.futex.wake(&shared.a.key, ALL, set(bits));
                assert_eq!(wake(0b1001), 0);
                shared.change(&shared.a);
                wake(0b0100);
            });
        },
    );
}

/// Two waiters are woken together, and may wait again while their waker is still at
/// it: it is done with a node before it says so.
#[test]
fn a_chain_of_two() {
    let explorer = Explorer::new().wakes(Wakes::Permissive(1)).pct(1, 3, 6_000);
    explore("futex, chain", &explorer, &[Event::Parked], || {
        let shared = apart();
        for _ in 0..2 {
            let shared = Rc::clone(&shared);
            spawn(move || {
                shared.wait(&shared.a, None);
                let (b, unchanged) = (&shared.b.key, || true);
                (shared.futex).wait(b, Waiter::ANY, unchanged, Some(DEADLINE));
            });
        }
        spawn(move || {
            shared.change(&shared.a);
            shared.wake(&shared.a, 2);
        });
    });
}

/// One waits for both words, others change them and wake: each wake-up that is counted
/// is told, whatever the later word was.
fn wait_for_both<const FIRST: usize, const MOST: usize>(
    shared: &Rc<SharedIn<FIRST, MOST>>,
    deadline: Option<Deadline>,
    wakers: &[&[bool]],
) {
    let (waiter, ended) = (Rc::clone(shared), Rc::clone(shared));
    let any = Rc::new(Cell::new(0));
    let said = Rc::clone(&any);
    spawn(move || {
        let places = [&waiter.a, &waiter.b];
        let unchanged = |index: usize| places[index].word.load(Acquire) == 0;
        let key = |index: usize| places[index].key;
        let waited = (waiter.futex).wait_any(2, key, Waiter::ANY, unchanged, deadline);
        match waited {
            WaitedAny::Woken(words) => {
                said.set(words.count_ones());
                for (index, place) in places.into_iter().enumerate() {
                    assert!(words >> index & 1 == 0 || place.payload.get() == 1);
                }
            }
            WaitedAny::Changed(index) => assert_eq!(places[index].payload.get(), 1),
            WaitedAny::TimedOut => assert!(deadline.is_some()),
        }
    });
    for &order in wakers {
        let shared = Rc::clone(shared);
        let order = order.to_vec();
        spawn(move || {
            for at_b in order {
                let place = if at_b { &shared.b } else { &shared.a };
                shared.change(place);
                shared.wake(place, 1);
            }
        });
    }
    afterwards(move || assert_eq!(any.get(), ended.woke.get().iter().sum::<u32>()));
}

#[test]
fn woken_while_still_queueing() {
    explore(
        "futex, two words",
        &Explorer::new(),
        &[Event::Parked],
        || {
            wait_for_both(&apart(), None, &[&[false, true]]);
        },
    );
}

#[test]
fn two_wakers_of_one() {
    let explorer = Explorer::new().whims(2).pct(1, 3, 5_000);
    let events = [Event::Parked, Event::Cancelled];
    explore("futex, two wakers", &explorer, &events, || {
        wait_for_both(&apart(), None, &[&[false], &[true]]);
    });
    explore("futex, two wakers, deadline", &explorer, &events, || {
        wait_for_both(&apart(), Some(DEADLINE), &[&[true], &[false]]);
    });
}

/// The most urgent first, then in the order of arrival.
#[test]
fn by_rank_and_then_by_arrival() {
    const RANKS: [u32; 4] = [0, 2, 0, 2];
    let explorer = Explorer::new().pct(1, 2, 500);
    explore("futex, ranks", &explorer, &[Event::Parked], || {
        let shared = apart();
        let turn = Rc::new(CheckWord::ZERO);
        let await_turn = |turn: &CheckWord, n| {
            Check::spin_until(turn, Relaxed, Look::Poll, FOREVER, |now| now == n, || false);
        };
        for (n, rank) in (0..).zip(RANKS) {
            let (shared, turn) = (Rc::clone(&shared), Rc::clone(&turn));
            spawn(move || {
                await_turn(&turn, n);
                let waiter = Waiter {
                    rank,
                    ..Waiter::ANY
                };
                let stands = || {
                    turn.store(n + 1, Relaxed); // the gate is closed until it stands there
                    true
                };
                let waited = (shared.futex).wait(&shared.a.key, waiter, stands, None);
                assert_eq!(waited, Waited::Woken);
                shared.b.payload.set(shared.b.payload.get() * 10 + n);
                turn.store(turn.load(Relaxed) + 1, Release);
            });
        }
        spawn(move || {
            await_turn(&turn, RANKS.len() as u32);
            for woken in 1..=RANKS.len() as u32 {
                assert_eq!(shared.wake(&shared.a, 1), 1);
                let done = |now| now == RANKS.len() as u32 + woken;
                Check::spin_until(&turn, Acquire, Look::Poll, FOREVER, done, || false);
            }
            assert_eq!(shared.b.payload.get(), 1302);
        });
    });
}

/// One waits for each word.
fn one_at_each(shared: &Rc<Shared>) {
    for at_b in [false, true] {
        let shared = Rc::clone(shared);
        spawn(move || {
            let place = if at_b { &shared.b } else { &shared.a };
            shared.wait(place, None);
        });
    }
}

/// A change of the second word inside the gates wakes waiters of both words.
#[test]
fn wake_of_two_words() {
    let explorer = Explorer::new().whims(2).pct(1, 2, 8_000);
    explore("futex, wake_op", &explorer, &[Event::Parked], || {
        let shared = apart();
        one_at_each(&shared);
        spawn(move || {
            shared.change(&shared.a);
            let change = || shared.b.word.swap(1, Relaxed) == 0;
            let (a, b) = (&shared.a.key, &shared.b.key);
            shared.futex.wake_op((a, ALL), (b, ALL), change);
        });
    });
}

/// A mutex of three states (Drepper, Futexes Are Tricky): free, taken, taken and
/// maybe waited for.
struct Mutex {
    futex: Table<Check, SLOTS>,
    word: CheckWord,
    payload: Tracked<u32>,
}

impl Mutex {
    fn lock(&self) {
        let take = |old, new| self.word.compare_exchange(old, new, Acquire, Relaxed);
        if take(0, 1).is_ok() {
            return;
        }
        while self.word.swap(2, Acquire) != 0 {
            let waited_for = || self.word.load(Relaxed) == 2;
            self.futex.wait(&A, Waiter::ANY, waited_for, None);
        }
    }

    fn unlock(&self) {
        if self.word.swap(0, Release) == 2 {
            self.futex.wake(&A, 1, EVERY_BIT);
        }
    }
}

fn mutex_of(tasks: u32) {
    let mutex = Rc::new(Mutex {
        futex: Table::new(),
        word: CheckWord::ZERO,
        payload: Tracked::new(0),
    });
    for _ in 0..tasks {
        let mutex = Rc::clone(&mutex);
        spawn(move || {
            mutex.lock();
            mutex.payload.set(mutex.payload.get() + 1);
            mutex.unlock();
        });
    }
    afterwards(move || assert_eq!(mutex.payload.get(), tasks));
}

#[test]
fn a_mutex_of_its_user() {
    let two = Explorer::new().whims(1);
    explore("mutex of a user", &two, &[Event::Parked], || mutex_of(2));
    let three = Explorer::new().whims(1).pct(1, 3, 6_000);
    explore("mutex of a user, 3", &three, &[Event::Parked], || {
        mutex_of(3)
    });
}
