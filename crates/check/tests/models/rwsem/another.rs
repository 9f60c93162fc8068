//! Readers that release a biased lock as another task than they took it as, while others read:
//! faults that random programs have found, each reduced to the deeds that show it.

use super::*;

const EXPLORER: Explorer = Explorer::new().biasing();

/// Leaves behind a fenced bias, and reads by a slot, for another task to release that.
fn read_and_stay(shared: &Shared) {
    shared.read();
    shared.read_for_another();
}

/// A reader that is to upgrade is the only one that is counted. Who releases the lock for the
/// one in the slot takes that for a part of its own.
#[test]
fn beside_an_upgradable_reader() {
    fn read_upgradably(shared: &Shared) {
        shared.wait_for(1);
        shared.lock.upgradable();
        shared.been.fetch_add(1, Relaxed);
        shared.wait_for(3);
        shared.unlock_upgradable();
    }
    fn leave(shared: &Shared) {
        shared.wait_for(2);
        shared.leave_for_another();
        shared.been.fetch_add(1, Relaxed);
    }
    explore("rwsem, another, upgradable", &EXPLORER, &[], || {
        tasks::<Lockless>(&[(0, read_and_stay), (0, read_upgradably), (0, leave)]);
    });
}

/// A reader that is counted leaves at the same time. Both take the one part, and so that of the
/// virtual reader; or the one that comes too late does not find the slot.
#[test]
fn beside_a_counted_reader() {
    for changes in 0..=3 {
        let explorer = EXPLORER.pct(1, changes, MANY);
        explore("rwsem, another, counted", &explorer, &[], || {
            behind_one(
                (0, take_to_read),
                &[Step::UnlockRead],
                &[(0, read_and_stay), (0, Shared::leave_for_another)],
            );
        });
    }
}

/// Another leaves by its own slot meanwhile. Who releases the lock takes that slot, which its
/// reader leaves by a store all the same: one of the two stays for ever.
#[test]
fn beside_another_slot() {
    for changes in 0..=3 {
        let explorer = EXPLORER.pct(1, changes, MANY);
        explore("rwsem, another, a slot", &explorer, &[], || {
            tasks::<Lockless>(&[
                (0, Shared::read),
                (0, read_and_stay),
                (0, Shared::leave_for_another),
            ]);
        });
    }
}

/// A writer has ended the bias, and takes long: who releases the lock has to see to it alone that
/// nobody leaves by a store any more.
#[test]
fn beside_one_who_revokes() {
    for changes in 1..=4 {
        let explorer = EXPLORER.pct(1, changes, 3 * MANY);
        explore("rwsem, another, revoked", &explorer, &[], || {
            tasks::<Lockless>(&[
                (0, read_and_stay),
                (0, Shared::read),
                (0, Shared::leave_for_another),
                (0, Shared::try_to_write),
            ]);
        });
    }
}
