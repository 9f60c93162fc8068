//! Random programs that end in another way: the last user frees the lock, or readers pass what
//! they have on to another task.

use fastrand::Rng;

use super::*;
use crate::programs::{
    explore_to_the_last,
    last::{Last, Left, Users},
};

/// A lock, who is the last to use it, and what readers have passed on to the first task.
struct Ending<G> {
    shared: Rc<Shared<G>>,
    users: Users,
    left: Left,
}

/// What a task does last.
type End<G> = fn(&Ending<G>);

impl<G: Grant> Ending<G> {
    fn new(tasks: u32) -> Rc<Self> {
        let ending = Rc::new(Self {
            shared: Shared::new(),
            users: Users::new(tasks),
            left: Left::new(tasks),
        });
        ending.left.name();
        ending
    }

    /// All ways to use the lock for the last time, but for those that may end without it: who
    /// gives up takes it then.
    fn uses() -> [End<G>; 9] {
        [
            |ending| ending.use_as_writer(false, Shared::unlock_write),
            |ending| ending.use_as_writer(false, Shared::unlock_write),
            |ending| ending.use_as_writer(false, Shared::unlock_write_fairly),
            |ending| ending.use_as_writer(ending.lock().try_write(), Shared::unlock_write),
            |ending| {
                let taken = ending.lock().write_until(DEADLINE);
                ending.use_as_writer(taken, Shared::unlock_write);
            },
            Self::use_as_both,
            |ending| ending.use_as_reader(false),
            |ending| ending.use_as_reader(ending.lock().try_read()),
            |ending| ending.use_as_reader(ending.lock().read_until(DEADLINE)),
        ]
    }

    fn lock(&self) -> &RawPercpuRwLock<Check, G> {
        &self.shared.lock
    }

    fn write(&self, taken: bool) {
        if !taken {
            self.lock().write();
        }
        self.shared.work();
    }

    fn use_as_writer(&self, taken: bool, unlock: Work<G>) {
        self.write(taken);
        let last = self.users.count_owner(false);
        unlock(&self.shared);
        self.free_if(last);
    }

    /// First as the writer, and then as a reader.
    fn use_as_both(&self) {
        self.write(false);
        let last = self.users.count_owner(true);
        self.shared.downgrade();
        self.leave_reading(last);
    }

    fn use_as_reader(&self, taken: bool) {
        if !taken {
            self.lock().read();
        }
        self.leave_reading(self.users.count_reader());
    }

    fn leave_reading(&self, last: Last) {
        self.shared.look();
        self.shared.unlock_read();
        self.free_if(last);
    }

    /// If others may still read, who frees the lock waits for them.
    fn free_if(&self, last: Last) {
        if last == Last::InCompany {
            self.shared.write();
        }
        if last != Last::No {
            self.users.free(self.lock());
        }
    }

    /// Takes the lock as a reader, for another task to release it.
    fn pass_on(&self) {
        self.lock().read();
        self.shared.look();
        self.left.leave();
    }

    /// Releases what another has passed on.
    fn release(&self) {
        self.shared.look();
        self.shared.unlock_read();
    }

    fn release_one(&self) {
        if self.left.take() {
            self.release();
        }
    }

    fn try_to_read(&self) {
        if self.lock().try_read() {
            self.release();
        }
    }
}

fn any_deed_of<G: Grant>(random: &mut Rng, task: u32) -> Deed<Ending<G>> {
    let deed = any_deed(random, task);
    Rc::new(move |ending| deed(&ending.shared))
}

fn last_use<G: Grant>(random: &mut Rng, _: u32) -> Deed<Ending<G>> {
    let uses = Ending::uses();
    Rc::new(uses[random.usize(..uses.len())])
}

fn explore_freed<G: Grant>(numbers: Range<u64>) {
    let events = [
        Event::GracePeriod,
        Event::TookBack,
        Event::Parked,
        Event::Cancelled,
    ];
    let deeds = (any_deed_of, last_use);
    let at_end = |ending: &Ending<G>| assert!(ending.users.are_gone());
    explore_to_the_last(
        "percpu, freed",
        numbers,
        &events,
        deeds,
        Ending::new,
        at_end,
    );
}

/// The first task, which releases what is passed on, waits for nothing else.
fn pass_on_or_release<G: Grant>(random: &mut Rng, task: u32) -> Deed<Ending<G>> {
    match random.u32(..3) {
        0 if task == 0 => Rc::new(Ending::try_to_read),
        _ if task == 0 => Rc::new(Ending::release_one),
        0 => Rc::new(Ending::pass_on),
        _ => any_deed_of(random, task),
    }
}

fn end<G: Grant>(_: &mut Rng, task: u32) -> Deed<Ending<G>> {
    Rc::new(move |ending| match task {
        0 => ending.left.take_all(|| ending.release()),
        _ => ending.left.finish(),
    })
}

fn explore_left<G: Grant>(numbers: Range<u64>) {
    let events = [
        Event::GracePeriod,
        Event::TookBack,
        Event::Parked,
        Event::Cancelled,
    ];
    let at_end = |ending: &Ending<G>| assert!(!ending.lock().is_locked());
    let deeds = (pass_on_or_release, end);
    explore_to_the_last("percpu, left", numbers, &events, deeds, Ending::new, at_end);
}

#[test]
fn random_programs_freed() {
    explore_freed::<Handoff>(0..30);
    explore_freed::<Barging>(30..60);
    explore_freed::<Bounded>(60..90);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_freed_for_long() {
    explore_freed::<Handoff>(1_000..1_600);
    explore_freed::<Barging>(2_000..2_600);
    explore_freed::<Bounded>(3_000..3_600);
}

#[test]
fn random_programs_left() {
    explore_left::<Handoff>(0..30);
    explore_left::<Barging>(30..60);
    explore_left::<Bounded>(60..90);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_left_for_long() {
    explore_left::<Handoff>(1_000..1_600);
    explore_left::<Barging>(2_000..2_600);
    explore_left::<Bounded>(3_000..3_600);
}
