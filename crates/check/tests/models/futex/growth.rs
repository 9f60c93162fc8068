//! A table that grows from one bucket to two, or to four: against all that meets in it.

use super::*;

type Growing = SharedIn<1, 2>;

/// A key whose waiters stand in this bucket of two.
fn key_in(slot: usize) -> Key {
    key_among::<2>(slot)
}

/// A key whose waiters stand in this bucket of so many.
fn key_among<const BUCKETS: usize>(slot: usize) -> Key {
    let table = Table::<Check, BUCKETS>::new();
    let mut keys = (1..).map(|n| Key::private(1, n * 4));
    keys.find(|key| table.slot(key) == slot)
        .expect("half of all do")
}

/// The waiters of `a` will be in the new bucket, those of `b` in the old one. A task
/// doubles the table.
fn growing() -> Rc<Growing> {
    let shared = Growing::new(key_in(1), key_in(0));
    let grower = Rc::clone(&shared);
    spawn(move || grower.futex.grow());
    shared
}

const SPLIT: [Event; 2] = [Event::BucketSplit, Event::Parked];

/// One waits, one wakes it, whether they come before the split or after.
#[test]
fn no_lost_wake_up() {
    let explorer = Explorer::new().whims(1).pct(1, 3, 6_000);
    for (waiter, which) in WAITERS {
        let name = format!("futex, growth{which}");
        explore(&name, &explorer, &SPLIT, move || {
            wait_and_wake(growing(), waiter, None);
        });
    }
}

/// The table is doubled twice, by a task each: who looks for a waiter may be two depths
/// behind, or ahead.
#[test]
fn two_doublings() {
    for (name, from) in [("last", 3), ("third", 2)] {
        let explorer = Explorer::new().whims(1).pct(1, 4, 2_000);
        let name = format!("futex, two doublings, {name} bucket");
        explore(&name, &explorer, &SPLIT, move || {
            let shared = SharedIn::<1, 4>::new(key_among::<4>(from), key_among::<4>(0));
            wait_and_wake(Rc::clone(&shared), RANKED, None);
            for _ in 0..2 {
                let grower = Rc::clone(&shared);
                spawn(move || {
                    grower.futex.grow();
                    grower.futex.grow();
                });
            }
        });
    }
}

#[test]
fn wake_against_timeout() {
    let explorer = Explorer::new().whims(1).pct(1, 3, 3_000);
    let events = [Event::BucketSplit, Event::Cancelled];
    for (waiter, which) in WAITERS {
        let name = format!("futex, growth, deadline{which}");
        explore(&name, &explorer, &events, move || {
            wait_and_wake(growing(), waiter, Some(DEADLINE));
        });
    }
}

/// Who has changed the first word finds the waiter, moved or not, by whomever.
#[test]
fn requeue_against_wake() {
    let explorer = Explorer::new().whims(1).pct(1, 3, 3_000);
    let events = [Event::BucketSplit, Event::Requeued];
    for (from, to) in [(1, 0), (0, 1)] {
        let name = format!("futex, growth, requeue from {from}");
        explore(&name, &explorer, &events, move || {
            let shared = Growing::new(key_in(from), key_in(to));
            requeue_and_wake(&shared, Waiter::ANY);
            spawn(move || shared.futex.grow());
        });
    }
}

/// One waits for a word of each bucket.
#[test]
fn wait_for_two_words() {
    let explorer = Explorer::new().whims(1).pct(1, 3, 3_000);
    explore("futex, growth, two words", &explorer, &SPLIT, || {
        wait_for_both(&growing(), None, &[&[false, true]]);
    });
}

/// Some stay and some move, and all keep their order.
#[test]
fn waiters_keep_their_order() {
    let explorer = Explorer::new().whims(1).pct(1, 2, 100);
    explore("futex, growth, order", &explorer, &SPLIT, || {
        let shared = Growing::new(key_in(1), key_in(0));
        let turn = Rc::new(CheckWord::ZERO);
        for n in 0..4 {
            let (shared, turn) = (Rc::clone(&shared), Rc::clone(&turn));
            spawn(move || {
                let place = if n % 2 == 0 { &shared.a } else { &shared.b };
                let comes = |now| now == n;
                Check::spin_until(&turn, Relaxed, Look::Poll, FOREVER, comes, || false);
                let stands = || {
                    turn.store(n + 1, Relaxed); // the gate is closed until it stands there
                    true
                };
                (shared.futex).wait(&place.key, Waiter::ANY, stands, None);
                assert_eq!(turn.load(Acquire), 5 + n, "they are woken in turn");
                turn.store(6 + n, Release);
            });
        }
        spawn(move || {
            Check::spin_until(
                &turn,
                Relaxed,
                Look::Poll,
                FOREVER,
                |now| now == 4,
                || false,
            );
            shared.futex.grow();
            turn.store(5, Release);
            for n in 0..4 {
                let place = if n % 2 == 0 { &shared.a } else { &shared.b };
                assert_eq!(shared.wake(place, 1), 1);
                let woken = |now| now == 6 + n;
                Check::spin_until(&turn, Acquire, Look::Poll, FOREVER, woken, || false);
            }
        });
    });
}
