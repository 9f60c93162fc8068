//! Who runs at which level. Two tasks, 1 and 2, change who waits for what; the
//! others, from 3 on, own and wait because those say so, and never run. So the
//! models are small, and when both are done everything has its level.

use std::{cell::Cell, rc::Rc};

use lockyard_check::{
    Check, Explorer, Tracked, afterwards, free, lent_levels, level, name, set_level,
};
use lockyard_core::{
    Event, Platform, RawRtMutex,
    rtmutex::{Block, Start, adjust},
};

use super::{MOST, go, task};
use crate::{DEADLINE, LATE, explore, explore_to};

/// Locks, of which each has an owner.
pub(super) struct Chain(pub(super) Vec<RawRtMutex<Check, Block>>);

impl Chain {
    /// The first is owned by task 3, the next by 4, and so on.
    fn new() -> Rc<Self> {
        Self::of(&[3, 4, 5, 6])
    }

    /// The first is owned by the first of these, and so on.
    pub(super) fn of(owners: &[u32]) -> Rc<Self> {
        let called = ["a", "b", "c", "d", "e", "f"];
        let chain = Self(owners.iter().map(|_| RawRtMutex::new()).collect());
        for (lock, (&owner, called)) in chain.0.iter().zip(owners.iter().zip(called)) {
            name(lock, called);
            lock.lock_new_for(task(owner));
        }
        Rc::new(chain)
    }

    /// A task wants a lock.
    pub(super) fn begin(&self, number: u32, lock: usize) -> Start {
        begin(&self.0[lock], number)
    }

    /// A task waits for a lock.
    pub(super) fn wait(&self, number: u32, lock: usize) {
        start(&self.0[lock], number, Start::Waits);
    }

    /// It no longer does.
    pub(super) fn leave(&self, number: u32, lock: usize) {
        assert!(!self.ends(number, lock), "{lock} by {number}");
    }

    /// It no longer does; returns whether it has the lock.
    pub(super) fn ends(&self, number: u32, lock: usize) -> bool {
        // SAFETY: it waits there.
        unsafe { self.0[lock].cancel_for(task(number)) }
    }

    /// A task releases the lock, which it owns.
    pub(super) fn unlock(&self, number: u32, lock: usize) {
        // SAFETY: it is the owner.
        unsafe { self.0[lock].unlock_for(task(number)) };
    }
}

/// A task, which does nothing else, wants a lock, and this comes of it.
fn start(lock: &RawRtMutex<Check, Block>, number: u32, comes: Start) {
    assert_eq!(begin(lock, number), comes, "of {number}");
}

fn begin(lock: &RawRtMutex<Check, Block>, number: u32) -> Start {
    // SAFETY: the task waits for nothing else, and the models' locks stay.
    unsafe { lock.start_for(task(number)) }
}

/// A task gets another level of its own.
pub(super) fn change(number: u32, level: u32) {
    set_level(task(number), level);
    adjust::<Check>(task(number));
}

/// Puts the chain up, lets two tasks change it at the same time, and looks at the
/// levels in the end: of 3, 4, and so on.
fn levels(
    name: &str,
    events: &[Event],
    up: fn(&Chain),
    changes: [fn(&Chain); 2],
    levels: &'static [u32],
) {
    let explorer = Explorer::new().executions(100_000); // of one of them there are too many
    explore(
        &format!("rtmutex levels, {name}"),
        &explorer,
        events,
        move || {
            let chain = Chain::new();
            up(&chain);
            for change in changes {
                go(0, &chain, change);
            }
            afterwards(move || {
                let found = (3..).take(levels.len()).map(|number| level(task(number)));
                assert_eq!(
                    found.collect::<Vec<_>>(),
                    levels,
                    "and {} is there",
                    chain.0.len()
                );
            });
        },
    );
}

/// 4, which owns b, waits for a; 5, which owns c, waits for b.
fn linked(chain: &Chain) {
    chain.wait(4, 0);
    chain.wait(5, 1);
}

