//! The mutex as the order validator sees it.

use std::{ffi::c_int, ptr, sync::atomic::Ordering::Relaxed};

use lockyard_order::{self as order, Mode::Exclusive};

use super::{Held, Kind, LAST_KIND, Lock, Mutex, SEEN};
use crate::policy;

impl Mutex {
    /// As the order validator sees it.
    pub fn seen(&self) -> order::Lock<'_> {
        order::Lock {
            address: ptr::from_ref(self).addr(),
            kind: order::Kind::Mutex,
            tag: &self.tag,
        }
    }

    /// The caller, who has it, is about to wait for a condition: with a recursive mutex that it
    /// has more than once, it keeps it.
    #[cold]
    #[inline(never)]
    pub fn wants_back(&self) {
        if self.is_once() {
            order::wants_back(self.seen(), Exclusive);
        }
    }
}

impl<L: Lock> Held<'_, L> {
    #[cold]
    #[inline(never)]
    pub fn lock_seen(&self) -> c_int {
        if self.kind == Kind::Normal || !self.lock.is_mine() {
            order::wants(self.mutex.seen(), Exclusive);
        }
        self.seen_to(|| self.take())
    }

    /// Takes it by `take`, seen by the order validator if that is on.
    pub fn seen_to(&self, take: impl FnOnce() -> c_int) -> c_int {
        let again = self.kind != Kind::Normal && self.lock.is_mine();
        let code = take();
        if code == 0 && !again && policy::watched() {
            let kind = self.mutex.kind();
            if kind <= LAST_KIND {
                self.mutex.kind.store(SEEN | kind, Relaxed); // the owner's; see `Mutex::kind`
            }
            order::took(self.mutex.seen(), Exclusive);
        }
        code
    }

    /// It is about to be unlocked, or not: by one who must not.
    #[cold]
    #[inline(never)]
    pub fn unlock_seen(&self) -> c_int {
        if self.lock.is_mine() || L::TAKEN_OVER && self.kind == Kind::Normal {
            order::released(self.mutex.seen(), None);
        } else {
            order::refused(self.mutex.seen());
        }
        self.release()
    }
}
