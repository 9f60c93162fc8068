//! Somebody has promised to look after those that wait: a spinner, or who was woken.

use super::*;

/// A spinner takes its promise back, while the owner unlocks and another task
/// sleeps, perhaps overdue. Too many executions to see them all.
fn a_promise<C: WakeCheck>(name: &'static str) {
    let events = [Event::WakeSkipped, Event::Parked, Event::HandoffAsked];
    let others: [Work<C>; 2] = [Shared::write, Shared::read];
    for sleeper in others {
        for changes in 1..=3 {
            let explorer = Explorer::new().whims(3).always_running();
            let explorer = explorer.pct(1, changes, MANY);
            explore(name, &explorer, &events, move || {
                behind(
                    take_to_write,
                    &[Step::UnlockWrite],
                    &[(4, Shared::write), (1, sleeper)],
                );
            });
        }
    }
}

#[test]
fn a_promise_lockless() {
    a_promise::<Lockless>("rwsem, a promise");
}

#[test]
fn a_promise_trylock() {
    a_promise::<Trylock>("rwsem, a promise, trylock");
}

/// A reader overtakes one that sleeps, by the promise of a spinner, and waits for it: it is
/// let in when the spinner gives up.
#[test]
fn a_reader_left_to_a_promise() {
    let events = [Event::WakeSkipped, Event::ReadStolen, Event::ReadersGranted];
    for changes in 1..=3 {
        let explorer = Explorer::new().whims(12).always_running();
        let explorer = explorer.pct(1, changes, MANY);
        explore("rwsem, left to a promise", &explorer, &events, || {
            let write_behind_a_reader = |shared: &Shared| {
                // Else it might come first, and keep the one out whom the other waits for.
                if history(&shared.lock, COUNT).last().copied().unwrap_or(0) & WAITERS != 0 {
                    shared.write();
                }
            };
            let others: [(u32, Work); 3] = [
                (1, Shared::read_and_say_so),
                (0, Shared::read_until_another_has),
                (12, write_behind_a_reader),
            ];
            behind(take_to_write, &[Step::UnlockWrite], &others);
        });
    }
}

/// A reader wakes an overdue writer, which gives up meanwhile; another sleeps behind it.
#[test]
fn an_overdue_writer_that_gives_up() {
    let events = [Event::WokeFirst, Event::ReadStolen, Event::Cancelled];
    for changes in 1..=4 {
        let explorer = Explorer::new().whims(4).always_running();
        let explorer = explorer.pct(1, changes, MANY);
        explore("rwsem, an overdue writer", &explorer, &events, || {
            let others: [(u32, Work); 3] = [
                (3, Shared::try_to_write),
                (1, Shared::write),
                (4, Shared::read),
            ];
            behind(take_to_read, &[Step::UnlockRead], &others);
        });
    }
}

/// A reader overtakes a writer that is awake, finds that it is late, and has it handed the lock,
/// which it looks at itself meanwhile, or gives up.
#[test]
fn a_late_writer() {
    let events = [Event::ReadStolen, Event::HandoffAsked, Event::HandedOff];
    for late in [Shared::write as Work, Shared::try_to_write] {
        for changes in 1..=4 {
            let explorer = Explorer::new().whims(6).always_running();
            let explorer = explorer.pct(1, changes, MANY);
            explore("rwsem, a late writer", &explorer, &events, move || {
                let others: [(u32, Work); 3] = [(1, late), (1, Shared::write), (6, Shared::read)];
                behind(take_to_read, &[Step::UnlockRead], &others);
            });
        }
    }
}

/// A waiter is woken while it sleeps at the gate, where it lets in readers that were left to
/// its promise.
#[test]
fn woken_at_the_gate() {
    let explorer = Explorer::new().whims(8).wakes(Wakes::Permissive(1));
    for rotate in 0..9 {
        let explorer = explorer.polling().random(rotate as u64, 8_000);
        let events = [Event::GateParked, Event::ReadersGranted];
        explore("rwsem, woken at the gate", &explorer, &events, move || {
            of_all_kinds(rotate);
        });
    }
}
