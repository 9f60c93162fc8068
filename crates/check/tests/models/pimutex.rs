//! Models of the mutex for worlds whose kernel lends priorities. The checker's kernel
//! fails an execution in which somebody else writes to a word that it has waiters for.

mod programs;

use std::rc::Rc;

use lockyard_check::{
    Check, CheckWord, Explorer, Tracked, afterwards, await_boost, be_urgent, free, history,
    limit_whims, name, spawn,
};
use lockyard_core::{
    Deadline, Event, FOREVER, Look,
    Ordering::Relaxed,
    Platform, RawPiMutex, Word,
    pimutex::{Adaptive, Policy, Strict},
};

use crate::{DEADLINE, explore};

// The words of a mutex, in their order, and their marks: see mutex.rs and
// pimutex.rs in the core.
const OWNER: usize = 0;
const FRONT: usize = 1;
const GATE: usize = 2;
const TAIL: usize = 3;
const BOOSTERS: usize = 5;
const KEPT: u32 = 1 << 29;
const RECALL: u32 = 8;
const BOOST: u32 = 16;
const SETTLED: u32 = 1 << 31;

/// How many executions of a model to explore that has too many.
const MOST: u64 = 4_000;
/// How many of one that has but few tasks, and many choices for each.
const MANY: u64 = 12_000;

/// A payload behind such a mutex.
struct Guarded<S: Policy> {
    mutex: RawPiMutex<Check, S>,
    payload: Tracked<u32>,
}

impl<S: Policy> Guarded<S> {
    fn new() -> Rc<Self> {
        let guarded = Rc::new(Self {
            mutex: RawPiMutex::new(),
            payload: Tracked::new(0),
        });
        name(&guarded.mutex, "mutex");
        guarded
    }

    /// What the owner does: a write that would race if it had company.
    fn work(&self) {
        self.payload.set(self.payload.get() + 1);
    }

    fn unlock(&self) {
        // SAFETY: a model unlocks what it has locked.
        unsafe { self.mutex.unlock() };
    }

    fn lock_work_unlock(&self) {
        self.mutex.lock();
        self.work();
        self.unlock();
    }

    fn twice(&self) {
        self.lock_work_unlock();
        self.lock_work_unlock();
    }

    fn until(&self) {
        if self.mutex.lock_until(DEADLINE) {
            self.work();
            self.unlock();
        }
    }

    fn at_once(&self) {
        if self.mutex.try_lock() {
            self.work();
            self.unlock();
        }
    }

    /// Nobody has the mutex, or waits for it, and no booster is counted.
    fn is_at_rest(&self) {
        assert!(!self.mutex.is_locked());
        let word = |index| history(&self.mutex, index).pop().unwrap_or(0);
        assert!(word(OWNER) == 0 || word(OWNER) & KEPT != 0);
        assert_eq!(
            word(FRONT) & !(RECALL | BOOST),
            0,
            "somebody is in the queue"
        );
        assert_eq!((word(GATE), word(TAIL)), (0, 0));
        assert_eq!(word(BOOSTERS) & !SETTLED, 0, "boosters are counted");
    }
}

/// How far tasks have come: an order in time, and of nothing that they read.
struct Steps([CheckWord; 3]);

impl Steps {
    fn new() -> Rc<Self> {
        Rc::new(Self([const { CheckWord::ZERO }; 3]))
    }

    fn come_to(&self, step: usize) {
        self.0[step].store(1, Relaxed);
    }

    fn wait_for(&self, step: usize) {
        Check::spin_until(
            &self.0[step],
            Relaxed,
            Look::Poll,
            FOREVER,
            |at| at != 0,
            || false,
        );
    }
}

/// A task of a model: the level that it lends, its whims, and what it does.
type Task<S> = (u32, u32, fn(&Guarded<S>));

/// One task for each element; when all are done the mutex is at rest.
fn tasks<S: Policy>(tasks: &[Task<S>]) -> Rc<Guarded<S>> {
    let guarded = Guarded::new();
    for &(level, whims, work) in tasks {
        let guarded = Rc::clone(&guarded);
        spawn(move || {
            limit_whims(whims);
            be_urgent(level);
            work(&guarded);
        });
    }
    let last = Rc::clone(&guarded);
    afterwards(move || last.is_at_rest());
    guarded
}

/// Explores such tasks.
fn check<S: Policy>(name: &str, explorer: Explorer, events: &[Event], all: &'static [Task<S>]) {
    let most = all.iter().map(|&(_, whims, _)| whims).max().unwrap_or(0);
    explore(name, &explorer.whims(most), events, || {
        tasks(all);
    });
}

