//! A lock that is reserved for a task, and who ends that.

use super::*;

fn write_twice(shared: &Shared) {
    shared.write();
    shared.write();
}

/// The second write and the read are by the reservation.
fn write_twice_and_read(shared: &Shared) {
    write_twice(shared);
    shared.read();
}

fn write_and_read(shared: &Shared) {
    shared.write();
    shared.read();
}

fn read_and_write(shared: &Shared) {
    shared.read();
    shared.write();
}

/// The keeper is about to come, is in, or leaves, as writer and as reader, while another
/// revokes.
#[test]
fn a_keeper_and_another() {
    let works: [(Work, Work); 5] = [
        (write_twice_and_read, Shared::read),
        (write_twice, Shared::write),
        (write_twice, Shared::read),
        (write_and_read, Shared::write),
        (write_and_read, Shared::read),
    ];
    for (keeper, other) in works {
        let explorer = Explorer::new().keeping().always_running();
        for explorer in [explorer, explorer.polling(), explorer.seldom()] {
            let events = [Event::Revoked];
            for explorer in [
                explorer.executions(MOST),
                explorer.whims(2).pct(1, 2, 1_000),
                explorer.whims(2).pct(1, 3, 1_000),
            ] {
                explore("rwsem, a keeper", &explorer, &events, move || {
                    tasks(&[(2, keeper), (2, other)]);
                });
            }
        }
    }
}

/// Both have it reserved, one after the other, and recall it.
#[test]
fn two_keepers() {
    for changes in 1..=4 {
        let explorer = Explorer::new().keeping().polling().whims(1);
        let events = [Event::Revoked, Event::Recalled];
        let explorer = explorer.pct(1, changes, MANY);
        explore("rwsem, 2 keepers", &explorer, &events, || {
            tasks(&[(1, write_twice), (1, write_twice)]);
        });
        explore("rwsem, 2 keepers that read", &explorer, &events, || {
            tasks(&[(1, write_and_read), (1, read_and_write)]);
        });
    }
}

/// It is reserved while there are waiters, and somebody has promised to come to them.
#[test]
fn kept_with_waiters() {
    let works: [[Work; 3]; 4] = [
        [write_twice, write_twice, write_twice],
        [write_twice, write_and_read, Shared::read],
        [write_and_read, read_and_write, Shared::write],
        [write_twice, Shared::read, Shared::read],
    ];
    for works in works {
        for changes in 2..=4 {
            let explorer = Explorer::new().keeping().whims(4).pct(1, changes, 1_000);
            let events = [Event::Revoked, Event::Parked, Event::SpinAcquired];
            for explorer in [
                explorer,
                explorer.polling(),
                explorer.seldom(),
                explorer.always_running(),
            ] {
                explore("rwsem, kept, 3 tasks", &explorer, &events, move || {
                    tasks(&works.map(|work| (4, work)));
                });
            }
        }
    }
}

/// The keeper reads while a reader sleeps, whom the writer that revokes lets in.
#[test]
fn a_keeper_that_reads_and_a_sleeper() {
    let events = [Event::Revoked, Event::ReadersGranted];
    for sleeper in [Shared::read, Shared::read_upgradably as Work] {
        for changes in 2..=4 {
            let explorer = Explorer::new().keeping().whims(4);
            // Of 30 such numbers 6 find a twin.
            let explorer = explorer.pct(26, changes, 5 * MANY);
            explore("rwsem, kept, a sleeper", &explorer, &events, move || {
                let others = [(4, sleeper), (4, Shared::try_to_write)];
                behind(take_to_write, &[Step::UnlockWrite, Step::Read], &others);
            });
        }
    }
}

/// Who gives up takes a promise along that was made on its behalf.
#[test]
fn who_gives_up() {
    let events = [Event::Revoked, Event::Cancelled];
    for changes in 2..=4 {
        let explorer = Explorer::new().keeping().whims(3).pct(1, changes, MANY);
        for explorer in [explorer, explorer.polling(), explorer.seldom()] {
            explore("rwsem, kept, deadline", &explorer, &events, || {
                tasks(&[
                    (3, write_twice),
                    (3, Shared::try_to_write),
                    (3, Shared::write),
                ]);
            });
            explore("rwsem, kept, deadlines", &explorer, &events, || {
                tasks(&[
                    (3, write_twice),
                    (3, Shared::try_to_read),
                    (3, Shared::try_to_write),
                ]);
            });
        }
    }
}

/// A keeper becomes less than the writer, while others come, and may recall the lock.
#[test]
fn a_keeper_that_downgrades() {
    fn write_and_downgrade(shared: &Shared) {
        shared.write();
        shared.downgrade();
    }
    fn write_and_downgrade_by_steps(shared: &Shared) {
        shared.write();
        shared.downgrade_by_steps();
    }
    let others: [Work; 3] = [Shared::write, Shared::read, Shared::upgrade];
    for keeper in [write_and_downgrade, write_and_downgrade_by_steps] {
        for other in others {
            for changes in 2..=3 {
                let explorer = Explorer::new().keeping().whims(2).pct(1, changes, 1_000);
                for explorer in [explorer, explorer.polling(), explorer.seldom()] {
                    let events = [Event::Revoked];
                    explore("rwsem, kept, downgrade", &explorer, &events, move || {
                        tasks(&[(2, keeper), (2, other)]);
                    });
                }
            }
        }
    }
}

