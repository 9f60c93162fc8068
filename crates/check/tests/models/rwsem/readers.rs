//! Tasks that are readers by a slot, but for as long as they sleep.

use lockyard_check::Check;
use lockyard_core::Platform;

use super::{bias::read_again, *};

/// Parks, and is woken at once.
pub(super) fn sleep() {
    Check::unpark(Check::me());
    Check::park(None);
}

/// Reads by a slot before it has slept, and after.
fn read_and_sleep(shared: &Shared) {
    read_again(shared);
    sleep();
    shared.read();
}

/// Sleeps while it reads by a slot, too.
fn sleep_and_read(shared: &Shared) {
    (0..2).for_each(|_| shared.read());
    shared.lock.read();
    shared.payload.get();
    sleep();
    shared.payload.get();
    shared.unlock_read();
}

/// A writer that looks for readers finds those that are in, and knows what those have done that
/// it does not find.
#[test]
fn a_reader_that_sleeps() {
    for reader in [read_and_sleep, sleep_and_read as Work] {
        for (changes, whims, events) in [
            (2, 1, &[Event::FencedBiasRevoked][..]),
            (3, 1, &[Event::FencedBiasRevoked]),
            (2, 2, &[Event::FenceShed, Event::BiasRevoked]),
            (3, 2, &[Event::FenceShed, Event::BiasRevoked]),
        ] {
            let explorer = Explorer::new().biasing().resting().whims(whims);
            let explorer = explorer.pct(1, changes, MANY);
            explore("rwsem, a reader sleeps", &explorer, events, move || {
                tasks(&[(whims, reader), (1, Shared::write)]);
            });
        }
    }
}

/// Others are on the list meanwhile, or leave it as they wait for the lock.
#[test]
fn readers_that_sleep() {
    for changes in 1..=3 {
        let explorer = Explorer::new().biasing().resting().whims(2);
        let explorer = explorer.pct(1, changes, MANY);
        let events = [Event::FencedBiasRevoked, Event::Parked];
        explore("rwsem, readers sleep", &explorer, &events, || {
            tasks(&[(2, read_and_sleep), (2, read_and_sleep), (2, Shared::write)]);
        });
    }
}