/// Explores what tasks do while another has the mutex.
fn check_waiters(name: &str, explorer: Explorer, events: &[Event], all: &'static [Task<Adaptive>]) {
    let most = all.iter().map(|&(_, whims, _)| whims).max().unwrap_or(0);
    explore(name, &explorer.whims(most), events, move || {
        let (guarded, steps) = (Guarded::new(), Steps::new());
        let (owner, its) = (guarded.clone(), steps.clone());
        spawn(move || {
            limit_whims(0);
            owner.mutex.lock();
            its.come_to(0);
            owner.unlock();
        });
        for &(level, whims, work) in all {
            let (guarded, steps) = (guarded.clone(), steps.clone());
            spawn(move || {
                limit_whims(whims);
                be_urgent(level);
                steps.wait_for(0);
                work(&guarded);
            });
        }
        afterwards(move || guarded.is_at_rest());
    });
}

const EVERYTHING: Explorer = Explorer::new();

#[test]
fn nobody_boosts() {
    check::<Adaptive>(
        "pi, nobody boosts",
        EVERYTHING,
        &[Event::Parked, Event::WokeFirst],
        &[
            (0, 0, Guarded::lock_work_unlock),
            (0, 2, Guarded::lock_work_unlock),
        ],
    );
}

#[test]
fn a_booster() {
    check::<Adaptive>(
        "pi, a booster",
        EVERYTHING,
        &[Event::Boosted, Event::BoostEnded],
        &[
            (0, 1, Guarded::lock_work_unlock),
            (1, 1, Guarded::lock_work_unlock),
        ],
    );
}

#[test]
fn two_boosters() {
    check::<Adaptive>(
        "pi, 2 boosters",
        EVERYTHING,
        &[Event::Boosted, Event::BoostEnded],
        &[(1, 1, Guarded::lock_work_unlock), (2, 1, Guarded::twice)],
    );
}

/// (B1), (B2): the owner keeps the mutex, comes back, and a booster comes.
#[test]
fn a_booster_and_a_keeper() {
    check::<Adaptive>(
        "pi, a booster and a keeper",
        EVERYTHING.keeping(),
        &[Event::Boosted, Event::BoostEnded, Event::Revoked],
        &[(0, 0, Guarded::twice), (1, 1, Guarded::lock_work_unlock)],
    );
}

/// The keeper comes back while another revokes, and a booster finds that one's number.
#[test]
fn a_booster_and_a_revoker() {
    // What it is about is met once in some two thousand.
    let explorer = EVERYTHING.keeping().whims(1).pct(0, 2, 5 * MOST);
    let events = [Event::Boosted, Event::Revoked];
    explore("pi, a booster and a revoker", &explorer, &events, || {
        let (guarded, steps) = (Guarded::<Strict>::new(), Steps::new());
        let (keeper, its) = (guarded.clone(), steps.clone());
        spawn(move || {
            limit_whims(0);
            keeper.lock_work_unlock();
            its.come_to(0);
            keeper.lock_work_unlock();
        });
        let (revoker, its) = (guarded.clone(), steps.clone());
        spawn(move || {
            its.wait_for(0);
            if revoker.mutex.try_lock() {
                revoker.work();
                revoker.unlock();
            }
        });
        let booster = guarded.clone();
        spawn(move || {
            limit_whims(0);
            steps.wait_for(0);
            booster.lock_work_unlock();
        });
        afterwards(move || guarded.is_at_rest());
    });
}

#[test]
fn timeout_against_release() {
    check::<Adaptive>(
        "pi, timeout against release",
        EVERYTHING,
        &[Event::Boosted, Event::BoostEnded],
        &[(0, 0, Guarded::lock_work_unlock), (1, 1, Guarded::until)],
    );
}

/// (B3), (B4): a booster has left; an owner finds none, and another comes.
#[test]
fn boosting_ends() {
    let events = [Event::Boosted, Event::BoostEnded, Event::BoostStopped];
    explore(
        "pi, boosting ends",
        &EVERYTHING.executions(MANY),
        &events,
        || {
            let (guarded, steps) = (Guarded::new(), Steps::new());
            spawn_owner_and_booster(&guarded, &steps);
            afterwards(move || guarded.is_at_rest());
        },
    );
}