/// A keeper that reads and reads again is in the count then.
#[test]
fn nested_readers() {
    fn write_and_read_nested(shared: &Shared) {
        shared.write();
        shared.read_nested();
    }
    let explorer = Explorer::new().keeping().whims(1).pct(1, 3, MANY);
    explore("rwsem, kept, nested", &explorer, &[Event::Revoked], || {
        tasks(&[(1, write_and_read_nested), (1, Shared::write)]);
    });
}

/// Who leaves by the reservation touches nothing of the lock any more.
#[test]
fn freed_after_the_last_use() {
    fn write_again_and_free(shared: &Shared) {
        shared.write();
        write_and_free(shared);
    }
    fn read_later_and_free(shared: &Shared) {
        shared.write();
        read_and_free(shared);
    }
    let base = Explorer::new().keeping().whims(1);
    for explorer in [
        base.executions(MOST),
        base.pct(1, 3, MANY),
        base.polling().pct(1, 3, MANY),
    ] {
        let events = [Event::Revoked];
        explore("rwsem, kept, freed", &explorer, &events, || {
            freed::<Lockless>(1, write_again_and_free, write_and_free);
        });
        explore("rwsem, kept, freed by a reader", &explorer, &events, || {
            freed::<Lockless>(1, read_later_and_free, write_and_free);
        });
    }
}

#[test]
fn all_kinds() {
    for rotate in 0..9 {
        let base = Explorer::new().keeping().whims(8);
        for explorer in [
            base.pct(0, 3, 500),
            base.polling().pct(0, 2, 500),
            base.random(0, 300),
        ] {
            explore("rwsem, kept, all kinds", &explorer, &[], move || {
                let shared = of_all_kinds(rotate);
                afterwards(move || assert!(!shared.lock.is_locked()));
            });
        }
    }
}

/// A keeper that reads releases the lock as another task than it took it as, as a thread that
/// ends may, while another revokes.
#[test]
fn a_keeper_with_another_number() {
    fn read_and_stay(shared: &Shared) {
        write_and_read(shared);
        shared.read_for_another();
    }
    for changes in 1..=4 {
        let explorer = Explorer::new().keeping().whims(2).pct(1, changes, 3 * MANY);
        explore(
            "rwsem, kept, another number",
            &explorer,
            &[Event::Revoked],
            || {
                let works: [(u32, Work); 3] = [
                    (1, read_and_stay),
                    (1, Shared::leave_for_another),
                    (2, Shared::write),
                ];
                tasks(&works);
            },
        );
    }
}

/// A keeper is known to read, by the reservation or in the count, while another revokes.
#[test]
fn known_to_read() {
    fn write_and_read(shared: &Shared) {
        shared.write();
        shared.read_knowingly();
    }
    for changes in 1..=4 {
        for other in [Shared::write, write_and_read as Work] {
            let explorer = Explorer::new().keeping().whims(2).pct(1, changes, MANY);
            explore(
                "rwsem, kept, known",
                &explorer,
                &[Event::Revoked],
                move || {
                    tasks(&[(2, write_and_read), (2, other)]);
                },
            );
        }
    }
}

/// A keeper that reads is counted, and the lock gets a fenced bias. So a writer finds it neither
/// in a slot nor gone; and the keeper finds itself in the count, by what that one says of the
/// owner.
#[test]
fn counted_before_a_drain() {
    fn read_by_the_reservation(shared: &Shared) {
        shared.write();
        shared.lock.read();
        shared.payload.get();
        shared.been.fetch_add(1, Relaxed);
        shared.wait_for(2);
        shared.unlock_read();
    }
    fn revoke_and_bias(shared: &Shared) {
        shared.wait_for(1);
        shared.read();
        shared.been.fetch_add(1, Relaxed);
    }
    for drain in [Shared::write_at_once, Shared::try_to_write as Work] {
        for changes in 2..=4 {
            let explorer = Explorer::new().keeping().biasing().whims(2);
            let explorer = explorer.pct(0, changes, MANY);
            let events = [Event::Revoked, Event::Biased, Event::FencedBiasRevoked];
            for explorer in [explorer, explorer.pairing()] {
                explore("rwsem, kept, a drain", &explorer, &events, move || {
                    let shared = started(&[(0, read_by_the_reservation), (0, revoke_and_bias)]);
                    let of_writer = Rc::clone(&shared);
                    spawn(move || {
                        limit_whims(2);
                        of_writer.wait_for(2);
                        drain(&of_writer);
                    });
                    afterwards(move || assert!(!shared.lock.is_locked()));
                });
            }
        }
    }
}
