//! The scheduler: who runs, where, and for how long.

mod support;

use std::cell::{Cell, RefCell};

use lockyard_core::{Platform, Woken};
use lockyard_sim::{
    Hypervisor, Machine, Policy, Quota, Sim, Spec, Until, busy, confine, now_ns, work,
};
use support::{machine, scenario, within};

const MS: u64 = 1_000_000_000;

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

/// What a task ran alone is not held against it when another comes.
#[test]
fn a_task_that_comes_late_shares_a_cpu_evenly() {
    let begun = 1_000_000_000;
    let done = [Cell::new(0), Cell::new(0)];
    let result = scenario(machine(1, 1)).simulate(&[Policy::Fair; 2], None, |task| {
        if task == 1 {
            Sim::park(Some(Sim::after(begun)));
        }
        while now_ns() < 2 * begun {
            work(10_000);
            if now_ns() > begun && now_ns() < begun + begun / 10 {
                done[task].set(done[task].get() + 1);
            }
        }
    });
    result.expect("both end");
    within(f64::from(done[0].get()), f64::from(done[1].get()), 0.1);
}

/// It has run more than those that are there, on a CPU where it had as much as anybody.
#[test]
fn a_task_that_is_woken_on_another_cpu_need_not_wait_for_what_it_ran() {
    let (ran, moved, back) = (1_000_000_000, Cell::new(false), Cell::new(0));
    let spec = |cpu| Spec {
        policy: Policy::Fair,
        cpus: vec![cpu],
    };
    // The first has a CPU alone, the others share one.
    let tasks = [spec(0), spec(1), spec(1)];
    let result = scenario(machine(2, 1)).simulate(&tasks, None, |task| {
        if task == 0 {
            busy(ran);
            Sim::park(Some(Sim::after(10_000_000)));
            work(1);
            return back.set(now_ns());
        }
        while back.get() == 0 && now_ns() < 3 * ran {
            work(10_000);
            if now_ns() > ran + 1_000_000 && !moved.replace(true) {
                confine(0, &[1]);
            }
        }
    });
    result.expect("all end");
    let late = back.get() - ran;
    assert!(moved.get() && late < 50_000_000, "after {late} ns");
}

/// The first of two peers is preempted, and is before the second when the CPU is free again.
#[test]
fn who_is_preempted_keeps_its_turn() {
    let order = RefCell::new(Vec::new());
    let spec = |level| Spec {
        policy: Policy::Fifo(level),
        cpus: vec![0],
    };
    let tasks = [spec(2), spec(1), spec(1)];
    let result = scenario(machine(2, 1)).simulate(&tasks, None, |task| {
        if task == 0 {
            Sim::park(Some(Sim::after(1_000_000)));
        }
        work(2_000_000);
        order.borrow_mut().push(task);
    });
    result.expect("all end");
    assert_eq!(order.borrow()[0], 0);
    assert_eq!(order.borrow()[1..], [1, 2]);
}

/// Three real-time tasks on two CPUs: the most urgent two run, wherever they were before.
#[test]
fn the_most_urgent_tasks_have_the_cpus() {
    let mut machine = machine(2, 1);
    machine.costs.deep_wake = machine.costs.wake;
    let (units, ns) = (1_000_000, 2_170_000);
    let ended = [const { Cell::new(0) }; 3];
    let policies = [Policy::Fifo(3), Policy::Fifo(1), Policy::Fifo(2)];
    let mut confined = policies.map(Spec::from);
    confined[0].cpus = vec![0];
    let result = scenario(machine).simulate(&confined, None, |task| {
        match task {
            0 => drop(Sim::park(Some(Sim::after(1_000_000)))),
            1 => drop(Sim::park(Some(Sim::after(500_000)))),
            _ => {
                // It begins where the most urgent will come.
                confine(2, &[0]);
                confine(2, &[0, 1]);
            }
        }
        work(units);
        ended[task].set(now_ns());
    });
    result.expect("all end");
    let ended = ended.map(Cell::into_inner);
    // The least urgent has run for half a millisecond when the most urgent comes, and goes on when
    // the other has ended.
    for (task, expected) in [(2, ns), (0, ns + 1_000_000), (1, 2 * ns - 500_000)] {
        within(ended[task] as f64, f64::from(expected), 0.01);
    }
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
