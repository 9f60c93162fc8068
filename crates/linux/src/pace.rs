//! How a thread's spinners look at a lock: at every chance, or seldom.
//!
//! A lock whose owner comes back sooner than the lock could change hands does
//! more while it stays with that owner: its waiters had better leave the cache
//! line alone, for a thousand acquisitions or so. A thread's own period, from taking
//! a lock to coming back for it, tells that of threads like it. It is compared with
//! the time that a cache line takes from one CPU to another, as spinners measure it
//! when a look finds the word changed: that differs between machines, between the CPUs
//! of one, and for a virtual machine from one second to the next.
//!
//! While a lock is passed on, a period says less: what the lock protects comes from another CPU,
//! too, each time, and the longer that takes, the better the lock had stayed. So all threads try
//! that now and then (`lines.jsonl` in benches/runs/mutex-2cpu-xeon-480mib).
//!
//! By its period while a lock stays with it, a thread also knows what it would [`gain`] if it had
//! the lock beside others.

use std::{
    cell::Cell,
    sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{self, Relaxed},
    },
};

use lockyard_core::Look;

use crate::{arch, clock, spin, tasks::keeper};

/// Who looks seldom polls once its period is so many of the transfers that a lock is said to
/// take. A mutex takes 2: half of a period is away from the lock, if no more is known, and the
/// next owner is in two transfers after the release, nearly. Measured with threads that hold the
/// mutex for as long as they stay away, polling and looking seldom do the same at a period of 3.6
/// transfers of 30 ns each on a Zen 5 (`pace.jsonl` in benches/runs/mutex-2cpu-zen5), and at
/// 83 ns, some 2.8 transfers, on a Zen 4 (`forced.jsonl` in benches/runs/mutex-2cpu-zen4). What
/// is compared is less, for the lock's own line is among the data that take long to come.
const LONG: (u32, u64) = (3, 2);

/// Who polls goes on until its period is shorter than this, for it varies.
const LONG_YET: (u32, u64) = (4, 3);

/// How spinners look when the period is short. Each look costs the owner a transfer or two;
/// and a lock that nobody comes back to is idle until the next. With one every
/// 16 us, 64 threads do the same, and wait longer: 68 us for 26 at p99.9 (`cover.jsonl` in
/// benches/runs/mutex-2cpu-xeon-480mib).
const SELDOM: Look = Look::Every(24_000);

/// How spinners look in a trial, which lasts so long, and comes so long after the last. A turn has
/// some ten of these looks, enough for [`TURN`] acquisitions of a period that is worth a trial.
const TRIAL: Look = Look::Every(2_000);
const TRIAL_NS: u64 = 200_000;
const TRIALS_NS: u64 = 25_000_000;

/// A lock with a period of so many transfers had better be passed on in any case.
const NO_DOUBT: u64 = 10;

/// While polling, one spin in so many is measured, after the first few: to read the cycle
/// counter at each look delays the hand-over, and a period that comes out too short by chance
/// has the thread look seldom. Spins that look seldom all are: they are long, and a change
/// of the period should not go unnoticed.
const MEASURED: u32 = 1024;

/// What is taken for granted before anything is measured: a period that is long, and a
/// transfer that is usual, or takes longer.
const PERIOD_NS: u64 = 5_000;
const TRANSFER_NS: u64 = 100;

/// Times are in so many parts of a nanosecond.
const PARTS: u64 = 64;

/// What a transfer takes: a running median of what all threads measure, which may overwrite
/// each other's. When it changes, each of many threads alone would learn that late.
static TRANSFER: AtomicU64 = AtomicU64::new(TRANSFER_NS * PARTS);

/// When the last trial ends, in cycles.
static TRIED: AtomicU64 = AtomicU64::new(0);
/// Whether it is under way, or nobody has noticed that it is not.
static TRIES: AtomicBool = AtomicBool::new(false);

/// What the last thread would gain that knows it.
static LAST_GAIN: AtomicU32 = AtomicU32::new(UNKNOWN);
const UNKNOWN: u32 = u32::MAX;

struct Pace {
    /// When the last measured spin took its lock, in cycles, and how many locks the
    /// thread had taken then.
    since: Cell<Option<(u64, u32)>>,
    /// The period while the lock is passed on.
    beside: Median,
    /// The period in long turns.
    alone: Median,
    /// Whether the last spin was one of a trial.
    tried: Cell<bool>,
    /// Samples since the last of `beside`, [`STEP`] at most.
    old: Cell<u64>,
    /// Samples since the last long turn, [`STEP`] at most.
    short: Cell<u64>,
}

