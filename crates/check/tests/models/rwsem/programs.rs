//! Random programs of one lock or two.

use fastrand::Rng;
use lockyard_check::name;

use super::*;
use crate::programs::{Deed, explore};

/// Two locks: who takes both takes the first one first.
struct Locks([Rc<Shared>; 2]);

impl Locks {
    fn new() -> Rc<Self> {
        let locks = [Shared::new(), Shared::new()];
        name(&locks[1].lock, "the other");
        Rc::new(Self(locks))
    }
}

/// All that takes a lock and leaves it. Nobody reads recursively twice: the second time may have
/// to wait behind a spinner that waits for the first, until that has no patience any more, and a
/// task without a whim left has endless patience.
const WORKS: [Work; 18] = [
    Shared::write,
    Shared::write,
    Shared::read,
    Shared::read,
    Shared::read_nested,
    Shared::write_fairly,
    Shared::read_fairly,
    Shared::try_to_write,
    Shared::try_to_read,
    Shared::write_at_once,
    Shared::read_at_once,
    Shared::read_recursively,
    Shared::read_upgradably,
    Shared::upgrade,
    Shared::try_to_upgrade,
    Shared::downgrade,
    Shared::downgrade_by_steps,
    Shared::read_knowingly,
];

/// The ways to hold one meanwhile.
const HOLDS: [(Work, Step); 3] = [
    (take_to_write, Step::UnlockWrite),
    (take_to_read, Step::UnlockRead),
    (take_upgradably, Step::UnlockUpgradable),
];

pub fn one(random: &mut Rng) -> Work {
    WORKS[random.usize(..WORKS.len())]
}

fn with_one(random: &mut Rng, _: u32) -> Deed<Locks> {
    let work = one(random);
    Rc::new(move |Locks([lock, _])| work(lock))
}

fn with_both(random: &mut Rng, _: u32) -> Deed<Locks> {
    let (work, at) = (one(random), random.usize(..2));
    let (take, step) = HOLDS[random.usize(..HOLDS.len())];
    match random.bool() {
        true => Rc::new(move |Locks(locks)| work(&locks[at])),
        false => Rc::new(move |Locks([held, lock])| {
            take(held);
            work(lock);
            held.step(step);
        }),
    }
}

fn explore_programs(first: u64, count: u64) {
    let at_end = |Locks(locks): &Locks| {
        assert!(!locks.iter().any(|shared| shared.lock.is_locked()));
    };
    let numbers = first..first + count;
    let events = [
        Event::Parked,
        Event::ReadersGranted,
        Event::HandedOff,
        Event::Upgraded,
        Event::Cancelled,
        Event::Revoked,
        Event::Recalled,
        Event::FencedBiasRevoked,
        Event::BiasRevoked,
        Event::ToldToComeAgain,
    ];
    let with = numbers.clone();
    explore("rwsem", with, &events, with_one, Locks::new, at_end);
    explore(
        "rwsem, 2 locks",
        numbers,
        &events,
        with_both,
        Locks::new,
        at_end,
    );
}

#[test]
fn random_programs() {
    explore_programs(0, 100);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_for_long() {
    explore_programs(100, 2_000);
}
