//! A lock that is plain, or is so no longer, or again: who has it has come in another way, or
//! leaves in another.

use lockyard_check::Check;
use lockyard_core::Platform;

use super::*;

/// A keeper does not know any more that the lock is reserved for it, as it leaves, while another
/// finds out whether it is in.
#[test]
fn a_keeper_that_forgets() {
    fn await_another(shared: &Shared) {
        shared.been.fetch_add(1, Relaxed);
        shared.wait_for(2);
    }
    fn write_until_another_comes(shared: &Shared) {
        shared.write();
        shared.lock.write();
        await_another(shared);
        shared.work();
        shared.unlock_write();
    }
    fn read_until_another_comes(shared: &Shared) {
        shared.write();
        shared.lock.read();
        await_another(shared);
        shared.payload.get();
        shared.unlock_read();
    }
    fn try_to_write(shared: &Shared) {
        await_another(shared);
        shared.write_at_once(); // which revokes at once, too
    }
    fn try_to_read(shared: &Shared) {
        await_another(shared);
        shared.read_at_once();
    }
    let keepers: [Work; 2] = [write_until_another_comes, read_until_another_comes];
    for keeper in keepers {
        for other in [try_to_write, try_to_read as Work] {
            for changes in 1..=2 {
                let explorer = Explorer::new().keeping().fickle().whims(2);
                let explorer = explorer.pct(1, changes, MANY);
                let events = [Event::Revoked];
                explore("rwsem, a forgetful keeper", &explorer, &events, move || {
                    tasks(&[(2, keeper), (0, other)]);
                });
            }
        }
    }
}

/// A task has come and gone by the count. Now it reads by a slot, for another has biased the lock,
/// and is counted for a writer that gives up. It leaves by the count again, and nothing of the slot
/// is left.
#[test]
fn counted() {
    fn read_by_slot(shared: &Shared) {
        shared.read_and_say_so();
        shared.wait_for(2);
        let reads = shared.lock.try_read();
        shared.wait_for(3);
        Check::fence(); // the writer has given up, and looks at slots no more
        if reads {
            shared.unlock_read();
        }
        assert!(Check::mine().unbinds_slots(), "a slot is left");
    }
    fn bias(shared: &Shared) {
        shared.wait_for(1);
        shared.read();
        shared.been.fetch_add(1, Relaxed);
    }
    fn give_up(shared: &Shared) {
        shared.wait_for(2);
        shared.try_to_write();
        Check::fence();
        shared.been.fetch_add(1, Relaxed);
    }
    let explorer = Explorer::new().biasing().fickle().whims(2);
    for changes in 1..=3 {
        for explorer in [explorer, explorer.pairing()] {
            let explorer = explorer.pct(1, changes, MANY);
            let events = [Event::Biased, Event::Cancelled];
            explore("rwsem, plain, counted", &explorer, &events, || {
                tasks(&[(2, read_by_slot), (0, bias), (0, give_up)]);
            });
        }
    }
}
