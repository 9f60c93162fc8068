//! Random programs of two locks: tasks of any level, which may change, that take both in either
//! order where a deadlock is told.

use fastrand::Rng;
use lockyard_core::rtmutex::adjust;

use super::*;
use crate::programs::{self, Deed};

struct Both<W: Policy>([Rc<Guarded<W>>; 2]);

impl<W: Policy> Both<W> {
    fn new() -> Rc<Self> {
        Rc::new(Self([Guarded::new("lock"), Guarded::new("the other")]))
    }
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

fn explore_programs<W: Policy>(name: &str, numbers: std::ops::Range<u64>) {
    let at_end = |Both(both): &Both<W>| {
        for guarded in both {
            assert!(!guarded.lock.is_locked() && !guarded.lock.is_contended());
        }
        for number in 1..=programs::TASKS {
            let lent = lent_levels(task(number)).last().copied();
            assert_eq!(lent.unwrap_or(0), 0, "task {number}");
        }
    };
    let events = [Event::DeadlockFound, Event::ChainWalked, Event::Cancelled];
    programs::explore(name, numbers, &events, any_deed, Both::<W>::new, at_end);
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