/// An owner whose mutex a booster has left, and with the third step that booster again.
fn spawn_owner_and_booster(guarded: &Rc<Guarded<Adaptive>>, steps: &Rc<Steps>) {
    let (owner, its) = (guarded.clone(), steps.clone());
    spawn(move || {
        limit_whims(0);
        owner.mutex.lock();
        its.come_to(0);
        its.wait_for(1);
        owner.unlock();
        owner.mutex.lock();
        its.come_to(2);
        owner.unlock();
    });
    let (booster, its) = (guarded.clone(), steps.clone());
    spawn(move || {
        limit_whims(0);
        be_urgent(1);
        its.wait_for(0);
        assert!(!booster.mutex.lock_until(DEADLINE));
        its.come_to(1);
        its.wait_for(2);
        booster.until();
    });
}

#[test]
fn a_sleeper_and_a_booster() {
    check_waiters(
        "pi, a sleeper and a booster",
        EVERYTHING.pct(0, 3, MOST),
        &[Event::Boosted, Event::BoostEnded, Event::Parked],
        &[(0, 2, Guarded::lock_work_unlock), (1, 1, Guarded::until)],
    );
}

/// The mutex is handed to an overdue waiter when a booster comes.
#[test]
fn a_booster_and_an_heir() {
    check_waiters(
        "pi, a booster and an heir",
        EVERYTHING.pct(0, 1, MOST).always_running(),
        &[Event::Boosted, Event::BoostEnded, Event::HandedOff],
        &[
            (0, 3, Guarded::lock_work_unlock),
            (1, 1, Guarded::lock_work_unlock),
        ],
    );
}

/// A booster reaches its deadline, and then waits in the queue: its mark is still
/// there, and so is `BOOST`.
fn boosts_and_sleeps(guarded: &Guarded<Adaptive>) {
    be_urgent(1);
    guarded.until();
    be_urgent(0);
    guarded.lock_work_unlock();
}

/// Who sleeps first in the queue naps; and an owner that is asked for the mutex does
/// not try for ever to hand over a word that is marked.
#[test]
fn a_booster_that_sleeps() {
    let explorer = EVERYTHING.always_running().steps(300);
    let asked = [Event::Boosted, Event::Parked, Event::HandoffAsked];
    for (explorer, events) in [
        (explorer.executions(MOST), &asked[..2]),
        (explorer.pct(2, 2, 4 * MOST), &asked),
    ] {
        check_waiters(
            "pi, a booster that sleeps",
            explorer,
            events,
            &[(0, 3, boosts_and_sleeps)],
        );
    }
}

/// The first of two in the queue leaves at its deadline, when the owner has already
/// found it awake.
#[test]
fn the_first_waiter_leaves() {
    let explorer = EVERYTHING.whims(1).pct(0, 2, MOST).always_running();
    let events = [Event::Boosted, Event::Cancelled, Event::WokeFirst];
    explore("pi, the first waiter leaves", &explorer, &events, || {
        let (guarded, steps) = (Guarded::<Adaptive>::new(), Steps::new());
        let (owner, its) = (guarded.clone(), steps.clone());
        spawn(move || {
            limit_whims(0);
            owner.mutex.lock();
            its.come_to(0);
            its.wait_for(2);
            owner.unlock();
        });
        let (first, its) = (guarded.clone(), steps.clone());
        spawn(move || {
            limit_whims(0);
            its.wait_for(0);
            be_urgent(1);
            assert!(!first.mutex.lock_until(DEADLINE));
            be_urgent(0);
            its.come_to(1);
            first.until();
            its.come_to(2);
        });
        let second = guarded.clone();
        spawn(move || {
            steps.wait_for(1);
            second.lock_work_unlock();
        });
        afterwards(move || guarded.is_at_rest());
    });
}

/// Boosting ends, or almost: another booster comes; and the first waiter goes to sleep.
#[test]
fn a_sleeper_while_boosting_ends() {
    let explorer = EVERYTHING.whims(2).steps(300).always_running();
    let events = [Event::Boosted, Event::BoostStopped, Event::Parked];
    let explorer = explorer.pct(0, 3, MOST);
    explore(
        "pi, a sleeper while boosting ends",
        &explorer,
        &events,
        || {
            let (guarded, steps) = (Guarded::new(), Steps::new());
            spawn_owner_and_booster(&guarded, &steps);
            let sleeper = guarded.clone();
            spawn(move || {
                steps.wait_for(2);
                sleeper.lock_work_unlock();
            });
            afterwards(move || guarded.is_at_rest());
        },
    );
}

