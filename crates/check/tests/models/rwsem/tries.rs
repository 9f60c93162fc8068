//! What a try that fails says, what a fair unlock leaves, and what a snapshot says to who has the
//! lock: while others revoke a bias or a reservation, or try to.

use super::*;
use lockyard_check::Check;
use lockyard_core::{
    FOREVER, Look,
    Ordering::{AcqRel, Acquire},
    Platform,
};

fn await_been(shared: &Shared, been: u32) {
    let done = |now| now >= been;
    Check::spin_until(&shared.been, Acquire, Look::Poll, FOREVER, done, || false);
}

/// The lock is reserved for a task that has
/// left it, and nobody wants to write any more.
#[test]
fn two_try_to_read_what_was_reserved() {
    fn try_read(shared: &Shared) {
        await_been(shared, 1);
        assert!(shared.lock.try_read(), "nobody writes, nor will");
        shared.unlock_read();
    }
    fn write_and_say_so(shared: &Shared) {
        shared.write();
        shared.been.fetch_add(1, AcqRel);
    }
    for changes in 0..=3 {
        let explorer = Explorer::new().keeping().pct(1, changes, MANY);
        explore("rwsem, tries, two try to read", &explorer, &[], || {
            tasks::<Lockless>(&[(0, write_and_say_so), (0, try_read), (0, try_read)]);
        });
    }
}

/// The same of a lock that is read for good, with a fenced bias: somebody tries to write, and
/// has not had the lock either.
#[test]
fn one_tries_to_read_and_one_to_write() {
    fn read_and_stay(shared: &Shared) {
        shared.read(); // leaves a fenced bias
        shared.lock.read();
        shared.been.fetch_add(1, AcqRel);
        await_been(shared, 3);
        shared.unlock_read();
    }
    fn try_read(shared: &Shared) {
        await_been(shared, 1);
        let read = shared.lock.try_read();
        shared.been.fetch_add(1, AcqRel);
        assert!(read, "it is read all the time");
        shared.unlock_read();
    }
    fn try_write(shared: &Shared) {
        await_been(shared, 1);
        assert!(!shared.lock.try_write());
        shared.been.fetch_add(1, AcqRel);
    }
    for changes in 0..=3 {
        let explorer = Explorer::new().biasing().pct(1, changes, MANY);
        explore("rwsem, tries, read and write", &explorer, &[], || {
            tasks::<Lockless>(&[(0, read_and_stay), (0, try_read), (0, try_write)]);
        });
    }
}

/// A free lock: one of two that try must get it.
#[test]
fn one_of_two_that_try_has_a_free_lock() {
    fn read_first(shared: &Shared) {
        shared.read(); // leaves a fenced bias
        shared.been.fetch_add(1, AcqRel);
    }
    fn try_read(shared: &Shared) {
        await_been(shared, 1);
        if shared.lock.try_read() {
            shared.been.fetch_add(100, AcqRel);
            shared.unlock_read();
        }
    }
    fn try_write(shared: &Shared) {
        await_been(shared, 1);
        if shared.lock.try_write() {
            shared.been.fetch_add(100, AcqRel);
            shared.unlock_write();
        }
    }
    for changes in 0..=3 {
        let explorer = Explorer::new().biasing().pct(1, changes, MANY);
        explore("rwsem, tries, both fail", &explorer, &[], || {
            let shared = started::<Lockless>(&[(0, read_first), (0, try_read), (0, try_write)]);
            afterwards(move || {
                assert!(
                    shared.been.load(Relaxed) >= 100,
                    "both failed, and nobody had it"
                );
            });
        });
    }
}

/// The upgradable reader is the only one, and another tries to write: neither gets it.
#[test]
fn the_only_reader_can_upgrade_while_another_tries_to_write() {
    fn upgradable(shared: &Shared) {
        shared.read(); // leaves a fenced bias
        shared.lock.upgradable();
        shared.been.fetch_add(1, AcqRel);
        // SAFETY: the caller is the upgradable reader.
        let upgraded = unsafe { shared.lock.try_upgrade() };
        assert!(upgraded, "it is the only reader");
        shared.unlock_write();
    }
    fn try_write(shared: &Shared) {
        await_been(shared, 1);
        if shared.lock.try_write() {
            shared.unlock_write();
        }
    }
    for changes in 0..=3 {
        let explorer = Explorer::new().biasing().pct(1, changes, MANY);
        explore("rwsem, tries, try to upgrade", &explorer, &[], || {
            tasks::<Lockless>(&[(0, upgradable), (0, try_write)]);
        });
    }
}

