//! A test that has the counts of rare paths to itself.

use std::{thread, time::Duration};

use lockyard_core::Event;
use lockyard_linux::events;

use crate::alone::Alone;

/// Counts from its beginning on.
pub struct Counts {
    seen: [u64; Event::ALL.len()],
    _alone: Alone,
}

impl Counts {
    /// Waits for other tests, and starts to count.
    pub fn begin() -> Self {
        let alone = Alone::begin();
        events::enable(true);
        events::take().for_each(drop);
        Self {
            seen: [0; Event::ALL.len()],
            _alone: alone,
        }
    }

    /// How often `event` has been counted since the beginning.
    pub fn seen(&mut self, event: Event) -> u64 {
        for (event, count) in events::take() {
            self.seen[event as usize] += count;
        }
        self.seen[event as usize]
    }

    /// Waits until `event` has been counted so often since the beginning.
    ///
    /// [`Event::Parked`] says that a thread stands in a queue and will sleep
    /// there until it is woken. Threads that come one by one, to a lock that
    /// nobody unlocks, each count once; and once more if they nap before.
    pub fn until(&mut self, event: Event, count: u64) {
        while self.seen(event) < count {
            thread::sleep(Duration::from_micros(50));
        }
    }
}
