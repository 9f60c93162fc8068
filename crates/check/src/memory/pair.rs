//! Two words that are replaced at once.
//!
//! A pair reads what is newest, as one step towards all: it has no older messages to choose
//! from, as other steps have.

use std::rc::Rc;

use super::{Memory, Ordering, Store};

impl Memory {
    /// Replaces two words at once, if they hold `before`, with a fence before and behind; returns
    /// what they held.
    pub(crate) fn replace_pair(
        &mut self,
        thread: usize,
        words: [usize; 2],
        before: [u32; 2],
        stores: [Store; 2],
    ) -> Result<[u32; 2], String> {
        self.last_pair = self.serial;
        self.fence(thread, Ordering::SeqCst);
        let newest = words.map(|word| self.newest(word));
        for word in words {
            self.touch(thread, word)?; // both at one moment: before what is published
        }
        let found = [0, 1].map(|at| self.read(thread, words[at], newest[at], Ordering::Acquire));
        if found == before {
            for (at, store) in stores.into_iter().enumerate() {
                self.write(thread, words[at], store, newest[at], true);
            }
            // Who sees one replaced sees the other so.
            let [first, second] = words.map(|word| self.threads[thread].now.seen(word));
            if let Some(view) = &mut self.words[words[0]].messages[usize::from(first)].view {
                Rc::make_mut(view).see(words[1], second);
            }
        }
        self.fence(thread, Ordering::SeqCst);
        Ok(found)
    }
}
