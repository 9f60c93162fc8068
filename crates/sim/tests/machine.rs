//! The machine does what a machine does: its caches, its SMT, its spinners.

mod support;

use std::cell::Cell;

use lockyard_core::{Look, Ordering::*, Platform, Running, TaskId, Woken, Word};
use lockyard_sim::{
    Failure, Machine, Policy, Sim, SimWord, Spec, Spending, Strategy, Until, UserSpace, busy, name,
    now_ns, work,
};
use support::{machine, scenario, within};

const MS: u64 = 1_000_000_000;

#[repr(align(128))]
struct Line(SimWord);

impl Line {
    const fn new() -> Self {
        Self(SimWord::ZERO)
    }
}

fn task(number: usize) -> TaskId {
    TaskId::new(number as u32 + 1).expect("counted from 1")
}

#[test]
fn a_task_alone_is_told_to_stop_at_once() {
    let stop = Cell::new(false);
    let until = Until {
        time: 1_000 * MS,
        stop: &|| stop.set(true),
        interrupted: &|| true,
    };
    let stats = scenario(machine(1, 1)).simulate(&[Policy::Fair], Some(until), |_| {
        while !stop.get() {
            work(1);
        }
    });
    let stopped = stats.expect("a task that works ends").stopped_ps;
    assert!(stopped < Some(100 * MS), "{stopped:?}");
}

/// How long a task works beside one that waits so on the same core.
fn beside(look: Option<Look>) -> u64 {
    let mut machine = machine(1, 2);
    machine.costs.smt_speed = vec![1.0, 0.5];
    machine.costs.poll_share = 1.0;
    machine.costs.event_wake = Some(10_000);
    let flag = Line::new();
    let time = Cell::new(0);
    let result = scenario(machine).simulate(&[Policy::Fair; 2], None, |task| {
        if task == 0 {
            let begin = now_ns();
            work(100_000);
            time.set(now_ns() - begin);
            flag.0.store(1, Release);
        } else if let Some(look) = look {
            Sim::spin_until(&flag.0, Acquire, look, u32::MAX, |f| f == 1, || false);
        }
    });
    result.expect("both end");
    time.get()
}

#[test]
fn a_spinner_that_polls_slows_its_sibling_and_one_that_waits_for_an_event_does_not() {
    let alone = beside(None) as f64;
    within(beside(Some(Look::Poll)) as f64, 2.0 * alone, 0.01);
    within(beside(Some(Look::Event)) as f64, alone, 0.01);
}

/// Its condition reads another line, which changes first: the next look for that is far.
#[test]
fn who_waits_for_an_event_is_woken_by_its_line_whatever_else_it_has_read() {
    let mut machine = machine(2, 1);
    machine.costs.event_wake = Some(10_000);
    let (flag, other) = (Line::new(), Line::new());
    let (set, seen) = (Cell::new(0), Cell::new(0));
    let result = scenario(machine).simulate(&[Policy::Fair; 2], None, |task| {
        if task == 0 {
            work(10_000);
            other.0.store(1, Release);
            work(10_000);
            flag.0.store(1, Release);
            set.set(now_ns());
        } else {
            let stop = || other.0.load(Relaxed) == 2;
            Sim::spin_until(&flag.0, Acquire, Look::Event, u32::MAX, |f| f == 1, stop);
            seen.set(now_ns());
        }
    });
    result.expect("both end");
    assert!(
        seen.get() < set.get() + 1_000,
        "set at {set:?}, seen at {seen:?}"
    );
}

#[test]
fn a_line_takes_longer_from_farther_away() {
    let machine = Machine::find("x86-2s256c").expect("a preset");
    let costs = machine.costs.clone();
    let (cluster, socket) = (machine.cores_per_cluster, machine.cores() / 2);
    // Tasks fill sockets in turn: the second is on the other one.
    for (reader, expected) in [
        (1, costs.remote),
        (2, costs.cluster),
        (2 * cluster, costs.socket),
    ] {
        assert!(reader < 2 * socket);
        let flag = Line::new();
        let time = Cell::new(0);
        let policies = vec![Policy::Fair; reader + 1];
        let result = scenario(machine.clone()).simulate(&policies, None, |task| {
            if task == 0 {
                flag.0.store(1, Relaxed);
            } else if task == reader {
                work(100_000);
                let begin = now_ns();
                flag.0.load(Relaxed);
                time.set(now_ns() - begin);
            }
        });
        result.expect("all end");
        let clock = costs.clock / 1_000;
        within((time.get() - clock) as f64 * 1e3, expected as f64, 0.1);
    }
}