#[test]
fn a_level_reaches_the_end_of_the_chain() {
    let up = |chain: &Chain| {
        set_level(task(6), 3);
        set_level(task(7), 2);
        linked(chain);
    };
    let changes: [fn(&Chain); 2] = [|chain| chain.wait(6, 2), |chain| chain.wait(7, 1)];
    let events = [Event::ChainWalked, Event::ChainVisited];
    levels("two come", &events, up, changes, &[3, 3, 3]);
}

#[test]
fn a_chain_that_closes_while_it_is_walked() {
    let up = |chain: &Chain| {
        set_level(task(6), 3);
        chain.wait(5, 1);
    };
    let changes: [fn(&Chain); 2] = [|chain| chain.wait(6, 2), |chain| chain.wait(4, 0)];
    levels(
        "a link comes",
        &[Event::ChainWalked],
        up,
        changes,
        &[3, 3, 3],
    );
}

/// And the lock where it opens is freed: the walk does not touch it any more.
#[test]
fn a_chain_that_opens_while_it_is_walked() {
    let up = |chain: &Chain| {
        set_level(task(6), 3);
        linked(chain);
    };
    let open = |chain: &Chain| {
        chain.leave(4, 0);
        free(&chain.0[0]);
    };
    let changes: [fn(&Chain); 2] = [|chain| chain.wait(6, 2), open];
    let events = [Event::ChainChanged, Event::ChainVisited];
    levels("a link goes", &events, up, changes, &[0, 3, 3]);
}

#[test]
fn a_chain_that_moves_while_it_is_walked() {
    let up = |chain: &Chain| {
        set_level(task(6), 3);
        chain.wait(5, 1);
    };
    let move_on = |chain: &Chain| {
        chain.leave(5, 1);
        chain.wait(5, 0);
    };
    let changes: [fn(&Chain); 2] = [|chain| chain.wait(6, 2), move_on];
    levels(
        "a link moves",
        &[Event::ChainChanged],
        up,
        changes,
        &[3, 0, 3],
    );
}

/// A walk waits outside a gate, on top of a task that wants to come in; it does not
/// come back, for the chain is no more.
#[test]
fn a_visitor_and_a_sleeper() {
    for changes in [2, 4] {
        let explorer = Explorer::new().whims(1).pct(1, changes, MOST);
        let events = [Event::ChainVisited, Event::GateParked];
        explore("rtmutex, a visitor", &explorer, &events, || {
            let chain = Chain::new();
            set_level(task(6), 3);
            chain.wait(5, 1);
            go(0, &chain, |chain| chain.wait(6, 2));
            go(0, &chain, |chain| chain.leave(5, 1));
            go(1, &chain, |chain| assert!(!chain.0[1].lock_until(DEADLINE)));
            afterwards(move || {
                let found = [4, 5].map(|number| level(task(number)));
                assert_eq!(found, [0, 3], "and {} is there", chain.0.len());
            });
        });
    }
}

#[test]
fn who_leaves_takes_back_what_it_lent() {
    let up = |chain: &Chain| {
        set_level(task(6), 3);
        set_level(task(7), 2);
        linked(chain);
        chain.wait(6, 2);
        chain.wait(7, 1);
    };
    let changes: [fn(&Chain); 2] = [|chain| chain.leave(6, 2), |_| change(5, 1)];
    levels("one leaves", &[Event::Cancelled], up, changes, &[2, 2, 1]);
}

#[test]
fn a_waiter_gets_another_level() {
    let up = |chain: &Chain| {
        set_level(task(6), 3);
        set_level(task(7), 2);
        chain.wait(4, 0);
        chain.wait(6, 1);
    };
    let changes: [fn(&Chain); 2] = [|_| change(6, 1), |chain| chain.wait(7, 1)];
    levels("one falls", &[Event::ChainWalked], up, changes, &[2, 2]);
    let changes: [fn(&Chain); 2] = [|_| change(6, 4), |_| change(4, 3)];
    levels("two rise", &[Event::ChainWalked], up, changes, &[4, 4]);
}

