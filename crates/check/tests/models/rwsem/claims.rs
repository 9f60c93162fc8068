//! A writer that claims the lock: it keeps further readers out, and awaits those that are in.

use super::*;

/// A lock that is to be handed to its first waiter is not claimed by who spins.
#[test]
fn not_before_an_heir() {
    let events = [Event::HandoffAsked, Event::HandedOff];
    for changes in 2..=4 {
        // Of 30 such numbers ten find the twin.
        let explorer = Explorer::new().whims(4).pct(16, changes, MANY);
        explore("rwsem, a claim and an heir", &explorer, &events, || {
            let works: [(u32, Work); 3] =
                [(2, Shared::read), (4, Shared::write), (4, Shared::write)];
            let shared = started(&works);
            afterwards(move || {
                let counts = history(&shared.lock, COUNT);
                let is_claimed = |pair: &[u32]| {
                    let [before, after] = [pair[0], pair[1]];
                    let claims = before & WRITER == 0 && after & WRITER != 0 && after >= READER;
                    claims && before & HANDOFF != 0
                };
                assert!(!counts.windows(2).any(is_claimed));
            });
        });
    }
}

/// A writer sleeps, and a reader that spun has taken the lock past it. Another writer promises to
/// look after it, and claims the lock: the promise goes as that one goes in.
#[test]
fn who_claims_has_promised() {
    let events = [Event::Parked, Event::WokeFirst, Event::WakeSkipped];
    for changes in 2..=4 {
        let explorer = Explorer::new().whims(4).pct(2, changes, 4 * MANY);
        explore("rwsem, a claim and a promise", &explorer, &events, || {
            let others: [(u32, Work); 3] =
                [(2, Shared::write), (2, Shared::read), (2, Shared::write)];
            behind(take_to_write, &[Step::UnlockWrite], &others);
        });
    }
}
