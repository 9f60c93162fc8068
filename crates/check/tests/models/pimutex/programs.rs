//! Random programs of two mutexes: who takes both takes the first one first. Tasks have a
//! priority to lend, or none, and that may change.

use fastrand::Rng;

use super::*;
use crate::programs::{self, Deed};

struct Both<S: Policy>([Rc<Guarded<S>>; 2]);

impl<S: Policy> Both<S> {
    fn new() -> Rc<Self> {
        let both = [Guarded::new(), Guarded::new()];
        name(&both[1].mutex, "the other");
        Rc::new(Self(both))
    }
}

fn any_deed<S: Policy>(random: &mut Rng, _: u32) -> Deed<Both<S>> {
    let works: [fn(&Guarded<S>); 5] = [
        Guarded::lock_work_unlock,
        Guarded::lock_work_unlock,
        Guarded::twice,
        Guarded::until,
        Guarded::at_once,
    ];
    let (work, at) = (works[random.usize(..works.len())], random.usize(..2));
    let level = random.u32(..3);
    match random.u32(..6) {
        0 | 1 => Rc::new(move |_| be_urgent(level)),
        2 => Rc::new(move |Both([first, second])| {
            first.mutex.lock();
            work(second);
            first.unlock();
        }),
        _ => Rc::new(move |Both(both)| work(&both[at])),
    }
}

fn explore_programs<S: Policy>(name: &str, numbers: std::ops::Range<u64>) {
    let at_end = |Both(both): &Both<S>| both.iter().for_each(|one| one.is_at_rest());
    let events = [Event::Boosted, Event::BoostEnded];
    programs::explore(name, numbers, &events, any_deed, Both::<S>::new, at_end);
}

#[test]
fn random_programs() {
    explore_programs::<Adaptive>("pi", 0..100);
    explore_programs::<Strict>("pi, strict", 100..150);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_for_long() {
    explore_programs::<Adaptive>("pi", 1_000..3_000);
    explore_programs::<Strict>("pi, strict", 3_000..4_000);
}
