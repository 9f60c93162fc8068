//! Writers that give way to readers.
//!
//! A reader that comes while a writer waits for those inside waits for that writer. If it
//! is one of those inside, or one of them waits for it, nobody goes on. So the writer waits
//! for a span of time only. Then it goes, which lets in those that have come meanwhile, in their
//! order, pauses for as long, and comes again, to wait twice as long. No more is asked of the release than
//! of any writer's: it calls the first in the queue, and who is called and is a writer
//! waits for a span, too. So a reader waits for as many spans as there are writers before
//! it, and a writer may wait for ever: as where readers pass waiting writers at once.

use super::{Grant, RawPercpuRwLock};
use crate::platform::{Deadline, PerCpu};

/// For how long a writer waits for the readers inside before it first gives way, in
/// microseconds. It delays a reader that reads already by that, and a writer that waits for
/// a reader inside for longer.
pub const SPAN_MICROS: u32 = super::PATIENCE_MICROS;

/// How often the span doubles: up to 64 ms.
const DOUBLINGS: u32 = 4;

impl<P: PerCpu, G: Grant> RawPercpuRwLock<P, G> {
    /// As [`RawPercpuRwLock::write`], or [`RawPercpuRwLock::write_until`] with a deadline, and
    /// lets readers that come in again when those inside stay for longer than [`SPAN_MICROS`].
    /// If all who write wait like this, a task that reads may read again.
    ///
    /// # Panics
    /// When the caller is the writer already and there is no deadline.
    pub fn write_giving_way(&self, deadline: Option<Deadline>) -> bool {
        let me = P::me();
        let mut span = u64::from(SPAN_MICROS) * 1_000;
        let longest = span << DOUBLINGS;
        loop {
            if !self.become_writer(me) && !self.queue_up(me, true, deadline) {
                return false;
            }
            if self.drain(Some(P::sooner(deadline, span))) {
                return true;
            }
            self.give_up();
            if deadline.is_some_and(P::passed) {
                return false;
            }
            let until = P::sooner(deadline, span);
            while !P::passed(until) {
                P::park(Some(until));
            }
            span = longest.min(span * 2);
        }
    }
}
