//! Readers that stay behind those that wait.

use std::ptr;

use fastrand::Rng;
use lockyard_check::CheckWord;

use super::*;
use crate::programs::{self, Deed};

impl<C: WakeCheck> Shared<C> {
    fn read_in_order(&self) {
        self.lock.read_in_order();
        self.payload.get();
        self.unlock_read();
    }

    fn try_to_read_in_order(&self) {
        if self.lock.read_in_order_until(DEADLINE) {
            self.payload.get();
            self.unlock_read();
        }
    }

    fn read_in_order_at_once(&self) {
        if self.lock.try_read_in_order() {
            self.payload.get();
            self.unlock_read();
        }
    }

    fn write_and_say_so(&self) {
        self.lock.write();
        self.work();
        self.been.fetch_add(1, Relaxed);
        self.unlock_write();
    }

    /// Reads; not before the writer, which is the only other one that comes, if it is in the queue.
    fn read_behind_the_writer(&self) {
        // SAFETY: the lock begins with its count.
        let count = unsafe { &*ptr::from_ref(&self.lock).cast::<CheckWord>() };
        let waits = count.load(Relaxed) & WAITERS != 0;
        self.lock.read_in_order();
        let been = self.been.load(Relaxed);
        assert!(!waits || been == 1, "past a writer that waits");
        self.payload.get();
        self.unlock_read();
    }
}

/// Readers have the lock, and a writer sleeps.
#[test]
fn a_reader_stays_behind_a_writer() {
    for changes in 1..=4 {
        let explorer = Explorer::new().whims(2).pct(1, changes, MANY);
        let events = [Event::Parked, Event::WokeFirst, Event::ReadersGranted];
        explore("rwsem, in order", &explorer, &events, || {
            let others: [(u32, Work); 2] = [
                (2, Shared::write_and_say_so),
                (2, Shared::read_behind_the_writer),
            ];
            behind(take_to_read, &[Step::UnlockRead], &others);
        });
    }
}

/// It is let in when those before it have gone, also if they gave up.
#[test]
fn no_reader_in_order_is_forgotten() {
    let releases: [(Work, &[Step]); 3] = [
        (take_to_write, &[Step::UnlockWrite]),
        (take_to_read, &[Step::UnlockRead]),
        (take_to_write, &[Step::Downgrade, Step::UnlockRead]),
    ];
    let before: [Work; 2] = [Shared::write, Shared::try_to_write];
    for (take, steps) in releases {
        for first in before {
            let explorer = Explorer::new().whims(4).always_running();
            let explorer = explorer.pct(1, 3, MANY);
            let events = [Event::Parked, Event::ReadersGranted];
            explore("rwsem, in order, let in", &explorer, &events, move || {
                let others: [(u32, Work); 3] = [
                    (4, first),
                    (4, Shared::read_in_order),
                    (4, Shared::try_to_read_in_order),
                ];
                behind(take, steps, &others);
            });
        }
    }
}

fn any_deed<C: WakeCheck>(random: &mut Rng, _: u32) -> Deed<Shared<C>> {
    let in_order = [
        Shared::read_in_order as Work<C>,
        Shared::try_to_read_in_order,
        Shared::read_in_order_at_once,
    ];
    let work = match random.bool() {
        true => in_order[random.usize(..in_order.len())],
        false => super::programs::one(random),
    };
    Rc::new(work)
}

fn explore_programs(numbers: std::ops::Range<u64>) {
    let events = [Event::Parked, Event::ReadersGranted, Event::Cancelled];
    let at_end = |shared: &Shared| assert!(!shared.lock.is_locked());
    programs::explore(
        "rwsem, in order",
        numbers,
        &events,
        any_deed,
        Shared::<Lockless>::new,
        at_end,
    );
}

#[test]
fn random_programs() {
    explore_programs(0..100);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_for_long() {
    explore_programs(100..2_100);
}
