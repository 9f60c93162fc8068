//! The kernel that lends priorities: for each word that somebody waits for, the
//! waiters, the most urgent first, and the owner that they lend their levels to.
//!
//! A call is one step. It takes the kernel's lock, which is a word that every call
//! reads and writes: so the calls are in the order of that word, what one finds here
//! is what those before it left, and the reduction turns two of them round as it does
//! two read-modify-writes. The lock also makes each call see what the calls before it
//! saw, as the kernel's does. A call for a word reads and writes that as well.
//!
//! As in Linux a word stays marked when its last waiter leaves or is handed it, and
//! then the kernel knows nothing of it.
//!
//! Those who sleep until they are woken are under the same lock. Linux has a lock for
//! each bucket, and a count that spares a waker the lock; towards the tasks of one word
//! that is the same.

use std::{iter, ops::ControlFlow::Continue};

use lockyard_core::KERNEL_WAITERS;

use super::{
    Execution, Flow,
    sleepers::Sleepers,
    step::{Options, TIMEOUT},
};
use crate::{
    memory::{Ordering, Store, THREADS},
    op::{Answer, Call},
};

/// The marks of a word; the other bits name a task.
const MARKS: u32 = KERNEL_WAITERS | KERNEL_WAITERS >> 1;

struct Waiter {
    thread: usize,
    level: u32,
}

/// A word that somebody waits for.
struct Queue {
    word: usize,
    owner: usize,
    waiters: Vec<Waiter>,
}

#[derive(Default)]
pub(super) struct Kernel {
    queues: Vec<Queue>,
    sleepers: Sleepers,
}

impl Kernel {
    fn queue(&mut self, word: usize) -> Option<&mut Queue> {
        self.queues.iter_mut().find(|queue| queue.word == word)
    }

    /// The queue that the thread stands in.
    fn awaited(&self, thread: usize) -> Option<&Queue> {
        let waits = |queue: &&Queue| queue.waiters.iter().any(|waiter| waiter.thread == thread);
        self.queues.iter().find(waits)
    }

    /// Whether the thread waits for anything.
    fn waits(&self, thread: usize) -> bool {
        self.awaited(thread).is_some() || self.sleepers.contain(thread)
    }

    /// The level that the thread is lent.
    fn lent(&self, thread: usize) -> u32 {
        let owned = self.queues.iter().filter(|queue| queue.owner == thread);
        let levels = owned.flat_map(|queue| &queue.waiters);
        levels.map(|waiter| waiter.level).max().unwrap_or(0)
    }

    /// Whether the owner waits for the thread.
    fn is_circle(&self, thread: usize, mut owner: usize) -> bool {
        while let Some(queue) = self.awaited(owner) {
            owner = queue.owner;
        }
        owner == thread
    }

    /// Returns the word's new value, and an answer as [`Execution::call`] does.
    fn lock(&mut self, me: Waiter, word: usize, old: u32) -> Result<(u32, Answer), String> {
        let owner = (old & !MARKS) as usize;
        if owner >= THREADS {
            return Err(format!("it holds {old:#x}, which names no task"));
        }
        if let Some(queue) = self.queue(word) {
            queue.agrees(old)?;
        } else if owner == 0 {
            return Ok((me.thread as u32, Answer::Bool(true)));
        } else if owner == me.thread {
            return Ok((old, Answer::Bool(false)));
        }
        let new = old | KERNEL_WAITERS;
        if self.is_circle(me.thread, owner) {
            return Ok((new, Answer::Bool(false)));
        }
        if let Some(queue) = self.queue(word) {
            let mut ahead = queue.waiters.iter();
            let at = ahead.position(|waiter| waiter.level < me.level);
            queue.waiters.insert(at.unwrap_or(queue.waiters.len()), me);
        } else {
            let waiters = vec![me];
            self.queues.push(Queue {
                word,
                owner,
                waiters,
            });
        }
        Ok((new, Answer::Done))
    }

    /// Returns the word's new value.
    fn unlock(&mut self, thread: usize, word: usize, old: u32) -> Result<u32, String> {
        if (old & !MARKS) as usize != thread {
            return Err(format!(
                "it holds {old:#x}, and is not the caller's to release"
            ));
        }
        let Some(queue) = self.queue(word) else {
            return Ok(0);
        };
        queue.agrees(old)?;
        let heir = queue.waiters.remove(0).thread;
        queue.owner = heir;
        self.forget();
        Ok(heir as u32 | KERNEL_WAITERS)
    }