/// A walk follows a chain on behalf of 5, which falls apart meanwhile: 4 gives up,
/// and releases what 5 wants to 7. What then looks like a circle is none.
#[test]
fn no_innocent_is_blamed() {
    let explorer = Explorer::new().pct(1, 2, MOST);
    let events = [Event::ChainChanged, Event::WokeFirst];
    explore("rtmutex, an innocent", &explorer, &events, || {
        let chain = Chain::new();
        set_level(task(7), 1);
        chain.0[3].lock_new_for(task(4));
        chain.wait(6, 3); // so that 4 always owes somebody something
        chain.wait(4, 0);
        chain.wait(7, 1);
        go(0, &chain, |chain| chain.wait(5, 1));
        go(0, &chain, |chain| {
            chain.leave(4, 0);
            chain.unlock(4, 1);
            chain.wait(4, 0);
            chain.wait(3, 2);
        });
        for _ in 3..=7 {
            go(0, &chain, |_| ()); // somebody to be woken
        }
    });
}

/// An owner would wait for itself, just when another comes: the owner is told, and
/// nobody else.
#[test]
fn who_waits_for_itself_is_to_blame() {
    let explorer = Explorer::new();
    let events = [Event::DeadlockFound];
    explore("rtmutex, the guilty", &explorer, &events, || {
        let chain = Chain::new();
        set_level(task(7), 1);
        go(0, &chain, |chain| start(&chain.0[0], 3, Start::Deadlock));
        go(0, &chain, |chain| chain.wait(7, 0));
    });
}

/// 3, which owns a, would wait for b, whose owner waits for a, and is told. 2 waits for b
/// meanwhile, and lends its level round the circle, of which it is no part: it just waits.
#[test]
fn who_stands_before_a_circle_waits() {
    for changes in 1..=3 {
        let explorer = Explorer::new().pct(1, changes, MOST);
        let events = [Event::DeadlockFound, Event::Parked];
        explore("rtmutex, a bystander", &explorer, &events, || {
            let chain = Chain::new();
            set_level(task(2), 1);
            chain.wait(4, 0);
            go(0, &chain, |chain| {
                start(&chain.0[1], 3, Start::Deadlock);
                chain.unlock(4, 1);
            });
            go(0, &chain, |chain| {
                chain.0[1].lock();
                chain.unlock(2, 1);
            });
        });
    }
}

/// 3, which owns a, would wait for b, whose owner waits for a: it does not, and what it
/// lent meanwhile is taken back, as far as it was passed on. 7, which waits for b, gets
/// another level at the same time, and passes on whatever is there.
#[test]
fn who_would_close_a_circle_leaves_no_trace() {
    let up = |chain: &Chain| {
        set_level(task(3), 3);
        set_level(task(7), 1);
        chain.wait(4, 0);
        chain.wait(7, 1);
    };
    let changes: [fn(&Chain); 2] = [
        |chain| start(&chain.0[1], 3, Start::Deadlock),
        |_| change(7, 2),
    ];
    let events = [Event::DeadlockFound, Event::Cancelled, Event::ChainWalked];
    levels("a circle", &events, up, changes, &[3, 2]);
}

/// The same, and the circle opens meanwhile: 4 gives up, and releases b. Then 3 has it, or
/// waits, or was told of a deadlock and is out of the queue; and what was found and is no
/// more does not take the lock along.
#[test]
fn a_circle_that_opens_while_it_is_found() {
    let explorer = Explorer::new();
    let ends = Rc::new([const { Cell::new(0_u32) }; 3]);
    let seen = Rc::clone(&ends);
    let events = [Event::DeadlockFound, Event::CancelGranted];
    explore_to(
        LATE,
        "rtmutex, an open circle",
        &explorer,
        &events,
        move || {
            let chain = Chain::new();
            set_level(task(3), 3);
            chain.wait(4, 0);
            let end = Rc::new(Cell::new(None));
            let its = Rc::clone(&end);
            go(0, &chain, move |chain| {
                its.set(Some(begin(&chain.0[1], 3)));
            });
            go(0, &chain, |chain| {
                chain.leave(4, 0);
                chain.unlock(4, 1);
            });
            go(0, &chain, |_| ()); // 3, to be woken
            let seen = Rc::clone(&seen);
            afterwards(move || {
                let end = end.get().expect("it was set");
                let b = &chain.0[1];
                let found = (b.is_locked(), b.is_contended(), level(task(4)));
                let due = match end {
                    Start::Took => (true, false, 0),
                    Start::Waits => (false, true, 0),
                    Start::Deadlock => (false, false, 0),
                };
                assert_eq!(found, due, "{end:?}");
                let count = &seen[end as usize];
                count.set(count.get() + 1);
            });
        },
    );
    assert!(ends.iter().all(|count| count.get() > 0), "{ends:?}");
}

