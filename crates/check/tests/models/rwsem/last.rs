//! Random programs that end in another way: the last user frees the lock, or who reads ends, and
//! another task releases what it has left.

use std::ops::Range;

use fastrand::Rng;
use lockyard_check::become_another;

use super::{programs::one, *};
use crate::programs::{
    Deed, explore_to_the_last,
    last::{Last, Left, Users},
};

/// A lock, and who is the last to use it.
struct Freed<C: WakeCheck> {
    shared: Rc<Shared<C>>,
    users: Users,
}

/// How a task has the lock.
#[derive(Clone, Copy)]
enum Held {
    Write,
    Upgradable,
    Read,
}

/// A way to take the lock, and what it is taken as.
type Take<C> = fn(&Shared<C>) -> Held;

/// All ways to take it, but for those that may end without it: who gives up takes it then.
fn takes<C: WakeCheck>() -> [Take<C>; 12] {
    [
        |shared| as_writer(shared, false),
        |shared| as_writer(shared, false),
        |shared| as_writer(shared, shared.lock.try_write()),
        |shared| as_writer(shared, shared.lock.write_until(DEADLINE)),
        |shared| as_reader(shared, false),
        |shared| as_reader(shared, false),
        |shared| as_reader(shared, shared.lock.try_read()),
        |shared| as_reader(shared, shared.lock.read_until(DEADLINE)),
        |shared| {
            shared.lock.read_recursive();
            as_reader(shared, true)
        },
        |shared| {
            take_upgradably(shared);
            Held::Upgradable
        },
        |shared| {
            take_upgradably(shared);
            shared.step(Step::Upgrade);
            as_writer(shared, true)
        },
        |shared| {
            take_upgradably(shared);
            match shared.step(Step::TryToUpgrade) {
                true => as_writer(shared, true),
                false => Held::Upgradable,
            }
        },
    ]
}

fn as_writer<C: WakeCheck>(shared: &Shared<C>, taken: bool) -> Held {
    if !taken {
        shared.lock.write();
    }
    shared.work();
    Held::Write
}

fn as_reader<C: WakeCheck>(shared: &Shared<C>, taken: bool) -> Held {
    if !taken {
        shared.lock.read();
    }
    shared.payload.get();
    Held::Read
}

impl Held {
    /// All ways to leave the lock.
    fn steps(self) -> &'static [&'static [Step]] {
        use Step::*;
        match self {
            Held::Write => &[
                &[UnlockWrite],
                &[UnlockWrite],
                &[UnlockWriteFairly],
                &[Downgrade, UnlockRead],
                &[Downgrade, UnlockReadFairly],
                &[DowngradeToUpgradable, UnlockUpgradable],
                &[DowngradeToUpgradable, DowngradeUpgradable, UnlockRead],
            ],
            Held::Upgradable => &[
                &[UnlockUpgradable],
                &[UnlockUpgradableFairly],
                &[DowngradeUpgradable, UnlockRead],
            ],
            Held::Read => &[&[UnlockRead], &[UnlockRead], &[UnlockReadFairly]],
        }
    }
}

impl<C: WakeCheck> Freed<C> {
    fn new(users: u32) -> Rc<Self> {
        Rc::new(Self {
            shared: Shared::new(),
            users: Users::new(users),
        })
    }

    /// Uses the lock for the last time. Who is the last of all frees it: if others may still
    /// read, once they have left.
    fn use_last(&self, take: Take<C>, leave: usize) {
        let held = take(&self.shared);
        let steps = held.steps()[leave % held.steps().len()];
        let last = match held {
            Held::Write => self.users.count_owner(steps.len() > 1),
            Held::Upgradable | Held::Read => self.users.count_reader(),
        };
        for &step in steps {
            self.shared.step(step);
        }
        if last == Last::InCompany {
            self.shared.write();
        }
        if last != Last::No {
            self.users.free(&self.shared.lock);
        }
    }
}

