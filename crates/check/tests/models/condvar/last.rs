//! Random programs that end in another way: the last user frees the mutex and the condition
//! variable, or an owner ends, and another task unlocks what it has left.

use std::ops::Range;

use fastrand::Rng;

use super::*;
use crate::programs::{
    explore_to_the_last,
    last::{Last, Left, Users},
};

/// What is freed, and who is the last to use it.
struct Freed {
    flag: Rc<Flag>,
    users: Users,
}

impl Freed {
    fn new(users: u32) -> Rc<Self> {
        Rc::new(Self {
            flag: Flag::new(),
            users: Users::new(users),
        })
    }

    /// The caller, who has the mutex for the last time, unlocks it, and is the last or not.
    fn unlock(&self, fairly: bool) {
        let last = self.users.count_owner(false);
        unlock(&self.flag.guarded, fairly);
        if last == Last::Alone {
            self.users.free(&self.flag.guarded.mutex);
            self.users.free(&self.flag.condvar);
        }
    }
}

fn unlock(guarded: &Guarded, fairly: bool) {
    match fairly {
        true => guarded.unlock_locked_fairly(),
        false => guarded.unlock(),
    }
}

/// All ways to take the mutex, but for those that may end without it: who gives up takes it
/// then.
const TAKES: [fn(&Guarded); 4] = [
    |guarded| guarded.mutex.lock(),
    |guarded| guarded.mutex.lock(),
    |guarded| {
        if !guarded.mutex.try_lock() {
            guarded.mutex.lock();
        }
    },
    |guarded| {
        if !guarded.mutex.lock_until(DEADLINE) {
            guarded.mutex.lock();
        }
    },
];

/// Who notifies does so while it has the mutex, and who waits comes back with it. The first
/// task is the one that raises the flag, as in its other deeds.
fn last_use(random: &mut Rng, task: u32) -> Deed<Freed> {
    let (take, fairly) = (TAKES[random.usize(..TAKES.len())], random.bool());
    let deadline = random.bool().then_some(DEADLINE);
    match random.u32(..4) {
        0 if task > 0 => Rc::new(move |freed| {
            take(&freed.flag.guarded);
            freed.flag.await_locked(deadline);
            freed.unlock(fairly);
        }),
        choice => Rc::new(move |freed| {
            take(&freed.flag.guarded);
            freed.flag.guarded.payload.set(1);
            match choice {
                1 => drop(freed.flag.condvar.notify_one()),
                _ => drop(freed.flag.condvar.notify_all()),
            }
            freed.unlock(fairly);
        }),
    }
}

fn explore_freed(numbers: Range<u64>) {
    let any_deed = |random: &mut Rng, task| -> Deed<Freed> {
        let deed = any_deed(random, task);
        Rc::new(move |freed| deed(&freed.flag))
    };
    let events = [
        Event::Requeued,
        Event::HandedOff,
        Event::WokeFirst,
        Event::WokeBatch,
        Event::Cancelled,
        Event::CancelGranted,
        Event::Revoked,
        Event::Recalled,
    ];
    let deeds = (any_deed, last_use);
    let at_end = |freed: &Freed| assert!(freed.users.are_gone());
    explore_to_the_last(
        "condvar, freed",
        numbers,
        &events,
        deeds,
        Freed::new,
        at_end,
    );
}

/// What owners have left to the first task to unlock.
struct Ended {
    flag: Rc<Flag>,
    left: Left,
}

impl Ended {
    fn new(tasks: u32) -> Rc<Self> {
        let ended = Rc::new(Self {
            flag: Flag::new(),
            left: Left::new(tasks),
        });
        ended.left.name();
        ended
    }

    fn unlock_for_another(&self, fairly: bool) {
        let guarded = &self.flag.guarded;
        guarded.take_over();
        guarded.work();
        unlock(guarded, fairly);
    }
}

/// The first task, which unlocks what is left, waits for nothing else. The second one raises the
/// flag.
fn deed_or_unlock(random: &mut Rng, task: u32) -> Deed<Ended> {
    let fairly = random.bool();
    match random.u32(..3) {
        0 if task == 0 => Rc::new(|ended| ended.flag.guarded.lock_at_once()),
        _ if task == 0 => Rc::new(move |ended| {
            if ended.left.take() {
                ended.unlock_for_another(fairly);
            }
        }),
        _ => {
            let deed = any_deed(random, task - 1);
            Rc::new(move |ended| deed(&ended.flag))
        }
    }
}

fn end_or_unlock(random: &mut Rng, task: u32) -> Deed<Ended> {
    let (take, fairly) = (TAKES[random.usize(..TAKES.len())], random.bool());
    match random.u32(..3) {
        _ if task == 0 => {
            Rc::new(move |ended| ended.left.take_all(|| ended.unlock_for_another(fairly)))
        }
        0 => Rc::new(|ended| ended.left.finish()),
        _ => Rc::new(move |ended| {
            take(&ended.flag.guarded);
            ended.flag.guarded.payload.set(1);
            ended.left.leave();
            ended.left.finish();
        }),
    }
}

fn explore_left(numbers: Range<u64>) {
    let events = [
        Event::Requeued,
        Event::HandedOff,
        Event::WokeFirst,
        Event::WokeBatch,
        Event::Cancelled,
        Event::Revoked,
    ];
    let deeds = (deed_or_unlock, end_or_unlock);
    let at_end = |ended: &Ended| assert!(!ended.flag.guarded.mutex.is_locked());
    explore_to_the_last("condvar, left", numbers, &events, deeds, Ended::new, at_end);
}

#[test]
fn random_programs_freed() {
    explore_freed(0..120);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_freed_for_long() {
    explore_freed(1_000..3_400);
}

#[test]
fn random_programs_left() {
    explore_left(0..100);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_left_for_long() {
    explore_left(1_000..3_000);
}