#[test]
fn a_condition_that_changes_elsewhere_ends_a_spin() {
    let (flag, other) = (Line::new(), Line::new());
    let stopped = Cell::new(0);
    let result = scenario(machine(2, 1)).simulate(&[Policy::Fair; 2], None, |task| {
        if task == 0 {
            let stop = || other.0.load(Relaxed) == 1;
            let seen = Sim::spin_until(&flag.0, Relaxed, Look::Poll, u32::MAX, |f| f == 1, stop);
            assert_eq!(seen, None);
            stopped.set(now_ns());
        } else {
            work(100_000);
            other.0.store(1, Relaxed);
        }
    });
    result.expect("both end");
    within(stopped.get() as f64, 100_000.0 * 2.17, 0.05);
}

/// It has asked whether a task runs, and is told that it does not 40 us after that has left. What
/// it waits for comes before.
#[test]
fn who_waits_to_be_told_that_a_task_has_left_sees_its_word_change() {
    let flag = Line::new();
    let mut machine = machine(3, 1);
    machine.costs.user_space = Some(UserSpace {
        ask: 0,
        off_cpu_seen: 40_000_000,
        spin_budget: MS,
    });
    let (set, seen) = (Cell::new(0), Cell::new(0));
    let result = scenario(machine).simulate(&[Policy::Fair; 3], None, |number| match number {
        0 => {
            let stop = || Sim::running(task(1)) == Running::No;
            let value = Sim::spin_until(&flag.0, Relaxed, Look::Poll, u32::MAX, |f| f == 1, stop);
            assert_eq!(value, Some(1));
            seen.set(now_ns());
        }
        1 => {
            busy(20_000);
            Sim::park(Some(Sim::after(1_000_000)));
        }
        _ => {
            busy(35_000);
            flag.0.store(1, Relaxed);
            set.set(now_ns());
        }
    });
    result.expect("all end");
    let late = seen.get() - set.get();
    assert!(late < 500, "after {late} ns");
}

/// The second thread of a core has no line that the first has only asked for.
#[test]
fn a_line_on_its_way_to_a_core_is_not_there_for_any_of_its_threads() {
    let machine = machine(2, 2);
    let transfer = machine.costs.cluster;
    let flag = Line::new();
    let spec = |cpu| Spec {
        policy: Policy::Fair,
        cpus: vec![cpu],
    };
    let begun = [const { Cell::new(0) }; 2];
    let ended = [const { Cell::new(0) }; 2];
    let tasks = [spec(0), spec(2), spec(3)];
    let result = scenario(machine).simulate(&tasks, None, |task| {
        let Some(reader) = task.checked_sub(1) else {
            return flag.0.store(1, Relaxed);
        };
        // The second begins in the middle of the first's transfer.
        busy(100_000 - now_ns() + reader as u64 * transfer / 2_000);
        begun[reader].set(now_ns());
        flag.0.load(Relaxed);
        ended[reader].set(now_ns());
    });
    result.expect("all end");
    assert!(begun[1].get() < ended[0].get(), "they overlap");
    assert!(ended[1].get() >= ended[0].get(), "{begun:?} {ended:?}");
}

#[test]
fn a_spin_ends_after_its_looks() {
    let flag = Line::new();
    let time = Cell::new(0);
    let machine = machine(1, 1);
    let poll = machine.costs.poll;
    let result = scenario(machine).simulate(&[Policy::Fair], None, |_| {
        let begin = now_ns();
        let seen = Sim::spin_until(&flag.0, Relaxed, Look::Poll, 1_000, |f| f == 1, || false);
        assert_eq!(seen, None);
        time.set(now_ns() - begin);
    });
    result.expect("it ends");
    within(time.get() as f64 * 1e3, 1_000.0 * poll as f64, 0.05);
}