/// A running median.
struct Median {
    is: Cell<u64>,
    /// Of how many samples, [`STEP`] at most.
    of: Cell<u64>,
}

/// Acquisitions of a long turn.
const TURN: u64 = 32;

/// What a fence takes, in hundredths of a transfer (`fence.jsonl` in
/// benches/runs/rw-2cpu-xeon-480mib).
const FENCE: u32 = 15;

/// The period, likewise, where no turn is long: a lock that is passed on each time comes and goes.
const PASSED: u32 = 200;

/// A sample moves a running median by one part of so many, or a nanosecond, at most: what
/// interrupts a thread makes some a thousand times too long. A period moves faster at first, by
/// one part of so many as there were samples, or of [`HASTE`].
const STEP: u64 = 64;
const HASTE: u64 = 8;

/// The least of so many samples is where a period begins.
const FIRST: u64 = 3;

/// Of so many samples beside others a period is compared with that in long turns. Of fewer, two
/// that are long by chance have a thread look seldom; it has no more of them then for a while, in
/// which it may look seldom and others poll. With twice as many the threads of sysbench, which had
/// better look seldom, learn that too late (`sure.jsonl` in benches/runs/mutex-2cpu-zen4).
const SURE: u64 = 8;

fn moved(median: u64, sample: u64, step: u64) -> u64 {
    let step = (median / step).max(PARTS);
    sample.clamp(median.saturating_sub(step), median + step)
}

// What every spin uses stands alone, so that a hand-over pays for no more than
// a load and a store.
thread_local! {
    /// Locks that take more halves of a transfer than this had better be looked at seldom.
    static ENOUGH: Cell<u32> = const { Cell::new(u32::MAX) };
    /// Spins until the next one that is measured.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    /// What [`gain`] says.
    static GAIN: Cell<Option<u32>> = const { Cell::new(None) };
    /// Whether this spin is measured.
    static MEASURE: Cell<bool> = const { Cell::new(false) };
    static PACE: Pace = const { Pace::new() };
}

/// Nanoseconds, from some moment on; now and then, after weeks, from another. Seldom
/// asked, and of its own, so that what stands in the code of who locks is small.
#[cold]
#[inline(never)]
pub fn now() -> u64 {
    const CONVERTIBLE: u64 = u64::MAX >> 10;
    clock::ns_in_cycles(arch::cycles() & CONVERTIBLE)
}

/// The thread is about to spin for a lock that takes so many halves of a transfer to change
/// hands: how it should look.
#[inline(always)]
pub fn look(halves: u32) -> Look {
    if halves == 0 {
        PACE.with(Pace::skip);
        return Look::Poll;
    }
    let polls = !is_seldom(halves);
    if polls && TRIES.load(Relaxed) && PACE.with(Pace::tries) {
        return TRIAL;
    }
    match LEFT.get() {
        0 => PACE.with(|pace| pace.measure(polls, pace.tried.replace(false))),
        left => LEFT.set(left - 1),
    }
    if is_seldom(halves) {
        LEFT.set(0);
        return SELDOM;
    }
    Look::Poll
}

/// Whether the calling thread would look seldom at such a lock.
pub fn is_seldom(halves: u32) -> bool {
    halves > ENOUGH.get()
}

/// What the calling thread would gain if it went on beside others, in hundredths of a transfer
/// for each lock that it takes: its period, less what fences take; or the transfers of the lock,
/// if no turn is long. Known once it had some turns, or another thread.
pub fn gain() -> Option<u32> {
    let of_others = || Some(LAST_GAIN.load(Relaxed)).filter(|&gain| gain != UNKNOWN); // a hint
    GAIN.get().or_else(of_others)
}

/// A spinner took its lock.
#[inline(always)]
pub fn acquired() {
    if MEASURE.get() {
        PACE.with(Pace::begin);
    }
}

/// Whether a spin that begins is to [`load`]: it looks seldom, or is measured.
#[inline(always)]
pub fn is_timed(look: Look) -> bool {
    match look {
        Look::Every(_) => true,
        Look::Poll => MEASURE.get(),
        Look::Event => false,
    }
}

