//! How long tasks stay inside: the delays of the kernel's locktorture, and short
//! ones for short runs.

use std::time::Duration;

use fastrand::Rng;

/// How long tasks hold the lock. A "long hold" is that of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delays {
    /// As the kernel has them since 6.5. A writer leaves at once, but for ten
    /// long holds once in 2,000 times the milliseconds of a long hold, and is
    /// preempted once in 20,000. A reader stays for half a long hold, and for two
    /// as seldom as a writer for ten. All that is so many times rarer as there
    /// are tasks of the kind.
    New,
    /// As before: the same, but a writer stays for a tenth of a long hold.
    Old,
    /// For short runs: whoever is in leaves within a microsecond, but for a
    /// tenth of a long hold once in 256, is preempted once in 16, and as often
    /// sleeps for up to 100 microseconds.
    None,
}

/// Whether a task comes to share the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Writer,
    Reader,
}

/// What a task does while it holds the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stay {
    /// It keeps its CPU busy for so long.
    pub(super) busy: Duration,
    /// Then it lets others run.
    pub(super) preempted: bool,
    /// Then it sleeps for so long.
    pub(super) sleeps: Duration,
}

impl Stay {
    fn new(busy: Duration, preempted: bool) -> Self {
        Self {
            busy,
            preempted,
            sleeps: Duration::ZERO,
        }
    }
}

impl Delays {
    /// What one of so many tasks of a role does next.
    pub(super) fn stay(
        self,
        role: Role,
        tasks: usize,
        long_hold: Duration,
        dice: &mut Rng,
    ) -> Stay {
        let tasks = tasks as u64;
        if self == Self::None {
            return Self::short(long_hold, dice);
        }
        let mut once_in = |n: u64| dice.u64(0..n) == 0;
        let long = once_in(tasks * 2_000 * long_hold.as_millis() as u64);
        let busy = match (role, long) {
            (Role::Writer, true) => long_hold * 10,
            (Role::Writer, false) if self == Self::Old => long_hold / 10,
            (Role::Writer, false) => Duration::ZERO,
            (Role::Reader, true) => long_hold * 2,
            (Role::Reader, false) => long_hold / 2,
        };
        let preempted = role == Role::Writer && once_in(tasks * 20_000);
        Stay::new(busy, preempted)
    }

    fn short(long_hold: Duration, dice: &mut Rng) -> Stay {
        let short = Duration::from_nanos(dice.u64(0..1_000));
        let busy = match dice.u8(..) {
            0 => long_hold / 10,
            _ => short,
        };
        match dice.u8(0..16) {
            0 => Stay::new(busy, true),
            1 => Stay {
                sleeps: Duration::from_nanos(dice.u64(0..100_000)),
                ..Stay::new(busy, false)
            },
            _ => Stay::new(busy, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_millis(1);

    /// How often each wait occurs, and how often a task is preempted.
    fn seen(delays: Delays, role: Role, tasks: usize, is: impl Fn(&Stay) -> bool) -> usize {
        let mut dice = Rng::with_seed(3);
        let all = (0..400_000).map(|_| delays.stay(role, tasks, HOLD, &mut dice));
        all.filter(is).count()
    }

    #[test]
    fn long_holds_and_preemptions_are_as_rare_as_in_the_kernel() {
        let writer = |is: fn(&Stay) -> bool| seen(Delays::New, Role::Writer, 2, is);
        assert!((70..130).contains(&writer(|stay| stay.busy == 10 * HOLD)));
        assert!((2..25).contains(&writer(|stay| stay.preempted)));
        assert_eq!(
            writer(|stay| ![10 * HOLD, Duration::ZERO].contains(&stay.busy)),
            0
        );
        let reader = |is: fn(&Stay) -> bool| seen(Delays::New, Role::Reader, 4, is);
        assert!((30..75).contains(&reader(|stay| stay.busy == 2 * HOLD)));
        assert_eq!(reader(|stay| ![2 * HOLD, HOLD / 2].contains(&stay.busy)), 0);
        assert_eq!(reader(|stay| stay.preempted), 0);
    }

    #[test]
    fn an_old_writer_always_stays() {
        let stays = |stay: &Stay| stay.busy == HOLD / 10 || stay.busy == 10 * HOLD;
        assert_eq!(seen(Delays::Old, Role::Writer, 2, stays), 400_000);
    }

    #[test]
    fn without_delays_stays_are_short_and_now_and_then_long() {
        let long = seen(Delays::None, Role::Writer, 9, |stay| stay.busy == HOLD / 10);
        assert!((1_400..1_720).contains(&long), "{long}");
        let preempted = seen(Delays::None, Role::Reader, 9, |stay| stay.preempted);
        assert!((24_200..25_800).contains(&preempted), "{preempted}");
        let sleeps = seen(Delays::None, Role::Reader, 9, |stay| !stay.sleeps.is_zero());
        assert!((24_200..25_800).contains(&sleeps), "{sleeps}");
        let short = |stay: &Stay| stay.busy < Duration::from_micros(1);
        assert_eq!(seen(Delays::None, Role::Reader, 9, short), 400_000 - long);
    }
}
