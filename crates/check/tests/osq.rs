//! Models of the spin queue.

mod model;

use std::rc::Rc;

use lockyard_check::{Check, Explorer, Tracked, afterwards, history, name, spawn};
use lockyard_core::{Event, osq};
use model::explore;

type Osq = osq::Osq<Check, osq::Event>;

struct Queue {
    osq: Osq,
    /// Who had the lead, in that order, as digits.
    leads: Tracked<u32>,
}

impl Queue {
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
fn queue_up(tasks: u32) {
    let queue = Rc::new(Queue {
        osq: Osq::new(),
        leads: Tracked::new(0),
    });
    name(&queue.osq, "osq");
    for task in 1..=tasks {
        let queue = queue.clone();
        spawn(move || {
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
        explore(&format!("osq of {tasks}"), &Explorer::new(), move || queue_up(tasks));
    }
}

#[test]
fn two_of_whom_any_may_leave() {
    let report = explore("osq, leaving", &Explorer::new().whims(2), || queue_up(2));
    assert!(report.count(Event::OsqUnqueueA) > 0);
    assert!(report.count(Event::OsqUnqueueB) > 0);
    assert!(report.count(Event::OsqUnqueueRaced) > 0);
}

#[test]
fn three_of_whom_any_may_leave() {
    let explorer = Explorer::new().whims(1);
    let report = explore("osq, neighbours leaving", &explorer, || queue_up(3));
    for event in [
        Event::OsqUnqueueA,
        Event::OsqUnqueueRaced,
        Event::OsqUnqueueB,
        Event::OsqUnqueueC,
    ] {
        assert!(report.count(event) > 0, "{event:?}");
    }
}

/// A task that left comes back while its old neighbours are still there.
#[test]
fn coming_back() {
    explore("osq, coming back", &Explorer::new().whims(1), || {
        let queue = Rc::new(Queue {
            osq: Osq::new(),
            leads: Tracked::new(0),
        });
        for task in 1..=2 {
            let queue = queue.clone();
            spawn(move || {
                if !queue.lead(task) {
                    queue.lead(task);
                }
                queue.lead(task);
            });
        }
    });
}
