//! Words of a mapped file, from the look-up of the key to the wake-up: what the keys lead to
//! in the table.

use super::{
    lookup::{ADDRESSES, INODE, OTHER_SPACE, PAGES, SPACE, fails, key, map_file},
    *,
};
use lockyard_check::memory;
use lockyard_core::futex::lookup::{Lockless, Pin, Sequenced};

/// A word of the file, and the table that all spaces share.
struct File {
    table: Table<Check, SLOTS>,
    word: CheckWord,
    payload: Tracked<u32>,
}

impl File {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            table: Table::new(),
            word: CheckWord::ZERO,
            payload: Tracked::new(0),
        })
    }

    /// Waits through this mapping while the word is 0.
    fn wait<F: Pin>(&self, space: u32, address: u64, deadline: Option<Deadline>) -> Waited {
        let Ok(key) = key::<F>(space, address) else {
            return Waited::Changed; // it is not mapped any more
        };
        let unchanged = || self.word.load(Acquire) == 0;
        self.table.wait(&key, Waiter::ANY, unchanged, deadline)
    }

    fn wake<F: Pin>(&self, space: u32, address: u64) -> u32 {
        let key = key::<F>(space, address).expect("it is mapped");
        self.table.wake(&key, 1, EVERY_BIT)
    }
}

/// One waits through one mapping; another changes the word, and wakes through this one.
fn wait_and_wake_through(space: u32, address: u64) {
    let file = File::new();
    let waker = Rc::clone(&file);
    spawn(move || {
        file.wait::<Sequenced>(SPACE, ADDRESSES[0], None);
        assert_eq!(file.payload.get(), 1);
    });
    spawn(move || {
        waker.payload.set(1);
        waker.word.store(1, Release);
        waker.wake::<Sequenced>(space, address);
    });
}

#[test]
fn no_lost_wake_up_through_two_mappings() {
    let explorer = Explorer::new().whims(1).pct(1, 3, 1_500);
    explore("mapped, twice", &explorer, &[Event::Parked], || {
        map_file(PAGES[0]);
        memory().map(OTHER_SPACE, ADDRESSES[1], PAGES[0], false);
        wait_and_wake_through(OTHER_SPACE, ADDRESSES[1]);
    });
}

#[test]
fn no_lost_wake_up_while_the_page_is_moved() {
    let explorer = Explorer::new().whims(1).pct(1, 3, 1_500);
    explore("mapped, migration", &explorer, &[Event::Parked], || {
        map_file(PAGES[0]);
        wait_and_wake_through(SPACE, ADDRESSES[0]);
        spawn(|| {
            memory().migrate(SPACE, ADDRESSES[0], PAGES[1]);
        });
    });
}

/// One waits for a word of a file whose system is unmounted. Who wakes at the word of
/// another file, whose inode has the same memory, meets nobody.
fn another_file<F: Pin>() {
    map_file(PAGES[0]);
    let file = File::new();
    let other = Rc::clone(&file);
    spawn(move || {
        file.wait::<F>(SPACE, ADDRESSES[0], Some(DEADLINE));
    });
    spawn(move || {
        let memory = memory();
        memory.unmap(SPACE, ADDRESSES[0]);
        memory.free(INODE);
        memory.open(INODE);
        memory.cache(INODE, 0, (PAGES[1], PAGES[1]));
        memory.map(SPACE, ADDRESSES[1], PAGES[1], true);
        assert_eq!(other.wake::<F>(SPACE, ADDRESSES[1]), 0, "a stranger's");
    });
}

#[test]
fn no_wake_up_by_another_file() {
    let failure = fails(another_file::<Lockless>);
    assert!(failure.what.contains("a stranger's"), "{failure}");
    let explorer = Explorer::new().whims(1).pct(1, 3, 1_500);
    let events = [Event::Cancelled];
    explore(
        "mapped, reuse",
        &explorer,
        &events,
        another_file::<Sequenced>,
    );
}
