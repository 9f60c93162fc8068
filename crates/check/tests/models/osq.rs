//! Models of the spin queue.

use std::{ops::Range, rc::Rc};

use lockyard_check::{
    Check, CheckWord, Explorer, Tracked, afterwards, history, limit_whims, name, spawn,
};
use lockyard_core::{Event, FOREVER, Look, Ordering::Relaxed, Platform, Word, osq};

use crate::explore;

struct Queue<W = osq::Event> {
    osq: osq::Osq<Check, W>,
    /// Who had the lead, in that order, as digits.
    leads: Tracked<u32>,
}

impl<W: osq::Wait<Check>> Queue<W> {
    fn new() -> Rc<Self> {
        let queue = Rc::new(Self {
            osq: osq::Osq::new(),
            leads: Tracked::new(0),
        });
        name(&queue.osq, "osq");
        queue
    }

    fn lead(&self, task: u32) -> bool {
        let leads = self.osq.lock();
        if leads {
            self.leads.set(self.leads.get() * 10 + task);
            self.osq.unlock();
        }
        leads
    }
}

/// Each task queues up once. Who leads, leads alone, in the order of arrival.
/// `whims` says how often each task may leave.
fn queue_up(whims: &[u32]) {
    let queue = <Queue>::new();
    for (task, &most) in (1..).zip(whims) {
        let queue = queue.clone();
        spawn(move || {
            limit_whims(most);
            queue.lead(task);
        });
    }
    afterwards(move || {
        let tails = history(&queue.osq, 0);
        assert_eq!(tails.last(), Some(&0), "the queue is empty in the end");
        let mut leads = queue.leads.get();
        let mut later = u32::MAX;
        while leads > 0 {
            // A task's first appearance at the tail is its arrival.
            let arrival = tails.iter().position(|&tail| tail == leads % 10);
            let arrival = arrival.expect("a lead has arrived") as u32;
            assert!(arrival < later, "first in, first out: {tails:?}");
            later = arrival;
            leads /= 10;
        }
    });
}

#[test]
fn everybody_leads_when_nobody_leaves() {
    for tasks in 2..=4 {
        let name = format!("osq of {tasks}");
        explore(&name, &Explorer::new(), &[], move || {
            queue_up(&vec![0; tasks])
        });
    }
}

#[test]
fn two_of_whom_any_may_leave() {
    let events = [
        Event::OsqUnqueueA,
        Event::OsqUnqueueRaced,
        Event::OsqUnqueueB,
    ];
    explore("osq, leaving", &Explorer::new().whims(2), &events, || {
        queue_up(&[2, 2])
    });
}

/// A spinner leaves for one reason; the other one leads to the same.
const STOPPING: Explorer = Explorer::new().whims(1).always_running();

const LEAVING: [Event; 4] = [
    Event::OsqUnqueueA,
    Event::OsqUnqueueRaced,
    Event::OsqUnqueueB,
    Event::OsqUnqueueC,
];

#[test]
fn three_of_whom_two_may_leave() {
    explore("osq, neighbours", &STOPPING, &LEAVING, || {
        queue_up(&[0, 1, 1])
    });
}

#[test]
#[ignore = "too many executions to be explored in minutes; with two that leave it is quick"]
fn three_of_whom_any_may_leave() {
    explore("osq, all three", &STOPPING, &LEAVING, || {
        queue_up(&[1, 1, 1])
    });
}

#[test]
fn four_of_whom_one_may_leave() {
    explore("osq of 4, leaving", &STOPPING, &LEAVING, || {
        queue_up(&[0, 0, 0, 1])
    });
}

/// Who is to leave can leave, although the lead stays: it needs its neighbours
/// alone.
#[test]
fn leaving_behind_a_lead_that_stays() {
    let events = [Event::OsqUnqueueA, Event::OsqUnqueueB, Event::OsqUnqueueC];
    explore("osq, a lead that stays", &STOPPING, &events, || {
        let queue = <Queue>::new();
        let words = Rc::new([CheckWord::ZERO, CheckWord::ZERO]);
        for task in 1..=3 {
            let (queue, words) = (Rc::clone(&queue), Rc::clone(&words));
            spawn(move || {
                let [leads, left] = &*words;
                let wait = |word, value| {
                    Check::spin_until(
                        word,
                        Relaxed,
                        Look::Poll,
                        FOREVER,
                        |now| now == value,
                        || false,
                    );
                };
                if task == 1 {
                    assert!(queue.osq.lock());
                    leads.store(1, Relaxed);
                    wait(left, 2);
                    queue.osq.unlock();
                } else {
                    wait(leads, 1);
                    assert!(!queue.osq.lock());
                    left.fetch_add(1, Relaxed);
                }
            });
        }
    });
}

/// A task that left comes back while its old neighbours are still there.
#[test]
fn coming_back() {
    explore(
        "osq, coming back",
        &Explorer::new().whims(1),
        &[Event::OsqUnqueueB],
        || {
            let queue = <Queue>::new();
            for task in 1..=2 {
                let queue = queue.clone();
                spawn(move || {
                    if !queue.lead(task) {
                        queue.lead(task);
                    }
                    queue.lead(task);
                });
            }
        },
    );
}

/// Who finds another spinning does not spin: there is no queue.
#[test]
fn one_at_a_time() {
    explore("osq, alone", &Explorer::new(), &[], || {
        let queue = Queue::<osq::Alone>::new();
        for task in 1..=2 {
            let queue = Rc::clone(&queue);
            spawn(move || (0..2).for_each(|_| _ = queue.lead(task)));
        }
        afterwards(move || assert_eq!(history(&queue.osq, 0).last(), Some(&0)));
    });
}

/// Tasks go from one queue to another with the same place, to which those have written who
/// stood beside it in the first.
#[test]
fn from_one_queue_to_another() {
    type Walker = (u32, u32, Range<usize>);
    let walkers: [[Walker; 3]; 2] = [
        [(1, 0, 0..2), (2, 1, 0..1), (3, 0, 1..2)],
        [(1, 1, 0..2), (2, 1, 0..2), (3, 1, 0..2)],
    ];
    let explorers = [STOPPING, STOPPING.random(0, 20_000)];
    for (walkers, explorer) in walkers.into_iter().zip(explorers) {
        explore("osq, two queues", &explorer, &LEAVING[..3], move || {
            let queues = Rc::new([<Queue>::new(), <Queue>::new()]);
            for (task, most, which) in walkers.clone() {
                let queues = Rc::clone(&queues);
                spawn(move || {
                    limit_whims(most);
                    queues[which].iter().for_each(|queue| _ = queue.lead(task));
                });
            }
            afterwards(move || {
                for queue in &*queues {
                    assert_eq!(history(&queue.osq, 0).last(), Some(&0), "it is empty");
                }
            });
        });
    }
}
