//! Tasks keep their CPUs busy, change their policy, and are moved, while they run.

use std::cell::Cell;

use lockyard_core::{Platform, TaskId, Woken};
use lockyard_sim::{
    Machine, Policy, Quota, Scenario, Sim, Stats, busy, confine, cpus, exempt, now_ns, set_policy,
};

const MS: u64 = 1_000_000;

/// Runs tasks of the fair class on so many CPUs.
fn simulate(cpus: usize, tasks: usize, body: impl Fn(usize)) -> Stats {
    let machine = Machine::find("x86-32c").expect("a preset");
    let machine = machine.resized(cpus, 1);
    let result = Scenario { machine, seed: 1 }.simulate(&vec![Policy::Fair; tasks], None, body);
    result.expect("all end")
}

fn sleep(nanos: u64) {
    assert_eq!(Sim::park(Some(Sim::after(nanos))), Woken::TimedOut);
}

/// The milliseconds for which a task has computed, when it is told to end.
fn computes(stop: &Cell<bool>) -> u64 {
    let mut done = 0;
    while !stop.get() {
        lockyard_sim::work(461_000); // a millisecond
        done += 1;
    }
    done
}

#[test]
fn busy_tasks_share_a_cpu_and_the_time() {
    let stats = simulate(1, 2, |_| busy(50 * MS));
    let ended = stats.simulated_ps / 1_000;
    // The one that ends its wait off the CPU ends it when it gets that back.
    assert!((50 * MS..63 * MS).contains(&ended), "{ended}");
    assert!(stats.happened < 60, "{}", stats.happened);
}

#[test]
fn a_real_time_task_has_its_cpu_for_itself_until_it_is_fair_again() {
    let (stop, fair) = (Cell::new(false), Cell::new(0));
    simulate(1, 2, |task| {
        if task == 0 {
            set_policy(Policy::Fifo(1));
            let begin = (fair.get(), now_ns());
            busy(100 * MS);
            assert_eq!(fair.get(), begin.0);
            set_policy(Policy::Fair);
            busy(100 * MS);
            assert!(fair.get() > begin.0, "it never got the CPU");
            stop.set(true);
        } else {
            while !stop.get() {
                busy(MS);
                fair.set(fair.get() + 1);
            }
        }
    });
}

#[test]
fn who_gives_up_its_priority_makes_way_at_once() {
    let order = Cell::new(0);
    simulate(1, 2, |task| {
        set_policy(Policy::Fifo(2));
        if task == 0 {
            sleep(10 * MS);
            busy(10 * MS);
            order.set(order.get() * 10 + 1);
        } else {
            busy(15 * MS);
            set_policy(Policy::Fair);
            busy(MS);
            order.set(order.get() * 10 + 2);
        }
    });
    assert_eq!(order.get(), 12);
}

#[test]
fn a_running_a_queued_and_a_sleeping_task_move() {
    let stop = Cell::new(false);
    let done = [const { Cell::new(0) }; 3];
    simulate(3, 4, |task| {
        if task < 3 {
            if task == 2 {
                Sim::park(None);
            }
            done[task].set(computes(&stop));
            return;
        }
        assert_eq!(cpus(), 3);
        // One is running and one, soon, queued; both move, and share a CPU.
        confine(0, &[0]);
        confine(1, &[0]);
        confine(0, &[1]);
        confine(1, &[1]);
        confine(2, &[1]);
        Sim::unpark(TaskId::new(3).expect("counted from 1"));
        sleep(300 * MS);
        stop.set(true);
    });
    let all: Vec<u64> = done.iter().map(Cell::get).collect();
    assert!(all.iter().all(|&one| (75..=125).contains(&one)), "{all:?}");
}

/// The shares of one CPU that three limited tasks and one that is not have.
fn shares(runtime: u64) -> [f64; 4] {
    let machine = Machine::find("x86-32c").expect("a preset");
    let mut machine = machine.resized(1, 1);
    machine.quota = Some(Quota {
        runtime: runtime * 1_000,
        period: 100 * MS * 1_000,
    });
    let done = [const { Cell::new(0) }; 4];
    let result = Scenario { machine, seed: 1 }.simulate(&[Policy::Fair; 4], None, |task| {
        if task == 3 {
            exempt();
        }
        while now_ns() < 1_000 * MS {
            lockyard_sim::work(461_000); // a millisecond
            done[task].set(done[task].get() + 1);
        }
    });
    result.expect("all end");
    let all: u64 = done.iter().map(Cell::get).sum();
    done.map(|one| one.get() as f64 / all as f64)
}

#[test]
fn a_quota_leaves_alone_whom_it_is_not_for() {
    let [.., free] = shares(20 * MS);
    assert!((0.72..0.88).contains(&free), "{free}");
}

#[test]
fn those_that_a_quota_limits_have_the_weight_of_one() {
    let [first, .., free] = shares(100 * MS);
    assert!((0.45..0.55).contains(&free), "{free}");
    assert!((0.14..0.20).contains(&first), "{first}");
}

#[test]
fn a_task_moves_itself() {
    let stop = Cell::new(false);
    let together = Cell::new(0);
    simulate(2, 2, |task| {
        confine(task, &[task]);
        confine(task, &[0]);
        if task == 0 {
            together.set(computes(&stop));
        } else {
            busy(200 * MS);
            stop.set(true);
        }
    });
    assert!((80..=130).contains(&together.get()), "{together:?}");
}

#[test]
fn a_simulation_with_all_that_is_the_same_each_time() {
    let run = || {
        simulate(3, 5, |task| {
            for round in 0..20 {
                busy(MS / 3 * (task as u64 + 1));
                match (task + round) % 4 {
                    0 => set_policy(Policy::Fifo(1)),
                    1 => set_policy(Policy::Fair),
                    2 => confine((task + 1) % 5, &[round % 3, (round + 1) % 3]),
                    _ => sleep(MS / 2),
                }
            }
        })
    };
    assert_eq!(run(), run());
}