/// 3 owns all three locks. Its lender falls, while another comes at a third lock:
/// at no moment is 3 lent less than what 5 lends it all the time.
#[test]
fn a_key_of_its_own_in_each_heap() {
    let explorer = Explorer::new();
    explore(
        "rtmutex, two keys",
        &explorer,
        &[Event::ChainWalked],
        || {
            let chain = Chain::new();
            for (lock, (waiter, level)) in [(4, 10), (5, 5)].into_iter().enumerate() {
                chain.0[lock].lock_new_for(task(3));
                set_level(task(waiter), level);
                chain.wait(waiter, lock);
            }
            chain.0[2].lock_new_for(task(3));
            set_level(task(6), 3);
            go(0, &chain, |_| change(4, 1));
            go(0, &chain, |chain| chain.wait(6, 2));
            afterwards(move || {
                let lent = lent_levels(task(3));
                assert_eq!(lent, [0, 10, 5], "{}", chain.0.len());
            });
        },
    );
}

/// A lock that task 1 owns, and in its queue, in this order, tasks of these
/// levels, which count who is first. They come only when they are woken.
struct Queue {
    lock: RawRtMutex<Check, Block>,
    been: Tracked<u32>,
}

impl Queue {
    /// In the queue are the tasks from `first` on.
    fn new(first: u32, levels: &[u32]) -> Rc<Self> {
        let queue = Rc::new(Self {
            lock: RawRtMutex::new(),
            been: Tracked::new(0),
        });
        name(&queue.lock, "lock");
        queue.lock.lock_new_for(task(1));
        for (number, &level) in (first..).zip(levels) {
            set_level(task(number), level);
            start(&queue.lock, number, Start::Waits);
        }
        queue
    }

    /// What a waiter does: it must come so many tasks after the first, if it
    /// matters.
    fn come(&self, after: Option<u32>) {
        Check::park(None);
        // SAFETY: started above.
        assert!(unsafe { self.lock.finish(None) });
        let been = self.been.get();
        assert!(after.is_none_or(|after| after == been), "after {been}");
        self.been.set(been + 1);
        self.unlock();
    }

    fn unlock(&self) {
        // SAFETY: a model unlocks what it has locked.
        unsafe { self.lock.unlock() };
    }
}

/// First those of the highest level, and first come among these.
#[test]
fn by_level_and_then_by_arrival() {
    let explorer = Explorer::new();
    explore("rtmutex, in order", &explorer, &[Event::WokeFirst], || {
        let queue = Queue::new(2, &[1, 1, 2, 1]);
        go(0, &queue, Queue::unlock);
        for place in [1, 2, 0, 3] {
            go(0, &queue, move |queue| queue.come(Some(place)));
        }
    });
}

/// The top waiter falls behind another before the release: the other is woken.
#[test]
fn the_right_top_waiter_is_woken() {
    let explorer = Explorer::new();
    explore(
        "rtmutex, another top",
        &explorer,
        &[Event::ChainWalked],
        || {
            let queue = Queue::new(2, &[3, 2]);
            go(0, &queue, |queue| {
                change(2, 1);
                queue.unlock();
            });
            go(0, &queue, |queue| queue.come(Some(1)));
            go(0, &queue, |queue| queue.come(Some(0)));
        },
    );
}

/// The top waiter falls behind another just when it is woken: then the other must
/// be, too.
#[test]
fn the_top_changes_when_the_lock_is_free() {
    let explorer = Explorer::new().executions(MOST);
    let events = [Event::TopChanged];
    explore(
        "rtmutex, another top of a free lock",
        &explorer,
        &events,
        || {
            let queue = Queue::new(3, &[3, 2]);
            go(0, &queue, Queue::unlock);
            go(0, &queue, |_| change(3, 1));
            go(0, &queue, |queue| queue.come(None));
            go(0, &queue, |queue| queue.come(None));
        },
    );
}
