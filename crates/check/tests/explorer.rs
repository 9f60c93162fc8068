//! The explorer finds what is broken on purpose, and says how to see it again.

use std::rc::Rc;

use lockyard_check::{
    Check, CheckWord, Explorer, Failure, Tracked, Wakes, afterwards, fence, free, history, name,
    spawn,
};
use lockyard_core::{
    Deadline, FOREVER, Look,
    Ordering::{self, *},
    Platform, TaskId, Woken, Word,
};

const EXPLORER: Explorer = Explorer::new();

fn task(number: u32) -> TaskId {
    TaskId::new(number).expect("a task")
}

fn until_not(word: &CheckWord, value: u32, order: Ordering) -> Option<u32> {
    Check::spin_until(
        word,
        order,
        Look::Poll,
        FOREVER,
        |now| now != value,
        || false,
    )
}

/// A test-and-set lock around a payload.
struct Toy {
    word: CheckWord,
    payload: Tracked<u32>,
}

impl Toy {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            word: CheckWord::ZERO,
            payload: Tracked::new(0),
        })
    }

    fn lock(&self, order: Ordering) {
        while self.word.swap(1, order) != 0 {
            until_not(&self.word, 1, Relaxed);
        }
    }
}

fn toy(lock: Ordering, unlock: Ordering) -> impl Fn() + 'static {
    move || {
        let toy = Toy::new();
        name(&toy.word, "toy");
        for _ in 0..2 {
            let toy = Rc::clone(&toy);
            spawn(move || {
                toy.lock(lock);
                toy.payload.set(toy.payload.get() + 1);
                toy.word.store(0, unlock);
            });
        }
        afterwards(move || assert_eq!(toy.payload.get(), 2));
    }
}

fn fails(explorer: &Explorer, model: impl Fn() + 'static, why: &str) -> Failure {
    let failure = explorer.check(model).expect_err("the model is broken");
    assert!(failure.what.contains(why), "{failure}");
    failure
}

#[test]
fn a_correct_lock_passes() {
    let report = EXPLORER.check(toy(Acquire, Release)).unwrap();
    assert!(report.executions > 1 && !report.truncated, "{report}");
}

#[test]
fn a_lock_without_barriers_races() {
    fails(&EXPLORER, toy(Relaxed, Release), "a data race");
    fails(&EXPLORER, toy(Acquire, Relaxed), "a data race");
    fails(
        &EXPLORER.random(1, 1_000),
        toy(Relaxed, Release),
        "a data race",
    );
    fails(
        &EXPLORER.pct(1, 2, 1_000),
        toy(Acquire, Relaxed),
        "a data race",
    );
}

#[test]
fn a_failure_repeats() {
    let failure = fails(&EXPLORER, toy(Acquire, Relaxed), "a data race");
    assert!(
        failure.timeline.contains("toy[0] swap 0x0 -> 0x1, Acquire"),
        "{failure}"
    );
    let again = EXPLORER
        .replay(&failure.replay, toy(Acquire, Relaxed))
        .expect_err("it fails again");
    assert_eq!(again.what, failure.what);
    assert_eq!(again.timeline, failure.timeline);
    assert_eq!(again.replay, failure.replay);
}

#[test]
#[should_panic(expected = "is no replay string: see byte 1")]
fn a_replay_string_is_checked() {
    let _ = EXPLORER.replay("b?", || {});
}

/// Nobody looks between the check and the sleep.
fn sleep_and_wake(looks_again: bool) -> impl Fn() + 'static {
    move || {
        let flag = Rc::new(CheckWord::ZERO);
        let seen = Rc::clone(&flag);
        spawn(move || {
            if looks_again {
                while seen.load(Acquire) == 0 {
                    Check::park(None);
                }
            } else {
                Check::park(None);
                assert_eq!(seen.load(Relaxed), 1, "woken for no reason");
            }
        });
        spawn(move || {
            flag.store(1, Release);
            Check::unpark(task(1));
        });
    }
}

#[test]
fn an_unpark_is_remembered_and_orders() {
    EXPLORER.check(sleep_and_wake(true)).unwrap();
    EXPLORER.check(sleep_and_wake(false)).unwrap();
}

#[test]
fn spurious_wakes_are_only_in_the_permissive_world() {
    let permissive = EXPLORER.wakes(Wakes::Permissive(1));
    permissive.check(sleep_and_wake(true)).unwrap();
    fails(&permissive, sleep_and_wake(false), "woken for no reason");
}

/// The waker looks for sleepers before the sleeper says that it is one.
fn dekker(barrier: bool) -> impl Fn() + 'static {
    move || {
        let words = Rc::new([const { CheckWord::ZERO }; 2]);
        let other = Rc::clone(&words);
        spawn(move || {
            words[0].store(1, Relaxed);
            if barrier {
                fence(SeqCst);
            }
            if words[1].load(Relaxed) == 0 {
                Check::park(None);
            }
        });
        spawn(move || {
            other[1].store(1, Relaxed);
            if barrier {
                fence(SeqCst);
            }
            if other[0].load(Relaxed) == 1 {
                Check::unpark(task(1));
            }
        });
    }
}

#[test]
fn a_lost_wake_up_is_found() {
    EXPLORER.check(dekker(true)).unwrap();
    let failure = fails(
        &EXPLORER,
        dekker(false),
        "a lost wake-up or a deadlock: task 1 is parked",
    );
    assert!(!failure.timeline.is_empty());
}