/// Loads a word that held `before` at the last look. If it does no more, its cache line
/// had to come from another CPU, and how long that took is noted.
#[cold]
#[inline(never)]
pub fn load(word: &AtomicU32, order: Ordering, before: u32) -> u32 {
    let (value, took) = clock::timed(|| word.load(order));
    if value != before {
        let median = TRANSFER.load(Relaxed);
        TRANSFER.store(moved(median, parts(took), STEP), Relaxed); // a hint
    }
    value
}

fn parts(cycles: u64) -> u64 {
    clock::ns_in_cycles(cycles.saturating_mul(PARTS))
}

impl Pace {
    const fn new() -> Self {
        Self {
            since: Cell::new(None),
            beside: Median::new(),
            alone: Median::new(),
            tried: Cell::new(false),
            old: Cell::new(0),
            short: Cell::new(0),
        }
    }

    /// Whether the trial is under way, and this spin one of it.
    #[cold]
    #[inline(never)]
    fn tries(&self) -> bool {
        let left = TRIED.load(Relaxed).saturating_sub(arch::cycles());
        // Another CPU may count from elsewhere.
        let tries = (1..=clock::cycles_in_ns(TRIAL_NS)).contains(&left);
        match tries {
            true => self.measure(true, self.tried.replace(true)),
            false => TRIES.store(false, Relaxed),
        }
        tries
    }

    /// Begins a trial, if that may teach something, and the last is long ago.
    fn try_again(&self, transfer: u64) {
        let doubtful = self.beside.is_known() && self.beside.is.get() < NO_DOUBT * transfer;
        let (now, last) = (arch::cycles(), TRIED.load(Relaxed));
        if doubtful && now > last.saturating_add(clock::cycles_in_ns(TRIALS_NS)) {
            TRIED.store(now + clock::cycles_in_ns(TRIAL_NS), Relaxed);
            TRIES.store(true, Relaxed);
        }
    }

    /// Ends a measurement, or has this spin measured. The last one polled, or would have but for a
    /// trial.
    #[cold]
    #[inline(never)]
    fn measure(&self, polls: bool, tried: bool) {
        let Some((since, took)) = self.since.take() else {
            MEASURE.set(true);
            return;
        };
        let times = u64::from(keeper().took().wrapping_sub(took)) + 1;
        // That the caller spins it knows from a try, which took it a transfer. Those before, if
        // the lock came back to it at once, are in the period: where they weigh, it is short.
        let polled = polls && !tried;
        let transfer = TRANSFER.load(Relaxed);
        let away = parts(clock::cycles_since(since));
        let away = away.saturating_sub(transfer);
        self.add(away / times, times, polled, tried);
        self.learn(polls, transfer);
        if polled {
            self.try_again(transfer);
        }
    }

    /// Notes the period of so many acquisitions.
    fn add(&self, period: u64, times: u64, polled: bool, tried: bool) {
        let more = |of: &Cell<u64>| of.set((of.get() + 1).min(STEP));
        let is_long = times >= TURN;
        // Polled or not: if an owner never stays away, that passing it on does less shows here alone.
        if is_long {
            self.alone.add(period);
        }
        if tried {
            return; // how long turns are otherwise it does not say
        }
        match is_long {
            true => self.short.set(0),
            false => more(&self.short),
        }
        if !is_long && (polled || !self.alone.is_known()) {
            self.beside.add(period);
            self.old.set(0);
            return;
        }
        more(&self.old);
        if self.old.get() == STEP {
            self.beside.forget(); // what is protected may be something else by now
        }
    }

    /// Nothing is measured until the next spin that is.
    fn skip(&self) {
        MEASURE.set(false);
        self.since.set(None);
    }

    /// The measured spin has taken its lock.
    #[cold]
    #[inline(never)]
    fn begin(&self) {
        MEASURE.set(false);
        self.since
            .set(Some((arch::ordered_cycles(), keeper().took())));
    }

    /// The period by which is decided: that in long turns, of which one is enough, and which counts
    /// as so much shorter as it is longer otherwise.
    fn period(&self) -> u64 {
        let (beside, alone) = (self.beside.is.get(), self.alone());
        match (self.alone.of.get() > 0, self.beside.of.get() >= SURE) {
            (false, _) => beside,
            (true, false) => alone,
            (true, true) => alone.saturating_sub(beside - alone),
        }
    }

