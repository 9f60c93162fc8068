//! What the lock protects, and whether it does.

use std::sync::atomic::Ordering::Relaxed;

use lockyard_core::Word;

use super::delays::Role;

/// Who is inside, and a value in two halves that only a writer may see differ.
/// Every access is relaxed: orderings of its own would stand in for those that
/// the lock owes.
pub(super) struct Guarded<W> {
    writer: Line<W>,
    readers: Line<W>,
    halves: [Line<W>; 2],
}

#[repr(align(128))]
struct Line<W>(W);

impl<W: Word> Guarded<W> {
    pub(super) fn new() -> Self {
        let line = || Line(W::ZERO);
        Self {
            writer: line(),
            readers: line(),
            halves: [line(), line()],
        }
    }

    /// Comes in, stays, and leaves. Whether nobody was there who should not be.
    pub(super) fn visit(&self, role: Role, stay: impl FnOnce()) -> bool {
        match role {
            Role::Writer => self.write(stay),
            Role::Reader => self.read(stay),
        }
    }

    fn write(&self, stay: impl FnOnce()) -> bool {
        let [first, second] = &self.halves;
        let alone = self.writer.0.swap(1, Relaxed) == 0;
        let unread = self.readers.0.load(Relaxed) == 0;
        let value = first.0.load(Relaxed);
        let whole = second.0.load(Relaxed) == value;
        first.0.store(value.wrapping_add(1), Relaxed);
        stay();
        second.0.store(value.wrapping_add(1), Relaxed);
        self.writer.0.store(0, Relaxed);
        alone && unread && whole
    }

    fn read(&self, stay: impl FnOnce()) -> bool {
        let [first, second] = &self.halves;
        self.readers.0.fetch_add(1, Relaxed);
        let unwritten = self.writer.0.load(Relaxed) == 0;
        let value = first.0.load(Relaxed);
        stay();
        let whole = second.0.load(Relaxed) == value;
        self.readers.0.fetch_add(u32::MAX, Relaxed);
        unwritten && whole
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn who_should_not_be_there_is_noticed() {
        use Role::{Reader, Writer};
        let both = |outer, inner| {
            let guarded = Guarded::<AtomicU32>::new();
            let mut second = true;
            let first = guarded.visit(outer, || second = guarded.visit(inner, || ()));
            (first, second)
        };
        assert_eq!(both(Reader, Reader), (true, true));
        assert_eq!(both(Reader, Writer), (false, false));
        assert!(!both(Writer, Reader).1 && !both(Writer, Writer).1);
    }

    #[test]
    fn who_comes_after_another_is_fine() {
        let guarded = Guarded::<AtomicU32>::new();
        for role in [Role::Writer, Role::Reader, Role::Writer, Role::Writer] {
            assert!(guarded.visit(role, || ()));
        }
    }
}
