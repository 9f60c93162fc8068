//! What a slow unlock does once the mutex is released, and may be gone.

use crate::platform::{Event, Look, Ordering::Relaxed, Platform, TaskId};

/// How long the keeper of a mutex that was recalled stays away from it, in
/// looks: a hand-over, so that who recalled it gets it.
const RECALLED_LOOKS: u32 = 5;

/// Whom a slow unlock has to see to, once the mutex is released.
#[derive(Default)]
pub(crate) struct Leaving {
    pub(crate) woken: Option<TaskId>,
    pub(crate) recalled: bool,
}

impl Leaving {
    /// Wakes who was found, and pauses for who recalled the mutex, which may be gone.
    pub(crate) fn see_to<P: Platform>(self) {
        if let Some(first) = self.woken {
            P::event(Event::WokeFirst);
            P::unpark(first);
            P::yield_to(first);
        } else if self.recalled {
            P::event(Event::Recalled);
            let mine = &P::task(P::me()).wait.since;
            // Nobody writes to it: a pause.
            P::spin_until(
                mine,
                Relaxed,
                Look::Poll,
                RECALLED_LOOKS,
                |_| false,
                || false,
            );
        }
    }
}