    /// The thread does not wait any longer.
    fn leave(&mut self, thread: usize) {
        for queue in &mut self.queues {
            queue.waiters.retain(|waiter| waiter.thread != thread);
        }
        self.forget();
        self.sleepers.leave(thread);
    }

    /// Of a word that nobody waits for nothing is known.
    fn forget(&mut self) {
        self.queues.retain(|queue| !queue.waiters.is_empty());
    }
}

impl Queue {
    /// Whether the word names the owner, and says that somebody waits.
    fn agrees(&self, value: u32) -> Result<(), String> {
        if value == self.owner as u32 | KERNEL_WAITERS {
            return Ok(());
        }
        Err(format!(
            "it holds {value:#x}, but in the kernel task {} waits for task {}, its owner",
            self.waiters[0].thread, self.owner
        ))
    }
}

impl Execution<'_> {
    pub(super) fn options_of_call(&self, thread: usize, kernel: usize, call: Call) -> Options {
        let memory = &self.memory;
        let last = iter::once(memory.newest(kernel));
        match call {
            Call::Lock { word } | Call::Unlock { word } => memory
                .readable_under(kernel, thread, word)
                .filter(|&message| memory.is_open(word, message))
                .collect(),
            Call::Sleep { word, .. } => memory.readable_under(kernel, thread, word).collect(),
            Call::Wait { deadline } => match self.kernel.waits(thread) {
                false => last.collect(),
                true => deadline.map(|_| TIMEOUT).into_iter().collect(),
            },
            Call::Wake { .. } => last.collect(),
            Call::AwaitLent { level } => {
                let lent = self.kernel.lent(thread);
                last.filter(|_| lent == level).collect()
            }
        }
    }

    /// A call. The answer is whether the word was taken, or did not change; or
    /// [`Answer::Done`] when the caller has to wait; or how many were woken.
    pub(super) fn call(
        &mut self,
        thread: usize,
        kernel: usize,
        call: Call,
        option: u16,
    ) -> Result<Answer, String> {
        let store = |value| Store {
            value,
            order: Ordering::AcqRel,
            step: Some(self.steps.len()),
        };
        let (lock, unlock) = (self.memory.newest(kernel), store(1));
        self.memory.load(thread, kernel, lock, Ordering::Acquire)?;
        let answer = match call {
            Call::Lock { word } => {
                let old = self.memory.message(word, option).value;
                let level = self.threads[thread].level;
                let (new, answer) = self.kernel.lock(Waiter { thread, level }, word, old)?;
                self.memory.exchange(thread, word, option, store(new))?;
                answer
            }
            Call::Unlock { word } => {
                let old = self.memory.message(word, option).value;
                let new = self.kernel.unlock(thread, word, old)?;
                self.memory.exchange(thread, word, option, store(new))?;
                Answer::Done
            }
            Call::Wait { deadline } if option == TIMEOUT => {
                self.kernel.leave(thread);
                let state = &mut self.threads[thread];
                state.now = state.now.max(deadline.unwrap_or(0));
                Answer::Bool(false)
            }
            Call::Wait { .. } | Call::AwaitLent { .. } => Answer::Bool(true),
            Call::Sleep {
                word,
                expected,
                bits,
            } => match self.memory.load(thread, word, option, Ordering::Relaxed)? {
                value if value == expected => {
                    self.kernel.sleepers.push(thread, word, bits);
                    Answer::Done
                }
                _ => Answer::Bool(false),
            },
            Call::Wake { word, most, bits } => {
                Answer::Value(self.kernel.sleepers.wake(word, most, bits))
            }
        };
        self.memory.exchange(thread, kernel, lock, unlock)?;
        Ok(answer)
    }

    /// As long as somebody waits in the kernel, the word must say so, and name the
    /// task that is lent his level: nobody else may have written to it.
    pub(super) fn check_kernel(&self) -> Flow {
        for queue in &self.kernel.queues {
            let newest = self.memory.newest(queue.word);
            let value = self.memory.message(queue.word, newest).value;
            if let Err(what) = queue.agrees(value) {
                return self.fail(format!(
                    "the kernel is passed over at {}: {what}",
                    self.name(queue.word)
                ));
            }
        }
        Continue(())
    }
}