#[test]
fn a_spinner_learns_that_a_task_has_left_its_cpu() {
    let flag = Line::new();
    let mut machine = machine(2, 1);
    machine.costs.user_space = Some(UserSpace {
        ask: 0,
        off_cpu_seen: 4_000_000,
        spin_budget: MS,
    });
    let (slept, seen) = (Cell::new(0), Cell::new(0));
    let result = scenario(machine).simulate(&[Policy::Fair; 2], None, |number| {
        if number == 0 {
            let stop = || Sim::running(task(1)) == Running::No;
            Sim::spin_until(&flag.0, Relaxed, Look::Poll, u32::MAX, |f| f == 1, stop);
            seen.set(now_ns());
        } else {
            work(10_000);
            slept.set(now_ns());
            Sim::park(Some(Sim::after(1_000_000)));
        }
    });
    result.expect("both end");
    let late = seen.get() - slept.get();
    assert!((4_000..7_000).contains(&late), "{late} ns");
}

#[test]
fn an_unpark_that_comes_first_is_remembered() {
    let result = scenario(machine(2, 1)).simulate(&[Policy::Fair; 2], None, |number| {
        if number == 0 {
            work(1_000_000);
            assert_eq!(Sim::park(None), Woken::Unparked);
        } else {
            Sim::unpark(task(0));
        }
    });
    result.expect("both end");
}

#[test]
fn time_is_spent_on_what_it_is_spent_on() {
    let flag = Line::new();
    let stats = scenario(machine(2, 1)).simulate(&[Policy::Fair; 2], None, |number| {
        if number == 0 {
            work(1_000_000);
            flag.0.store(1, Release);
            Sim::park(Some(Sim::after(1_000_000)));
        } else {
            Sim::spin_until(&flag.0, Acquire, Look::Poll, u32::MAX, |f| f == 1, || false);
        }
    });
    let spent = stats.expect("both end").spent;
    let of = |task: usize, spending: Spending| spent[task][spending as usize] as f64;
    within(of(0, Spending::Compute), 2.17e9, 0.01);
    within(of(0, Spending::Sleep), 1e9, 0.01);
    within(of(1, Spending::Spin), 2.17e9, 0.01);
}

#[test]
fn tasks_that_wait_for_each_other_are_stuck() {
    let result = scenario(machine(2, 1)).simulate(&[Policy::Fair; 2], None, |_| {
        Sim::park(None);
    });
    let text = "task 1 (fair) is parked, task 2 (fair) is parked".to_owned();
    assert_eq!(result, Err(Failure::Stuck(text)));
}

#[test]
fn a_spinner_that_nobody_answers_is_stuck() {
    let flag = Line::new();
    let result = scenario(machine(1, 1)).simulate(&[Policy::Fair], None, |_| {
        name(&flag.0, "flag", &[]);
        Sim::spin_until(&flag.0, Relaxed, Look::Poll, u32::MAX, |f| f == 1, || false);
    });
    let text = "task 1 (fair) spins on CPU 0 while flag is 0".to_owned();
    assert_eq!(result, Err(Failure::Stuck(text)));
}

#[test]
fn a_timeline_has_one_line_for_all_looks_that_see_the_same() {
    #[repr(align(128))]
    struct Pair([SimWord; 2]);
    let pair = Pair([Word::ZERO, Word::ZERO]);
    let run = || {
        scenario(machine(2, 1)).explore(Strategy::Random, &[Policy::Fair; 2], true, None, |task| {
            name(&pair, "pair", &["flag", "other"]);
            let [flag, other] = &pair.0;
            if task == 0 {
                (0..20).for_each(|i| other.store(i, Relaxed));
                flag.store(1, Release);
            } else {
                Sim::spin_until(flag, Acquire, Look::Poll, u32::MAX, |f| f == 1, || false);
            }
        })
    };
    let (result, timeline) = run();
    result.expect("both end");
    let text = timeline.to_string();
    assert!(text.contains(" 1: (fair) runs on CPU 0\n"), "{text}");
    assert!(text.contains(" 1: pair.other := 0x13\n"), "{text}");
    let spins = "    2: spins while pair.flag is 0\n";
    assert_eq!(text.matches(spins).count(), 1, "{text}");
    assert!(text.contains("    2: pair.flag is 1\n"), "{text}");
    assert_eq!(text.matches(": has finished\n").count(), 2, "{text}");
}