    /// The period in long turns. It comes out too long where the thread was off its CPU, and one
    /// turn may be all that is known.
    fn alone(&self) -> u64 {
        match (self.alone.is.get(), self.beside.is.get()) {
            (alone, beside) if self.beside.is_known() => alone.min(beside),
            (alone, _) => alone,
        }
    }

    fn learn(&self, polls: bool, transfer: u64) {
        let (times, of) = if polls { LONG_YET } else { LONG };
        let in_transfers = |parts: u64, period: u64| {
            let parts = parts * period / transfer.max(1);
            u32::try_from(parts).unwrap_or(u32::MAX)
        };
        ENOUGH.set(in_transfers(2 * of, self.period()) / times);
        let period = match (self.short.get(), self.alone.is_known()) {
            (STEP.., _) => Some(PASSED),
            (_, true) => Some(in_transfers(100, self.alone())),
            _ => None,
        };
        if let Some(period) = period {
            let gain = gained(period, spin::cpus());
            GAIN.set(Some(gain));
            LAST_GAIN.store(gain, Relaxed); // a hint
        }
        let begins = self.beside.of.get().max(self.alone.of.get()) < STEP;
        LEFT.set(if begins { 0 } else { MEASURED });
    }
}

/// Twice what all together gain of such a period on so many CPUs: with two, the period less a
/// fence.
fn gained(period: u32, cpus: usize) -> u32 {
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX).max(2);
    let gained = u64::from(period) * u64::from(cpus - 1);
    (2 * gained.saturating_sub(FENCE.into()) / u64::from(cpus)) as u32
}

impl Median {
    const fn new() -> Self {
        Self {
            is: Cell::new(PERIOD_NS * PARTS),
            of: Cell::new(0),
        }
    }

    fn is_known(&self) -> bool {
        self.of.get() >= FIRST
    }

    fn forget(&self) {
        self.of.set(0);
    }

