//! Random programs of several locks of several kinds, in whose queues a task stands with the same
//! places, one after the other.

use std::{ops::Range, rc::Rc};

use fastrand::Rng;
use lockyard_check::name;
use lockyard_core::{Event, percpu_rwsem::Bounded};

use crate::{
    condvar,
    guarded::{Flag, Guarded},
    percpu,
    programs::{self, Deed},
    rwsem::{self, shared::Shared},
};

struct Mixed {
    flags: [Rc<Flag>; 2],
    rwsems: [Rc<Shared>; 2],
    percpu: Rc<percpu::Shared<Bounded>>,
}

impl Mixed {
    fn new() -> Rc<Self> {
        let mixed = Rc::new(Self {
            flags: [Flag::new(), Flag::new()],
            rwsems: [Shared::new(), Shared::new()],
            percpu: percpu::Shared::new(),
        });
        name(&mixed.rwsems[1].lock, "the other");
        mixed
    }
}

/// The first task raises both flags, and does nothing else.
fn any_deed(random: &mut Rng, task: u32) -> Deed<Mixed> {
    let at = random.usize(..2);
    let kind = if task == 0 { 0 } else { random.u32(..5) };
    match kind {
        0 => {
            let deeds = [(); 2].map(|()| condvar::any_deed(random, task));
            Rc::new(move |mixed| match task {
                0 => deeds
                    .iter()
                    .zip(&mixed.flags)
                    .for_each(|(deed, flag)| deed(flag)),
                _ => deeds[at](&mixed.flags[at]),
            })
        }
        1 | 2 => {
            let work = rwsem::programs::one(random);
            Rc::new(move |mixed| work(&mixed.rwsems[at]))
        }
        3 => {
            let deed = percpu::any_deed(random, task);
            Rc::new(move |mixed| deed(&mixed.percpu))
        }
        _ => {
            let (work, within) = (rwsem::programs::one(random), random.bool());
            Rc::new(move |Mixed { flags, rwsems, .. }| match within {
                true => {
                    flags[at].guarded.mutex.lock();
                    work(&rwsems[at]);
                    flags[at].guarded.unlock();
                }
                false => flags
                    .iter()
                    .for_each(|flag| Guarded::lock_work_unlock(&flag.guarded)),
            })
        }
    }
}

fn explore_programs(numbers: Range<u64>) {
    let at_end = |mixed: &Mixed| {
        assert!(
            !mixed
                .flags
                .iter()
                .any(|flag| flag.guarded.mutex.is_locked())
        );
        assert!(!mixed.rwsems.iter().any(|shared| shared.lock.is_locked()));
        assert!(!mixed.percpu.lock.is_locked());
    };
    programs::explore(
        "locks of several kinds",
        numbers,
        &[
            Event::Parked,
            Event::Requeued,
            Event::Revoked,
            Event::GracePeriod,
        ],
        any_deed,
        Mixed::new,
        at_end,
    );
}

#[test]
fn random_programs() {
    explore_programs(0..200);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_for_long() {
    explore_programs(1_000..5_000);
}