fn explore_freed<C: WakeCheck>(name: &str, numbers: Range<u64>) {
    let any_deed = |random: &mut Rng, _| -> Deed<Freed<C>> {
        let work = one(random);
        Rc::new(move |freed| work(&freed.shared))
    };
    let last_deed = |random: &mut Rng, _| -> Deed<Freed<C>> {
        let (takes, leave) = (takes(), random.usize(..));
        let take = takes[random.usize(..takes.len())];
        Rc::new(move |freed| freed.use_last(take, leave))
    };
    let events = [
        Event::ReadersGranted,
        Event::HandedOff,
        Event::WakeSkipped,
        Event::Upgraded,
        Event::CancelGranted,
        Event::Revoked,
        Event::Recalled,
        Event::FencedBiasRevoked,
        Event::BiasRevoked,
        Event::ToldToComeAgain,
    ];
    let deeds = (any_deed, last_deed);
    let at_end = |freed: &Freed<C>| assert!(freed.users.are_gone());
    explore_to_the_last(name, numbers, &events, deeds, Freed::new, at_end);
}

/// A lock, and what ends of it are left to the first task.
struct Ended {
    shared: Rc<Shared>,
    left: Left,
}

impl Ended {
    fn new(tasks: u32) -> Rc<Self> {
        let ended = Rc::new(Self {
            shared: Shared::new(),
            left: Left::new(tasks),
        });
        ended.left.name();
        ended
    }

    /// Ends as a reader, or as two.
    fn end_reading(&self, twice: bool) {
        self.shared.lock.read();
        let again = twice && self.shared.lock.try_read();
        self.shared.payload.get();
        self.left.leave();
        if again {
            self.left.leave();
        }
        self.left.finish();
    }

    fn release_all(&self, unlock: Step) {
        self.left.take_all(|| self.release(unlock));
    }

    fn release(&self, unlock: Step) {
        self.shared.payload.get();
        self.shared.step(unlock);
    }
}

/// The first task, which releases what is left, waits for nothing else.
fn deed_or_release(random: &mut Rng, task: u32) -> Deed<Ended> {
    let (work, unlock) = (one(random), any_unlock(random));
    match random.u32(..4) {
        _ if task > 0 => Rc::new(move |ended| work(&ended.shared)),
        0 => Rc::new(|ended| ended.shared.read_at_once()),
        1 => Rc::new(|ended| ended.shared.write_at_once()),
        _ => Rc::new(move |ended| {
            become_another();
            if ended.left.take() {
                ended.release(unlock);
            }
        }),
    }
}

fn any_unlock(random: &mut Rng) -> Step {
    match random.u32(..4) {
        0 => Step::UnlockReadFairly,
        _ => Step::UnlockRead,
    }
}

fn end_or_release(random: &mut Rng, task: u32) -> Deed<Ended> {
    let unlock = any_unlock(random);
    match random.u32(..4) {
        _ if task == 0 => Rc::new(move |ended| {
            become_another();
            ended.release_all(unlock);
        }),
        0 => Rc::new(|ended| ended.left.finish()),
        choice => Rc::new(move |ended| ended.end_reading(choice == 1)),
    }
}

fn explore_ended(numbers: Range<u64>) {
    let events = [
        Event::Parked,
        Event::Upgraded,
        Event::Revoked,
        Event::FencedBiasRevoked,
        Event::BiasRevoked,
    ];
    let deeds = (deed_or_release, end_or_release);
    let at_end = |ended: &Ended| assert!(!ended.shared.lock.is_locked());
    explore_to_the_last("rwsem, left", numbers, &events, deeds, Ended::new, at_end);
}

#[test]
fn random_programs_freed() {
    explore_freed::<Lockless>("rwsem, freed", 0..100);
    explore_freed::<Trylock>("rwsem, freed, trylock", 100..140);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_freed_for_long() {
    explore_freed::<Lockless>("rwsem, freed", 1_000..3_000);
    explore_freed::<Trylock>("rwsem, freed, trylock", 3_000..3_800);
}

#[test]
fn random_programs_left() {
    explore_ended(0..100);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_left_for_long() {
    explore_ended(1_000..3_000);
}