/// Who unlocks it fairly, and left it reserved before, does not overtake those that wait.
#[test]
fn a_fair_unlock_leaves_nothing_reserved() {
    fn twice(shared: &Shared) {
        shared.lock.write();
        shared.been.fetch_add(1, AcqRel);
        await_been(shared, 2);
        shared.unlock_write(); // leaves it reserved, if somebody spins for who waits
        if shared.lock.try_write() {
            let waits = word(shared) & WAITERS != 0;
            let before = shared.payload.get();
            shared.unlock_write_fairly();
            if waits && shared.lock.try_write() {
                // Nobody has had it in between.
                let overtook = word(shared) & WAITERS != 0 && shared.payload.get() == before;
                shared.unlock_write();
                assert!(!overtook, "somebody waited before it was fairly unlocked");
            }
        }
    }
    fn word(shared: &Shared) -> u32 {
        // SAFETY: the first word is the count.
        unsafe { &*std::ptr::from_ref(&shared.lock).cast::<lockyard_check::CheckWord>() }
            .load(Relaxed)
    }
    fn write(shared: &Shared) {
        await_been(shared, 1);
        shared.been.fetch_add(1, AcqRel);
        shared.write();
    }
    for changes in 1..=4 {
        let explorer = Explorer::new().keeping().whims(4).pct(1, changes, 5 * MANY);
        explore("rwsem, tries, fair", &explorer, &[], || {
            tasks::<Lockless>(&[(0, twice), (4, write), (4, write)]);
        });
    }
}

/// The caller has it, by a slot, and then in the count.
#[test]
fn who_reads_sees_that_it_is_locked() {
    fn read_and_ask(shared: &Shared) {
        read_before_a_writer(shared);
        assert!(shared.lock.is_locked(), "I read it");
        shared.unlock_read();
    }
    who_reads_asks("is_locked", read_and_ask);
}

/// The caller keeps the writer out, that has ended the bias for its turn.
#[test]
fn who_reads_sees_that_nobody_writes() {
    fn read_and_ask(shared: &Shared) {
        read_before_a_writer(shared);
        assert!(!shared.lock.is_write_locked(), "I read it");
        shared.unlock_read();
    }
    who_reads_asks("is_write_locked", read_and_ask);
}

fn read_before_a_writer(shared: &Shared) {
    shared.read(); // leaves a fenced bias
    shared.lock.read();
    shared.been.fetch_add(1, AcqRel);
}

fn who_reads_asks(what: &str, read_and_ask: fn(&Shared)) {
    fn write(shared: &Shared) {
        await_been(shared, 1);
        shared.write();
    }
    for changes in 0..=3 {
        let explorer = Explorer::new().biasing().whims(3).pct(1, changes, 5 * MANY);
        let name = format!("rwsem, tries, {what}, slot");
        explore(&name, &explorer, &[], move || {
            tasks::<Lockless>(&[(0, read_and_ask), (3, write)]);
        });
    }
}

/// The same by the reservation.
#[test]
fn who_writes_sees_that_it_is_locked() {
    fn write_and_ask(shared: &Shared) {
        shared.write(); // leaves it reserved
        shared.lock.write();
        shared.been.fetch_add(1, AcqRel);
        assert!(shared.lock.is_write_locked(), "I write");
        shared.unlock_write();
    }
    fn write(shared: &Shared) {
        await_been(shared, 1);
        shared.write();
    }
    for changes in 0..=3 {
        let explorer = Explorer::new().keeping().whims(3).pct(1, changes, 5 * MANY);
        explore("rwsem, tries, is_write_locked", &explorer, &[], || {
            tasks::<Lockless>(&[(0, write_and_ask), (3, write)]);
        });
    }
}
