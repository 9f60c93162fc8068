//! A waiter that has a bucket to itself, until somebody else comes.

use super::*;

/// Two words whose waiters stand in one bucket.
fn together() -> Rc<Shared> {
    Shared::new(A, another(A, usize::eq))
}

/// Who stood alone has been woken, and finds another there: its waker, who waits for the
/// other word since. It sees all the same what that one did before.
#[test]
fn the_next_one() {
    let explorer = Explorer::new().whims(1);
    let events = [Event::Parked, Event::Cancelled];
    explore("futex, the next alone", &explorer, &events, || {
        let shared = together();
        let waiter = Rc::clone(&shared);
        spawn(move || {
            if waiter.wait(&waiter.a, None) == Waited::Woken {
                assert_eq!(waiter.a.payload.get(), 1);
            }
        });
        spawn(move || {
            shared.announce_by_wake();
            shared.wait(&shared.b, Some(DEADLINE));
        });
    });
}

/// One comes to wait for another word of the bucket, whom nobody wakes: the first has been
/// woken only if a waker says so.
#[test]
fn one_more_comes() {
    let explorer = Explorer::new().whims(1).pct(1, 3, 8_000);
    let events = [Event::Parked, Event::Cancelled];
    explore("futex, one more", &explorer, &events, || {
        let shared = together();
        wait_and_wake(Rc::clone(&shared), Waiter::ANY, None);
        spawn(move || {
            assert_eq!(shared.wait(&shared.b, Some(DEADLINE)), Waited::TimedOut);
        });
    });
}

/// Whom a requeue has moved sleeps on the word of the bucket that it was alone in, and so
/// does who stands there alone since.
#[test]
fn two_in_one_bed() {
    let explorer = Explorer::new().whims(1).pct(1, 3, 8_000);
    let events = [Event::Parked, Event::Requeued];
    explore("futex, two in a bed", &explorer, &events, || {
        let shared = apart();
        for _ in 0..2 {
            let shared = Rc::clone(&shared);
            spawn(move || {
                shared.wait(&shared.a, None);
            });
        }
        spawn(move || {
            shared.requeue();
            shared.change(&shared.a);
            shared.wake(&shared.a, ALL);
            shared.wake(&shared.b, ALL);
        });
    });
}

/// A waiter is moved to a word at which another stands alone: one waker finds both.
#[test]
fn moved_to_one() {
    let explorer = Explorer::new().whims(1).pct(1, 3, 8_000);
    let events = [Event::Parked, Event::Requeued];
    explore("futex, moved to one", &explorer, &events, || {
        let shared = apart();
        one_at_each(&shared);
        spawn(move || {
            shared.requeue();
            shared.change(&shared.a);
            shared.change(&shared.b);
            shared.wake(&shared.b, ALL);
            shared.wake(&shared.a, ALL);
        });
    });
}

/// One that has left a queue at its deadline waits again, alone.
#[test]
fn after_a_deadline() {
    let explorer = Explorer::new().whims(1);
    let events = [Event::Parked, Event::Cancelled];
    explore("futex, after a deadline", &explorer, &events, || {
        let shared = together();
        let waiter = Rc::clone(&shared);
        spawn(move || {
            waiter.wait_as(&waiter.b, RANKED, Some(DEADLINE));
            waiter.wait(&waiter.a, None);
        });
        spawn(move || {
            limit_whims(0); // what may interrupt the waiter is enough, and leaves few executions
            shared.change(&shared.a);
            shared.wake(&shared.a, 1);
        });
    });
}

/// A waiter whom one table's waker tells has come to wait in another, larger one: its place
/// there is none of the first.
#[test]
fn told_in_another_table() {
    let explorer = Explorer::new().pct(1, 4, 20_000);
    explore("futex, two tables", &explorer, &[], || {
        let small = Rc::new(Table::<Check, 1>::new());
        let large = Rc::new(Table::<Check, 4>::new());
        let word = Rc::new(CheckWord::ZERO);
        let key = Key::private(1, 4096);
        let keys = (1..).map(|n| Key::private(1, n * 4));
        let far = { keys }.find(|key| large.slot(key) == 3).unwrap();
        let (first, next, changed) = (Rc::clone(&small), Rc::clone(&large), Rc::clone(&word));
        spawn(move || {
            first.wait(&key, Waiter::ANY, || changed.load(Relaxed) == 0, None);
            next.wait(&far, Waiter::ANY, || true, Some(DEADLINE));
        });
        spawn(move || {
            small.requeue(&key, &key, (0, 0), || true);
            word.store(1, Relaxed);
            small.wake(&key, 1, EVERY_BIT);
        });
        spawn(move || {
            large.requeue(&far, &far, (0, 0), || true);
        });
    });
}
