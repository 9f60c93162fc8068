//! One test of a process at a time, with the counts of rare paths to itself.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use lockyard_core::Event;
use lockyard_linux::events;

/// While it lives, no other test that begins one runs.
pub struct Alone {
    counts: [u64; Event::ALL.len()],
    _turn: MutexGuard<'static, ()>,
}

impl Alone {
    /// Waits for the others, and starts to count.
    pub fn begin() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        events::enable(true);
        events::take().for_each(drop);
        Self {
            counts: [0; Event::ALL.len()],
            _turn: turn,
        }
    }

    /// How often `event` has been counted since the beginning.
    pub fn seen(&mut self, event: Event) -> u64 {
        for (event, count) in events::take() {
            self.counts[event as usize] += count;
        }
        self.counts[event as usize]
    }

    /// Waits until `event` has been counted so often since the beginning.
    ///
    /// [`Event::Parked`] says that a thread stands in a queue and will sleep
    /// there until it is woken. Threads that come one by one, to a lock that
    /// nobody unlocks, each count once.
    pub fn until(&mut self, event: Event, count: u64) {
        while self.seen(event) < count {
            thread::sleep(Duration::from_micros(50));
        }
    }
}
