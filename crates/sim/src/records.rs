//! The records of the tasks, and which of these may read by a slot.

use std::cell::{RefCell, UnsafeCell};

use lockyard_core::{Platform, TaskRecord, rwsem::Readers};

use crate::{
    agenda::TaskIndex,
    engine::Engine,
    world::{Sim, SimWord, address, ask},
};

thread_local! {
    static RECORDS: RefCell<Vec<&'static Record>> = const { RefCell::new(Vec::new()) };
    static LISTED: &'static Listed = Box::leak(Box::new(Listed(Readers::new())));
}

/// The record of a task, on lines of its own.
#[repr(align(128))]
struct Record(UnsafeCell<TaskRecord<Sim>>);

type List = Readers<SimWord, 32>;

/// On lines of its own.
#[repr(align(128))]
struct Listed(List);

/// Has a fresh record for each task of the machine, and nobody on the list.
pub fn install(engine: &mut Engine) {
    RECORDS.with_borrow_mut(|records| {
        for record in records.iter() {
            // SAFETY: a record is shared by the tasks of a simulation, and by
            // nobody between two: those of the last are gone (`uninstall`), and
            // the next have not begun. A record needs no drop.
            unsafe { record.0.get().write(TaskRecord::new()) };
        }
        let missing = engine.tasks.len().saturating_sub(records.len());
        records.extend((0..missing).map(|_| {
            let fresh = Record(UnsafeCell::new(TaskRecord::new()));
            &*Box::leak(Box::new(fresh))
        }));
        for (task, record) in records.iter().enumerate().take(engine.tasks.len()) {
            engine
                .names
                .record(address(*record), size_of::<Record>(), task);
        }
    });
    LISTED.with(|Listed(all)| all.each(List::TASKS).for_each(|task| all.unlist(task)));
}

pub fn of(task: TaskIndex) -> &'static TaskRecord<Sim> {
    RECORDS.with_borrow(|records| {
        // SAFETY: nobody has an exclusive reference; `install`, which
        // writes to records, runs when no task exists.
        unsafe { &*records[task].0.get() }
    })
}

/// The list of those that may read by a slot, if the machine has one: user space does.
pub fn readers() -> Option<&'static List> {
    let has = ask(|engine| engine.costs.user_space.is_some()).unwrap_or(false);
    has.then(|| &LISTED.with(|listed| *listed).0)
}

/// The active task is about to sleep.
pub fn rest() {
    let me = Sim::me().number();
    if let Some(readers) = readers()
        && readers.lists(me)
        && Sim::mine().unbinds_slots()
    {
        readers.unlist(me);
    }
}