#[test]
fn a_failure_names_what_lies_at_an_address() {
    let mutex = lockyard_core::RawMutex::<Sim>::new();
    let result = scenario(machine(1, 1)).simulate(&[Policy::Fair], None, |_| {
        name(&mutex, "mutex", &[]);
        mutex.lock();
        mutex.lock();
    });
    let text = "deadlock: task 1 locks the mutex at &mutex, which it holds already".to_owned();
    assert_eq!(result, Err(Failure::Panicked(text)));
}

#[test]
fn a_panic_ends_the_simulation_and_the_next_is_as_if_nothing_had_been() {
    let run = |fails: bool| {
        let mutex = lockyard_core::RawMutex::<Sim>::new();
        scenario(machine(2, 1)).simulate(&[Policy::Fair; 3], None, |task| {
            for i in 0..10 {
                mutex.lock();
                work(100);
                assert!(!(fails && task == 1 && i == 5), "on purpose");
                // SAFETY: locked above.
                unsafe { mutex.unlock() };
            }
        })
    };
    let before = run(false);
    assert_eq!(run(true), Err(Failure::Panicked("on purpose".to_owned())));
    assert_eq!(run(false), before);
}

#[test]
fn a_malformed_machine_is_refused_with_its_line_and_key() {
    let good = include_str!("../machines/x86-32c.toml");
    let refused = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        let text = good.replacen(from, to, 1);
        Machine::parse("m.toml", &text).expect_err(to).to_string()
    };
    let line = |key: &str| {
        let at = good.lines().position(|line| line.starts_with(key));
        at.expect("the key is there") + 1
    };
    for (from, to, key, why) in [
        (
            "locked = { value = 8.3",
            "locked = { value = -8.3",
            "locked",
            "-8.3 is not from",
        ),
        (
            "locked = { value = 8.3",
            "locked = { value = \"x\"",
            "locked",
            "invalid type",
        ),
        (
            "sockets = { value = 2,",
            "sockets = { value = 0,",
            "sockets",
            "0 is not a whole",
        ),
        (
            "value = [1.0]",
            "value = [1.0, 0.5]",
            "smt_speed",
            "use 1 speeds",
        ),
        ("poll = {", "pol = {", "pol", "unknown field"),
        (
            "name = \"x86-32c\"",
            "name = \"\"",
            "name",
            "it is empty or has control",
        ),
        (
            "name = \"x86-32c\"",
            "name = \"x\\u001b[2J\"",
            "name",
            "it is empty or has control",
        ),
        (
            "source = \"no SMT\"",
            "source = \" \"",
            "smt_speed",
            "its source is empty",
        ),
    ] {
        let text = refused(from, to);
        let number = line(if key == "pol" { "poll" } else { key });
        let start = format!("m.toml:{number}: {key}: ");
        assert!(text.starts_with(&start), "{text}");
        assert!(text.contains(why) && !text.contains('\n'), "{text}");
    }
    let missing = refused("cores_per_cluster = {", "# cores = {");
    assert!(
        missing.contains("missing field `cores_per_cluster`"),
        "{missing}"
    );
}

#[test]
fn every_preset_is_well_formed_and_as_large_as_its_name() {
    let sizes = [224, 32, 36, 72, 60, 512];
    for (name, size) in Machine::presets().zip(sizes) {
        let machine = Machine::find(name).expect(name);
        assert_eq!((machine.name.as_str(), machine.cpus()), (name, size));
    }
}
