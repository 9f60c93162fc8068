//! Random programs of two locks: tasks of any level, which may change, that take both in either
//! order where a deadlock is told.

use fastrand::Rng;
use lockyard_core::rtmutex::adjust;

use super::*;
use crate::programs::{
    self, Deed,
    last::{Last, Users},
};

struct Both<W: Policy>([Rc<Guarded<W>>; 2]);

impl<W: Policy> Both<W> {
    fn new() -> Rc<Self> {
        Rc::new(Self([Guarded::new("lock"), Guarded::new("the other")]))
    }
}

/// Two locks, and who is the last to use each.
struct Freed<W: Policy> {
    both: Rc<Both<W>>,
    users: [Users; 2],
}

impl<W: Policy> Freed<W> {
    fn new(users: u32) -> Rc<Self> {
        Rc::new(Self {
            both: Both::new(),
            users: [Users::new(users), Users::new(users)],
        })
    }

    /// The caller, who has a lock for the last time, unlocks it, and frees it if it is the last.
    fn unlock(&self, at: usize) {
        let (guarded, last) = (&self.both.0[at], self.users[at].count_owner(false));
        guarded.unlock();
        if last == Last::Alone {
            self.users[at].free(&guarded.lock);
        }
    }

    fn use_one(&self, at: usize, take: Take<W>) {
        take(&self.both.0[at]);
        self.unlock(at);
    }

    /// Uses both, this one first. Where that would be a deadlock it has the other alone.
    fn use_nested(&self, at: usize) {
        let [outer, inner] = [at, 1 - at].map(|at| &self.both.0[at]);
        outer.lock();
        match inner.checked() {
            true => self.unlock(1 - at),
            false => {
                outer.unlock();
                self.use_one(1 - at, Guarded::lock);
                outer.lock();
            }
        }
        self.unlock(at);
    }
}

/// A way to take a lock.
type Take<W> = fn(&Guarded<W>);

/// All of them, but for those that may end without it: who gives up takes it then.
fn takes<W: Policy>() -> [Take<W>; 4] {
    [
        Guarded::lock,
        // While others close a circle this one may be told of it, too.
        |guarded| {
            if !guarded.checked() {
                guarded.lock();
            }
        },
        |guarded| {
            if !guarded.lock.try_lock() {
                guarded.lock();
            }
        },
        |guarded| {
            if !guarded.lock.lock_until(DEADLINE) {
                guarded.lock();
            }
        },
    ]
}

/// A task that has left for good may still give another one another level.
fn last_use<W: Policy>(random: &mut Rng, _: u32) -> Deed<Freed<W>> {
    let (at, nested) = (random.usize(..2), random.bool());
    let (takes, [first, second]) = (takes(), [(); 2].map(|()| random.usize(..4)));
    let (level, other) = (random.u32(..3), random.bool().then(|| random.u32(..2)));
    Rc::new(move |freed| {
        if nested {
            freed.use_nested(at);
        } else {
            freed.use_one(at, takes[first]);
            freed.use_one(1 - at, takes[second]);
        }
        if let Some(other) = other {
            change(other + 1, level);
        }
    })
}

/// A task gets another level of its own.
fn change(number: u32, level: u32) {
    set_level(task(number), level);
    adjust::<Check>(task(number));
}

/// The tasks count from 0 here.
fn any_deed<W: Policy>(random: &mut Rng, me: u32) -> Deed<Both<W>> {
    let works: [fn(&Guarded<W>); 3] = [Guarded::lock_unlock, Guarded::until, Guarded::at_once];
    let (work, at) = (works[random.usize(..works.len())], random.usize(..2));
    let (level, other) = (random.u32(..3), random.u32(..2));
    match random.u32(..8) {
        0 | 1 => Rc::new(move |_| change(me + 1, level)),
        2 => Rc::new(move |_| change(other + 1, level)),
        3 | 4 => Rc::new(move |Both(both)| {
            if both[at].checked() {
                if both[1 - at].checked() {
                    both[1 - at].unlock();
                }
                both[at].unlock();
            }
        }),
        _ => Rc::new(move |Both(both)| work(&both[at])),
    }
}

fn nothing_is_lent() {
    for number in 1..=programs::TASKS {
        let lent = lent_levels(task(number)).last().copied();
        assert_eq!(lent.unwrap_or(0), 0, "task {number}");
    }
}

fn explore_programs<W: Policy>(name: &str, numbers: std::ops::Range<u64>) {
    let at_end = |Both(both): &Both<W>| {
        for guarded in both {
            assert!(!guarded.lock.is_locked() && !guarded.lock.is_contended());
        }
        nothing_is_lent();
    };
    let events = [Event::DeadlockFound, Event::ChainWalked, Event::Cancelled];
    programs::explore(name, numbers, &events, any_deed, Both::<W>::new, at_end);
}

fn explore_freed<W: Policy>(name: &str, numbers: std::ops::Range<u64>) {
    let any_deed = |random: &mut Rng, me| -> Deed<Freed<W>> {
        let deed = any_deed(random, me);
        Rc::new(move |freed| deed(&freed.both))
    };
    let at_end = |freed: &Freed<W>| {
        assert!(freed.users.iter().all(Users::are_gone));
        nothing_is_lent();
    };
    let events = [
        Event::DeadlockFound,
        Event::ChainWalked,
        Event::ChainVisited,
        Event::Cancelled,
        Event::WokeFirst,
    ];
    let deeds = (any_deed, last_use);
    programs::explore_to_the_last(name, numbers, &events, deeds, Freed::new, at_end);
}

#[test]
fn random_programs() {
    explore_programs::<Spin>("rtmutex", 0..100);
    explore_programs::<Block>("rtmutex, blocking", 100..150);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_for_long() {
    explore_programs::<Spin>("rtmutex", 1_000..3_000);
    explore_programs::<Block>("rtmutex, blocking", 3_000..4_000);
}

#[test]
fn random_programs_freed() {
    explore_freed::<Spin>("rtmutex, freed", 0..80);
    explore_freed::<Block>("rtmutex, blocking, freed", 80..120);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_freed_for_long() {
    explore_freed::<Spin>("rtmutex, freed", 1_000..2_600);
    explore_freed::<Block>("rtmutex, blocking, freed", 3_000..3_800);
}
