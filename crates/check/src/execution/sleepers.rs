//! The kernel's futex: who sleeps for which word, in the order of arrival.

struct Sleeper {
    thread: usize,
    word: usize,
    bits: u32,
}

#[derive(Default)]
pub(super) struct Sleepers(Vec<Sleeper>);

impl Sleepers {
    pub(super) fn contain(&self, thread: usize) -> bool {
        self.0.iter().any(|sleeper| sleeper.thread == thread)
    }

    pub(super) fn push(&mut self, thread: usize, word: usize, bits: u32) {
        self.0.push(Sleeper { thread, word, bits });
    }

    /// The thread does not sleep any longer.
    pub(super) fn leave(&mut self, thread: usize) {
        self.0.retain(|sleeper| sleeper.thread != thread);
    }

    /// Returns how many it woke.
    pub(super) fn wake(&mut self, word: usize, most: u32, bits: u32) -> u32 {
        let mut woken = 0;
        self.0.retain(|sleeper| {
            let wakes = woken < most && sleeper.word == word && sleeper.bits & bits != 0;
            woken += u32::from(wakes);
            !wakes
        });
        woken
    }
}
