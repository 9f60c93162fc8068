//! What the locks keep for each task.

use super::Platform;
use crate::{futex, gate, osq, percpu_rwsem, rtmutex, rwsem, wait_queue};

/// What the locks keep for each task: its place in the queues. A task waits
/// for one lock at a time, so one node of each kind is enough.
pub struct TaskRecord<P: Platform> {
    pub(crate) osq: osq::Node<P>,
    pub(crate) wait: wait_queue::Node<P>,
    pub(crate) gate: gate::Node<P>,
    pub(crate) percpu: percpu_rwsem::Node<P>,
    pub(crate) rwsem: rwsem::Node<P>,
    pub(crate) slots: rwsem::Slots<P>,
    pub(crate) rtmutex: rtmutex::Node<P>,
    pub(crate) futex: [futex::Node<P>; futex::NODES],
    pub(crate) glances: futex::Glances<P>,
}

impl<P: Platform> Default for TaskRecord<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> TaskRecord<P> {
    /// The record of a task that waits for nothing.
    pub const fn new() -> Self {
        Self {
            osq: osq::Node::new(),
            wait: wait_queue::Node::new(),
            gate: gate::Node::new(),
            percpu: percpu_rwsem::Node::new(),
            rwsem: rwsem::Node::new(),
            slots: rwsem::Slots::new(),
            rtmutex: rtmutex::Node::new(),
            futex: [const { futex::Node::new() }; futex::NODES],
            glances: futex::Glances::new(),
        }
    }
}
