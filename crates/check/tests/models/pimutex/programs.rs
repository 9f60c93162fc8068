//! Random programs of two mutexes: who takes both takes the first one first. Tasks have a
//! priority to lend, or none, and that may change.

use fastrand::Rng;

use super::*;
use crate::programs::{
    self, Deed,
    last::{Last, Users},
};

struct Both<S: Policy>([Rc<Guarded<S>>; 2]);

impl<S: Policy> Both<S> {
    fn new() -> Rc<Self> {
        let both = [Guarded::new(), Guarded::new()];
        name(&both[1].mutex, "the other");
        Rc::new(Self(both))
    }
}

/// Two mutexes, and who is the last to use each.
struct Freed<S: Policy> {
    both: Rc<Both<S>>,
    users: [Users; 2],
}

/// A way to take a mutex.
type Take<S> = fn(&Guarded<S>);

impl<S: Policy> Freed<S> {
    fn new(users: u32) -> Rc<Self> {
        Rc::new(Self {
            both: Both::new(),
            users: [Users::new(users), Users::new(users)],
        })
    }

    /// All ways to take a mutex, but for those that may end without it: who gives up takes it
    /// then.
    fn takes() -> [Take<S>; 3] {
        [
            |guarded| guarded.mutex.lock(),
            |guarded| {
                if !guarded.mutex.try_lock() {
                    guarded.mutex.lock();
                }
            },
            |guarded| {
                if !guarded.mutex.lock_until(DEADLINE) {
                    guarded.mutex.lock();
                }
            },
        ]
    }

    fn take(&self, at: usize, take: Take<S>) {
        let guarded = &self.both.0[at];
        take(guarded);
        guarded.work();
    }

    /// The caller, who has a mutex for the last time, unlocks it, and frees it if it is the last.
    fn unlock(&self, at: usize) {
        let (guarded, last) = (&self.both.0[at], self.users[at].count_owner(false));
        guarded.unlock();
        if last == Last::Alone {
            self.users[at].free(&guarded.mutex);
        }
    }
}

fn last_use<S: Policy>(random: &mut Rng, _: u32) -> Deed<Freed<S>> {
    let (at, nested) = (random.usize(..2), random.bool());
    let (takes, [first, second]) = (Freed::takes(), [(); 2].map(|()| random.usize(..3)));
    match nested {
        true => Rc::new(move |freed| {
            freed.take(0, takes[first]);
            freed.take(1, takes[second]);
            freed.unlock(at);
            freed.unlock(1 - at);
        }),
        false => Rc::new(move |freed| {
            freed.take(at, takes[first]);
            freed.unlock(at);
            freed.take(1 - at, takes[second]);
            freed.unlock(1 - at);
        }),
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

fn explore_freed<S: Policy>(name: &str, numbers: std::ops::Range<u64>) {
    let any_deed = |random: &mut Rng, task| -> Deed<Freed<S>> {
        let deed = any_deed(random, task);
        Rc::new(move |freed| deed(&freed.both))
    };
    let at_end = |freed: &Freed<S>| assert!(freed.users.iter().all(Users::are_gone));
    let events = [Event::Boosted, Event::BoostEnded, Event::Revoked];
    let deeds = (any_deed, last_use);
    programs::explore_to_the_last(name, numbers, &events, deeds, Freed::new, at_end);
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

#[test]
fn random_programs_freed() {
    explore_freed::<Adaptive>("pi, freed", 0..80);
    explore_freed::<Strict>("pi, strict, freed", 80..120);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_freed_for_long() {
    explore_freed::<Adaptive>("pi, freed", 1_000..2_600);
    explore_freed::<Strict>("pi, strict, freed", 3_000..3_800);
}
