extern crate alloc;

use alloc::vec::Vec;

use super::*;
use crate::platform::{Deadline, NativeWord};

const TASKS: u32 = 40;

/// A small generator of numbers (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32 % limit
    }

    /// Few values, so that many are equal.
    fn prio(&mut self) -> Prio {
        match self.below(8) {
            0 => Prio::due(Deadline(u64::from(self.below(3)) << 40)),
            level => Prio::real_time(level / 2),
        }
    }
}

fn task(number: u32) -> TaskId {
    TaskId::new(number).unwrap()
}

/// Puts tasks into a heap, takes them out of it, from the top and from anywhere,
/// and holds the top against a list that is sorted by arrival.
fn compare(seed: u64, steps: u32) {
    let mut random = Random(seed);
    let root = NativeWord::ZERO;
    let places: Vec<Place<NativeWord>> = (0..=TASKS).map(|_| Place::new()).collect();
    let heap = Heap {
        root: &root,
        place: |task: TaskId| &places[task.number() as usize],
    };
    let mut list: Vec<(Prio, TaskId)> = Vec::new();
    let first_arrival = u32::MAX - steps / 2; // so that it wraps
    for step in 0..steps {
        let number = task(1 + random.below(TASKS));
        let at = list.iter().position(|&(_, task)| task == number);
        match (at, heap.top()) {
            (Some(at), _) => {
                heap.remove(number);
                list.remove(at);
            }
            (None, Some(top)) if random.below(3) == 0 => {
                heap.remove(top);
                list.retain(|&(_, task)| task != top);
            }
            (None, _) => {
                let prio = random.prio();
                let arrival = first_arrival.wrapping_add(step);
                heap.insert(number, Key { prio, arrival });
                list.push((prio, number));
            }
        }
        let highest = list.iter().map(|&(prio, _)| prio).max();
        let first = list.iter().find(|&&(prio, _)| Some(prio) == highest);
        assert_eq!(
            heap.top(),
            first.map(|&(_, task)| task),
            "seed {seed}, step {step}"
        );
    }
}

#[test]
fn the_top_is_the_first_of_the_highest() {
    for seed in 1..50 {
        compare(seed, 4_000);
    }
}

#[test]
fn priorities_are_in_order() {
    let ascending = [
        Prio::FAIR,
        Prio::real_time(1),
        Prio::real_time(u32::MAX),
        Prio::due(Deadline(u64::MAX)),
        Prio::due(Deadline(2)),
        Prio::due(Deadline(1)),
    ];
    assert!(ascending.is_sorted());
    assert!(ascending[1..].iter().all(|&prio| prio > Prio::FAIR));
    for prio in ascending {
        let (high, low) = prio.halves();
        assert_eq!(Prio::from_halves(high, low), prio);
    }
    assert_eq!(Prio::real_time(u32::MAX).level(), Some(u32::MAX));
    assert_eq!(Prio::due(Deadline(u64::MAX)).level(), None);
}