/// The same with a conditional store and a quiesce.
fn asymmetric(quiesce: bool) -> impl Fn() + 'static {
    move || {
        let words = Rc::new([const { CheckWord::ZERO }; 2]);
        let other = Rc::clone(&words);
        spawn(move || {
            words[0].store(1, Relaxed);
            if quiesce {
                Check::quiesce();
            }
            if words[1].load(Relaxed) == 0 {
                Check::park(None);
            }
        });
        spawn(move || {
            if !Check::store_if(&other[1], 1, &other[0], 0) {
                Check::unpark(task(1));
            }
        });
    }
}

#[test]
fn a_quiesce_pairs_with_a_conditional_store() {
    EXPLORER.check(asymmetric(true)).unwrap();
    fails(&EXPLORER, asymmetric(false), "task 1 is parked");
}

#[test]
fn a_deadlock_is_found() {
    let embrace = || {
        let toys = [Toy::new(), Toy::new()];
        for order in [[0, 1], [1, 0]] {
            let toys = toys.clone();
            spawn(move || {
                for index in order {
                    toys[index].lock(Acquire);
                }
                for index in order {
                    toys[index].word.store(0, Release);
                }
            });
        }
    };
    fails(&EXPLORER, embrace, "task 1 spins; task 2 spins");
    // It takes a preemption.
    EXPLORER.preemptions(Some(0)).check(embrace).unwrap();
    fails(
        &EXPLORER.preemptions(Some(1)),
        embrace,
        "task 1 spins; task 2 spins",
    );
}

/// Who locks last frees; the unlock must not look back.
fn freeing(looks_back: bool) -> impl Fn() + 'static {
    move || {
        let toy = Toy::new();
        for _ in 0..2 {
            let toy = Rc::clone(&toy);
            spawn(move || {
                toy.lock(Acquire);
                let last = toy.payload.get() == 1;
                toy.payload.set(1);
                toy.word.store(0, Release);
                if looks_back {
                    toy.word.load(Relaxed);
                }
                if last {
                    free(&*toy);
                }
            });
        }
    }
}

#[test]
fn a_use_of_freed_memory_is_found() {
    EXPLORER.check(freeing(false)).unwrap();
    fails(&EXPLORER, freeing(true), "free");
}

#[test]
fn a_spinner_at_freed_memory_is_found() {
    let model = || {
        let words = Rc::new([CheckWord::ZERO, CheckWord::ZERO]);
        let spinner = Rc::clone(&words);
        spawn(move || {
            let [word, told] = &*spinner;
            let stop = || told.load(Relaxed) != 0;
            Check::spin_until(word, Relaxed, Look::Poll, FOREVER, |now| now != 0, stop);
        });
        spawn(move || {
            free(&words[0]);
            words[1].store(1, Relaxed);
        });
    };
    fails(&EXPLORER, model, "free");
}

#[test]
fn a_deadline_may_pass_at_any_moment() {
    let outcomes = Rc::new(std::cell::Cell::new([0; 2]));
    let seen = Rc::clone(&outcomes);
    let model = move || {
        let seen = Rc::clone(&seen);
        spawn(move || {
            let mut counts = seen.get();
            let late = Check::park(Some(Deadline(7))) == Woken::TimedOut;
            if late {
                assert!(Check::passed(Deadline(7)), "time does not go back");
            }
            counts[usize::from(late)] += 1;
            seen.set(counts);
        });
        spawn(|| Check::unpark(task(1)));
    };
    EXPLORER.check(model).unwrap();
    assert!(outcomes.get().iter().all(|&count| count > 0));
}

/// A spinner looks only so often, and another only while the checker likes.
#[test]
fn a_spin_ends_when_it_should() {
    let impatient = || {
        spawn(|| {
            let word = CheckWord::ZERO;
            let seen = Check::spin_until(&word, Relaxed, Look::Poll, 32, |now| now != 0, || false);
            assert_eq!(seen, None);
        });
    };
    EXPLORER.check(impatient).unwrap();
    let patient = || {
        spawn(|| {
            let word = CheckWord::ZERO;
            let stop = Check::need_resched;
            Check::spin_until(&word, Relaxed, Look::Poll, FOREVER, |now| now != 0, stop);
        });
    };
    EXPLORER.whims(1).check(patient).unwrap();
    fails(&EXPLORER, patient, "task 1 spins");
}

/// It stores to the word as it goes.
struct Stores(Rc<CheckWord>);

impl Drop for Stores {
    fn drop(&mut self) {
        self.0.store(1, Relaxed);
    }
}

#[test]
fn a_failure_is_told_where_a_destructor_would_wait() {
    let model = || {
        let words = [(); 2].map(|()| Rc::new(CheckWord::ZERO));
        let stores = Stores(Rc::clone(&words[0]));
        spawn(move || {
            words[1].load(Relaxed);
            drop(stores);
        });
        spawn(|| panic!("wrong"));
    };
    fails(&EXPLORER, model, "wrong");
}

#[test]
fn an_endless_loop_is_found() {
    let forever = || {
        spawn(|| {
            let word = CheckWord::ZERO;
            while word.load(Relaxed) == 0 {}
        });
    };
    fails(
        &EXPLORER.steps(100),
        forever,
        "still running after 100 steps",
    );
}

/// Words, and cells, start afresh with each execution wherever they live.
#[test]
fn statics_start_at_zero() {
    static TOY: CheckWord = CheckWord::ZERO;
    let model = || {
        for _ in 0..2 {
            spawn(|| {
                TOY.fetch_add(1, Relaxed);
            });
        }
        afterwards(|| {
            assert_eq!(TOY.load(Relaxed), 2);
            assert_eq!(history(&TOY, 0), [0, 1, 2]);
        });
    };
    assert_eq!(EXPLORER.check(model).unwrap().executions, 2);
}