    fn add(&self, sample: u64) {
        let (median, of) = (self.is.get(), self.of.get());
        self.is.set(match of {
            0 => sample,
            _ if of < FIRST => median.min(sample),
            _ => moved(median, sample, of.max(HASTE)),
        });
        self.of.set((of + 1).min(STEP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_long_in_transfers() {
        for (transfers, before, after) in [
            (20, SELDOM, SELDOM),
            (28, Look::Poll, SELDOM), // as it was
            (32, Look::Poll, Look::Poll),
        ] {
            let pace = Pace::new();
            pace.beside.is.set(transfers * PARTS);
            for (polled, looks) in [(true, before), (false, after)] {
                pace.learn(polled, 10 * PARTS);
                assert_eq!(look(4), looks, "{transfers} tenths, polled {polled}");
            }
        }
    }

    #[test]
    fn a_lock_that_takes_more_transfers_wants_a_longer_period() {
        let pace = Pace::new();
        pace.beside.is.set(40 * PARTS);
        pace.learn(false, 10 * PARTS);
        assert_eq!([4, 6].map(look), [Look::Poll, SELDOM]);
    }

    #[test]
    fn a_lock_whose_data_take_long_to_come_had_better_stay() {
        // Polled, the period in transfers of 10 ns: long, were it not for the data.
        for (beside, looks) in [(32, Look::Poll), (40, SELDOM)] {
            let pace = Pace::new();
            let add = |period, times, tried: bool| pace.add(period * PARTS, times, !tried, tried);
            (0..SURE).for_each(|_| add(beside, 1, false));
            pace.learn(true, 10 * PARTS);
            assert_eq!(look(4), Look::Poll, "without a trial");
            (0..FIRST).for_each(|_| add(32, TURN, true));
            pace.learn(true, 10 * PARTS);
            assert_eq!(look(4), looks, "{beside} tenths beside others");
            assert_eq!(pace.short.get(), SURE, "a trial's turns are no others");
        }
    }

    #[test]
    fn a_few_samples_beside_others_decide_nothing() {
        let pace = Pace::new();
        (0..FIRST).for_each(|_| pace.alone.add(32 * PARTS));
        for n in 1..=SURE {
            pace.add(40 * PARTS, 1, true, false);
            let period = if n < SURE { 32 } else { 24 };
            assert_eq!(pace.period(), period * PARTS, "after {n}");
        }
    }

    #[test]
    fn a_turn_with_a_sleep_in_it_does_not_make_a_period_long() {
        let pace = Pace::new();
        (0..FIRST).for_each(|_| pace.add(20 * PARTS, 1, true, false));
        pace.add(40_000 * PARTS, TURN, true, false);
        pace.learn(true, 10 * PARTS);
        assert_eq!(look(4), SELDOM);
    }

    #[test]
    fn how_long_the_data_take_is_forgotten() {
        for times in [1, TURN] {
            let pace = Pace::new();
            let add = |period, times, polled| pace.add(period * PARTS, times, polled, false);
            (0..FIRST).for_each(|_| pace.alone.add(32 * PARTS));
            (0..SURE).for_each(|_| add(40, 1, true));
            assert_eq!(pace.period(), 24 * PARTS);
            for n in 1..=STEP {
                add(32, times, false);
                let known = n < STEP;
                assert_eq!(pace.beside.is_known(), known, "after {n} turns of {times}");
            }
            assert_eq!(pace.period(), 32 * PARTS);
        }
    }

    #[test]
    fn a_long_turn_tells_the_period_alone_though_the_spinner_polls() {
        let pace = Pace::new();
        (0..FIRST).for_each(|_| pace.add(32 * PARTS, TURN, true, false));
        let known = [&pace.alone, &pace.beside].map(Median::is_known);
        assert_eq!(known, [true, false]);
    }

    #[test]
    fn of_few_samples_two_long_ones_do_not_weigh() {
        let period = Median::new();
        (0..FIRST).for_each(|_| period.add(32 * PARTS));
        (0..2).for_each(|_| period.add(1_000 * PARTS));
        assert!((32..=41).contains(&(period.is.get() / PARTS)));
    }

    #[test]
    fn what_is_gained_is_known_after_long_turns() {
        let pace = Pace::new();
        (0..STEP).for_each(|_| pace.beside.add(90 * PARTS));
        let known = Some(gained(320, spin::cpus()));
        for (turns, known) in [(0, None), (FIRST - 1, None), (1, known)] {
            (0..turns).for_each(|_| pace.alone.add(32 * PARTS));
            pace.learn(false, 10 * PARTS);
            assert_eq!(GAIN.get(), known);
        }
    }

    #[test]
    fn transfers_are_gained_where_no_turn_is_long() {
        let pace = Pace::new();
        (0..FIRST).for_each(|_| pace.alone.add(32 * PARTS));
        for (short, period) in [(STEP - 1, 320), (STEP, PASSED)] {
            pace.short.set(short);
            pace.learn(false, 10 * PARTS);
            assert_eq!(GAIN.get(), Some(gained(period, spin::cpus())));
        }
    }

    #[test]
    fn with_more_cpus_more_is_gained() {
        assert_eq!([1, 2, 4, 17].map(|cpus| gained(10, cpus)), [0, 0, 7, 17]);
        assert_eq!(
            [1, 2, 4, 17].map(|cpus| gained(200, cpus)),
            [185, 185, 292, 374]
        );
    }

    #[test]
    fn what_is_not_to_be_measured_ends_a_measurement() {
        look(4);
        acquired();
        assert!(PACE.with(|pace| pace.since.get()).is_some());
        assert_eq!(look(0), Look::Poll);
        assert!(PACE.with(|pace| pace.since.get()).is_none());
    }

    #[test]
    fn interruptions_do_not_weigh() {
        let period = Median::new();
        for sample in 0..240 {
            let interrupted = sample % 3 == 0;
            period.add(if interrupted { 1_000_000 } else { 32 } * PARTS);
        }
        assert!((32..=34).contains(&(period.is.get() / PARTS)));
    }

    #[test]
    fn some_short_transfers_do_not_weigh() {
        let mut transfer = TRANSFER_NS * PARTS;
        for sample in 0..400 {
            let local = sample % 4 == 0;
            transfer = moved(transfer, if local { 5 } else { 32 } * PARTS, STEP);
        }
        assert!((31..=32).contains(&(transfer / PARTS)));
    }

    #[test]
    fn a_period_follows() {
        for (from, to) in [(32, 140), (140, 32), (0, 32), (5_000, 100)] {
            let period = Median::new();
            (0..10).for_each(|_| period.add(from * PARTS));
            (0..400).for_each(|_| period.add(to * PARTS));
            assert_eq!(period.is.get(), to * PARTS, "from {from} to {to}");
        }
    }
}
