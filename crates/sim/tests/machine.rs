//! The machine does what a machine does: its scheduler, its caches, its SMT.

use std::cell::{Cell, RefCell};

use lockyard_core::{Look, Ordering::*, Platform, Running, TaskId, Woken, Word};
use lockyard_sim::{
    Failure, Hypervisor, Machine, Policy, Quota, Scenario, Sim, SimWord, Spec, Spending, Strategy,
    Until, UserSpace, name, now_ns, work,
};

const MS: u64 = 1_000_000_000;

/// One cluster of so many cores with so many threads each.
fn machine(cores: usize, threads: usize) -> Machine {
    let machine = Machine::find("x86-32c").expect("a preset");
    machine.resized(cores, threads)
}

fn scenario(machine: Machine) -> Scenario {
    Scenario { machine, seed: 1 }
}

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

/// The units of work that each task gets done in so long.
fn progress(machine: Machine, policies: &[impl Clone + Into<Spec>], time: u64) -> Vec<u64> {
    let stop = Cell::new(false);
    let done: Vec<Cell<u64>> = policies.iter().map(|_| Cell::new(0)).collect();
    let until = Until {
        time,
        stop: &|| stop.set(true),
        interrupted: &|| false,
    };
    let result = scenario(machine).simulate(policies, Some(until), |task| {
        while !stop.get() {
            work(1_000);
            if !stop.get() {
                done[task].set(done[task].get() + 1);
            }
        }
    });
    result.expect("tasks that work end");
    done.into_iter().map(Cell::into_inner).collect()
}

fn within(value: f64, expected: f64, part: f64) {
    let ok = (value - expected).abs() <= part * expected;
    assert!(ok, "{value} is not about {expected}");
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

#[test]
fn fair_tasks_share_a_cpu_evenly() {
    let done = progress(machine(1, 1), &[Policy::Fair; 3], 900 * MS);
    let all: u64 = done.iter().sum();
    for one in done {
        within(one as f64, all as f64 / 3.0, 0.1);
    }
}

#[test]
fn tasks_spread_over_idle_cpus() {
    let alone = progress(machine(1, 1), &[Policy::Fair], 10 * MS)[0];
    let done = progress(machine(4, 1), &[Policy::Fair; 4], 10 * MS);
    assert!(done.iter().all(|&one| one >= alone * 99 / 100), "{done:?}");
}

#[test]
fn five_tasks_on_four_cpus_keep_all_of_them_busy() {
    let alone = progress(machine(1, 1), &[Policy::Fair], 200 * MS)[0];
    let done = progress(machine(4, 1), &[Policy::Fair; 5], 200 * MS);
    within(done.iter().sum::<u64>() as f64, 4.0 * alone as f64, 0.02);
    assert!(done.iter().all(|&one| one > 0), "{done:?}");
}

#[test]
fn tasks_stay_where_they_may_run() {
    let on = |cpu| Spec {
        policy: Policy::Fair,
        cpus: vec![cpu],
    };
    let alone = progress(machine(1, 1), &[Policy::Fair], 200 * MS)[0];
    let done = progress(machine(3, 1), &[on(1), on(1), on(2)], 200 * MS);
    within((done[0] + done[1]) as f64, alone as f64, 0.02);
    within(done[0] as f64, done[1] as f64, 0.2);
    within(done[2] as f64, alone as f64, 0.02);
}

#[test]
fn a_real_time_task_leaves_nothing_to_a_fair_one() {
    let done = progress(machine(1, 1), &[Policy::Fair, Policy::Fifo(1)], 50 * MS);
    assert_eq!(done[0], 0);
    assert!(done[1] > 0);
}

#[test]
fn round_robin_takes_turns_and_fifo_does_not() {
    let time = 1_000 * MS;
    let turns = progress(machine(1, 1), &[Policy::RoundRobin(5); 2], time);
    within(turns[0] as f64, turns[1] as f64, 0.3);
    let first = progress(machine(1, 1), &[Policy::Fifo(5); 2], time);
    assert_eq!(first.iter().filter(|&&one| one == 0).count(), 1);
}

#[test]
fn a_woken_real_time_task_takes_the_cpu_of_a_fair_one_at_once() {
    let woken = Cell::new(0);
    let order = RefCell::new(Vec::new());
    let scenario = scenario(machine(1, 1));
    let result = scenario.simulate(&[Policy::Fifo(1), Policy::Fair], None, |task| {
        if task == 0 {
            assert_eq!(Sim::park(Some(Sim::after(1_000_000))), Woken::TimedOut);
            woken.set(now_ns());
            order.borrow_mut().push("real-time");
        } else {
            work(2_000_000);
            order.borrow_mut().push("fair");
        }
    });
    result.expect("both end");
    assert_eq!(*order.borrow(), ["real-time", "fair"]);
    assert!((1_000_000..1_010_000).contains(&woken.get()), "{woken:?}");
}

#[test]
fn a_quota_takes_its_share() {
    let mut limited = machine(2, 1);
    let free = progress(limited.clone(), &[Policy::Fair; 2], 1_000 * MS);
    // Half of the two CPUs; the kernel's tick notices the excess late.
    limited.quota = Some(Quota {
        runtime: 100 * MS,
        period: 100 * MS,
    });
    let done = progress(limited, &[Policy::Fair; 2], 1_000 * MS);
    let part = done.iter().sum::<u64>() as f64 / free.iter().sum::<u64>() as f64;
    within(part, 0.5, 0.1);
}

#[test]
fn a_hypervisor_takes_its_share() {
    let mut shared = machine(2, 1);
    let free = progress(shared.clone(), &[Policy::Fair; 2], 2_000 * MS);
    shared.hypervisor = Some(Hypervisor {
        steal_every: 10 * MS,
        steal_for: 5 * MS,
    });
    let done = progress(shared, &[Policy::Fair; 2], 2_000 * MS);
    let part = done.iter().sum::<u64>() as f64 / free.iter().sum::<u64>() as f64;
    within(part, 0.55, 0.2);
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