#[test]
fn everybody_boosts() {
    check::<Strict>(
        "pi, strict",
        EVERYTHING.executions(MANY),
        &[Event::Boosted, Event::BoostEnded],
        &[
            (0, 0, Guarded::twice),
            (1, 0, Guarded::lock_work_unlock),
            (2, 0, Guarded::until),
        ],
    );
}

/// While they wait the owner is lent their levels, and the most urgent is next.
#[test]
fn the_owner_is_lent_the_level() {
    let events = [Event::Boosted, Event::BoostEnded];
    explore("pi, lent", &EVERYTHING, &events, || {
        let (guarded, steps) = (Guarded::<Strict>::new(), Steps::new());
        let (owner, its) = (guarded.clone(), steps.clone());
        spawn(move || {
            owner.mutex.lock();
            for level in 1..3 {
                its.come_to(level - 1);
                await_boost(level as u32);
            }
            owner.unlock();
            await_boost(0);
        });
        for level in 1..3 {
            let (waiter, its) = (guarded.clone(), steps.clone());
            spawn(move || {
                be_urgent(level);
                its.wait_for(level as usize - 1);
                waiter.mutex.lock();
                assert_eq!(waiter.payload.get(), 2 - level, "the most urgent is first");
                waiter.work();
                waiter.unlock();
            });
        }
        afterwards(move || guarded.is_at_rest());
    });
}

/// (B9): one of two waiters spins, and does not stop for a reason of its own. When the
/// other is in the kernel it goes there, too: the owner is lent the higher level, and
/// the more urgent of them is next.
#[test]
fn an_urgent_spinner_gives_way() {
    let events = [Event::SpinNotTop, Event::Boosted, Event::BoostEnded];
    explore("pi, a spinner gives way", &EVERYTHING, &events, || {
        let (guarded, steps) = (Guarded::<Adaptive>::new(), Steps::new());
        let (owner, its) = (guarded.clone(), steps.clone());
        spawn(move || {
            owner.mutex.lock();
            its.come_to(0);
            await_boost(2);
            owner.unlock();
        });
        for level in 1..3 {
            let (waiter, its) = (guarded.clone(), steps.clone());
            spawn(move || {
                be_urgent(level);
                its.wait_for(0);
                waiter.mutex.lock();
                assert_eq!(waiter.payload.get(), 2 - level, "the most urgent is first");
                waiter.work();
                waiter.unlock();
            });
        }
        afterwards(move || guarded.is_at_rest());
    });
}

/// Two tasks take two mutexes, each in an order of its own.
fn crosswise(deadline: Option<Deadline>) {
    let both = Rc::new([Guarded::<Strict>::new(), Guarded::new()]);
    for first in 0..2 {
        let both = Rc::clone(&both);
        spawn(move || {
            let [first, second] = [&both[first], &both[1 - first]];
            first.mutex.lock();
            let taken = match deadline {
                Some(deadline) => second.mutex.lock_until(deadline),
                None => {
                    second.mutex.lock();
                    true
                }
            };
            if taken {
                second.work();
                second.unlock();
            }
            first.unlock();
        });
    }
    afterwards(move || both.iter().for_each(|guarded| guarded.is_at_rest()));
}

/// Behind two naps.
const SOON: Deadline = Deadline(12_000_000);

#[test]
fn a_deadlock_is_found() {
    let failure = EVERYTHING.check(|| crosswise(None));
    let failure = failure.expect_err("somebody is told of a deadlock");
    assert!(
        failure.what.contains("whose owner waits for it"),
        "{failure}"
    );
    let events = [Event::Boosted, Event::BoostEnded];
    explore("pi, a deadlock", &EVERYTHING, &events, || {
        crosswise(Some(SOON));
    });
}

/// Who uses the mutex last frees it.
fn use_and_free(guarded: &Guarded<Adaptive>) {
    guarded.mutex.lock();
    guarded.work();
    let last = guarded.payload.get() == 2;
    guarded.unlock();
    if last {
        free(&guarded.mutex);
    }
}

#[test]
fn freed_after_the_last_use() {
    let events = [Event::Boosted, Event::BoostEnded];
    for explorer in [EVERYTHING, EVERYTHING.keeping()] {
        explore("pi, freed", &explorer.whims(1), &events, || {
            let guarded = Guarded::new();
            for level in 0..2 {
                let guarded = Rc::clone(&guarded);
                spawn(move || {
                    be_urgent(level);
                    use_and_free(&guarded);
                });
            }
        });
    }
}
