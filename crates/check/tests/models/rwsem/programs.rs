//! Random programs of one lock or two.

use std::ops::Range;

use fastrand::Rng;
use lockyard_check::name;

use super::*;
use crate::programs::{Deed, explore};

/// Two locks: who takes both takes the first one first.
struct Locks<C: WakeCheck>([Rc<Shared<C>>; 2]);

impl<C: WakeCheck> Locks<C> {
    fn new() -> Rc<Self> {
        let locks = [Shared::new(), Shared::new()];
        name(&locks[1].lock, "the other");
        Rc::new(Self(locks))
    }
}

/// All that takes a lock and leaves it. Nobody reads recursively twice: the second time may have
/// to wait behind a spinner that waits for the first, until that has no patience any more, and a
/// task without a whim left has endless patience.
fn works<C: WakeCheck>() -> [Work<C>; 18] {
    [
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
    ]
}

/// The ways to hold one meanwhile.
fn holds<C: WakeCheck>() -> [(Work<C>, Step); 3] {
    [
        (take_to_write, Step::UnlockWrite),
        (take_to_read, Step::UnlockRead),
        (take_upgradably, Step::UnlockUpgradable),
    ]
}

pub fn one<C: WakeCheck>(random: &mut Rng) -> Work<C> {
    let works = works();
    works[random.usize(..works.len())]
}

fn with_one<C: WakeCheck>(random: &mut Rng, _: u32) -> Deed<Locks<C>> {
    let work = one(random);
    Rc::new(move |Locks([lock, _])| work(lock))
}

fn with_both<C: WakeCheck>(random: &mut Rng, _: u32) -> Deed<Locks<C>> {
    let (work, at) = (one(random), random.usize(..2));
    let holds = holds();
    let (take, step) = holds[random.usize(..holds.len())];
    match random.bool() {
        true => Rc::new(move |Locks(locks)| work(&locks[at])),
        false => Rc::new(move |Locks([held, lock])| {
            take(held);
            work(lock);
            held.step(step);
        }),
    }
}

fn explore_programs<C: WakeCheck>(names: [&str; 2], numbers: Range<u64>) {
    let at_end = |Locks(locks): &Locks<C>| {
        assert!(!locks.iter().any(|shared| shared.lock.is_locked()));
    };
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
    for (name, any_deed) in names.into_iter().zip([with_one, with_both]) {
        let numbers = numbers.clone();
        explore(name, numbers, &events, any_deed, Locks::new, at_end);
    }
}

fn lockless(numbers: Range<u64>) {
    explore_programs::<Lockless>(["rwsem", "rwsem, 2 locks"], numbers);
}

fn trylock(numbers: Range<u64>) {
    explore_programs::<Trylock>(["rwsem, trylock", "rwsem, trylock, 2 locks"], numbers);
}

/// Many come and go in the shortest ways.
fn shortly(random: &mut Rng, _: u32) -> Deed<Shared> {
    let works: [Work; 4] = [
        Shared::write_shortly,
        Shared::read_shortly,
        Shared::read_shortly,
        one(random),
    ];
    Rc::new(works[random.usize(..works.len())])
}

fn explore_shortly(numbers: Range<u64>) {
    let at_end = |shared: &Shared| assert!(!shared.lock.is_locked());
    let events = [
        Event::Parked,
        Event::Revoked,
        Event::FencedBiasRevoked,
        Event::BiasRevoked,
    ];
    explore(
        "rwsem, shortly",
        numbers,
        &events,
        shortly,
        Shared::new,
        at_end,
    );
}

#[test]
fn random_programs_in_the_shortest_ways() {
    explore_shortly(20_000..20_100);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_in_the_shortest_ways_for_long() {
    explore_shortly(20_100..22_100);
}

#[test]
fn random_programs() {
    lockless(0..100);
    trylock(5_000..5_050);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_for_long() {
    lockless(100..2_100);
    trylock(6_000..7_000);
}
