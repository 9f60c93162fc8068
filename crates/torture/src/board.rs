//! What each task is at, for who watches whether they get on.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// So many tasks that hang are named, and the others counted.
const MOST: usize = 8;

/// Between two looks no more time than this counts: when there was more, as with
/// Ctrl-Z, who looks did not run, and neither may the tasks have.
const LONGEST: Duration = Duration::from_secs(2);

/// What a task is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum At {
    Outside,
    Waits,
    Inside,
    Ended,
}

impl At {
    const ALL: [Self; 4] = [Self::Outside, Self::Waits, Self::Inside, Self::Ended];

    /// It, as a verb.
    fn name(self) -> &'static str {
        match self {
            Self::Outside => "is outside",
            Self::Waits => "waits for the lock",
            Self::Inside => "holds the lock",
            Self::Ended => "has ended",
        }
    }
}

/// What a task is at, and, above that, how often it has got on.
#[repr(align(128))]
struct Slot(AtomicU64);

/// What all tasks are at.
pub(crate) struct Board {
    slots: Vec<Slot>,
    seen: Mutex<Seen>,
}

/// What the watcher saw last.
struct Seen {
    slots: Vec<u64>,
    when: Instant,
    /// For how long it has been the same.
    still: Duration,
}

impl Board {
    pub(crate) fn new(tasks: usize) -> Self {
        Self {
            slots: (0..tasks).map(|_| Slot(AtomicU64::new(0))).collect(),
            seen: Mutex::new(Seen {
                slots: Vec::new(),
                when: Instant::now(),
                still: Duration::ZERO,
            }),
        }
    }

    /// A task gets on to this; it alone writes its slot.
    pub(crate) fn set(&self, task: usize, at: At) {
        let slot = &self.slots[task].0;
        let times = slot.load(Relaxed) / At::ALL.len() as u64 + 1;
        slot.store(times * At::ALL.len() as u64 + at as u64, Relaxed);
    }

    fn at(slot: u64) -> At {
        At::ALL[slot as usize % At::ALL.len()]
    }

    /// Which tasks, by their names, are at what, when none has got on for so long.
    pub(crate) fn stuck(
        &self,
        patience: Duration,
        name: impl Fn(usize) -> String,
    ) -> Option<String> {
        let (still, active) = self.stands_still(Instant::now());
        if active.is_empty() || still < patience {
            return None;
        }
        let shown = active.iter().take(MOST);
        let mut tasks: Vec<_> = shown
            .map(|&(task, at)| format!("{} {}", name(task), at.name()))
            .collect();
        if active.len() > MOST {
            tasks.push(format!("and {} more", active.len() - MOST));
        }
        let (seconds, tasks) = (still.as_secs(), tasks.join(", "));
        Some(format!("nobody got on for {seconds} s: {tasks}"))
    }

    /// For how long no task has got on, as far as calls of this, of which one is now,
    /// have seen; the tasks that have not ended, by number, those that wait last.
    fn stands_still(&self, now: Instant) -> (Duration, Vec<(usize, At)>) {
        let slots: Vec<u64> = self.slots.iter().map(|slot| slot.0.load(Relaxed)).collect();
        let tasks = (0..)
            .zip(&slots)
            .map(|(task, &slot)| (task, Self::at(slot)));
        let active = tasks.filter(|&(_, at)| at != At::Ended);
        let mut active: Vec<_> = active.collect();
        active.sort_by_key(|&(_, at)| at == At::Waits);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(seen.when).min(LONGEST);
        let still = match seen.slots == slots {
            true => seen.still + since,
            false => Duration::ZERO,
        };
        *seen = Seen {
            slots,
            when: now,
            still,
        };
        (still, active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stands_still_while_no_task_gets_on() {
        const SECOND: Duration = Duration::from_secs(1);
        let board = Board::new(3);
        board.set(0, At::Waits);
        board.set(1, At::Ended);
        let begin = Instant::now();
        let still = |seconds| board.stands_still(begin + seconds * SECOND).0;
        assert_eq!([0, 1, 2].map(still), [0, 1, 2].map(|n| n * SECOND));
        let (_, active) = board.stands_still(begin);
        assert_eq!(active, [(2, At::Outside), (0, At::Waits)]);
        let said = board.stuck(2 * SECOND, |task| format!("task {task}"));
        let said = said.expect("it is stuck");
        assert!(
            said.ends_with(": task 2 is outside, task 0 waits for the lock"),
            "{said}"
        );
        assert_eq!(board.stuck(Duration::MAX, |_| String::new()), None);
        // The same again is progress.
        board.set(0, At::Waits);
        assert_eq!(still(3), Duration::ZERO);
    }

    #[test]
    fn time_in_which_nobody_looks_does_not_count() {
        let board = Board::new(1);
        let begin = Instant::now();
        board.stands_still(begin);
        let (still, _) = board.stands_still(begin + Duration::from_secs(3600));
        assert_eq!(still, LONGEST);
    }
}
