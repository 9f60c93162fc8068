//! Models of the look-up of shared keys: what it finds while pages and inodes are taken
//! away.

use std::{cell::Cell, rc::Rc};

use lockyard_check::{Check, CheckWord, Explorer, Failure, afterwards, memory, spawn};
use lockyard_core::{
    Event,
    Ordering::Relaxed,
    Word,
    futex::{
        Key,
        lookup::{Access, Fault, Lockless, PageLock, Pin, Sequenced, SharedKey},
        memory::{Count, Mapping, PAGE},
    },
};

use crate::explore;

/// The one inode, whose memory is that of every other.
pub const INODE: u32 = 1;
pub const SPACE: u32 = 1;
pub const OTHER_SPACE: u32 = 2;
/// A page, and another for what comes after it.
pub const PAGES: [u32; 2] = [1, 2];
/// Where they are mapped.
pub const ADDRESSES: [u64; 2] = [8, PAGE + 8];
const ALIAS: &str = "another file's word has the key";
/// What fails, fails in one of the first few at random.
const MOST: u64 = 1_000;

fn find<F: Pin>(space: u32, address: u64) -> Result<SharedKey<Check, F>, Fault> {
    SharedKey::find(space, address, Access::Read)
}

/// The key, which refers to nothing any more.
pub fn key<F: Pin>(space: u32, address: u64) -> Result<Key, Fault> {
    let found = find::<F>(space, address)?;
    let key = *found.key();
    found.put();
    Ok(key)
}

/// A page of a file, at the first address: the mapping refers to the file.
pub fn map_file(page: u32) {
    let memory = memory();
    memory.open(INODE);
    memory.cache(INODE, 0, (page, page));
    memory.map(SPACE, ADDRESSES[0], page, true);
}

/// How a model fails that must.
pub fn fails(model: impl Fn() + 'static) -> Failure {
    let judged = Explorer::new().pct(1, 3, MOST).check(model);
    judged.expect_err("the policy is broken")
}

/// One looks a key up, and keeps it. Another unmaps the file, frees its inode and makes
/// another one there, with a page at the same place. Its key must be another one.
fn reuse<F: Pin>(unmounts: bool) {
    map_file(PAGES[0]);
    let kept = Rc::new(Cell::new(None));
    let (found, both) = (Rc::clone(&kept), Rc::new(Cell::new(None)));
    let second = Rc::clone(&both);
    spawn(move || {
        if let Ok(key) = find::<F>(SPACE, ADDRESSES[0]) {
            found.set(Some(*key.key()));
            // The task waits on: it never puts the key back.
        }
    });
    spawn(move || {
        let memory = memory();
        memory.unmap(SPACE, ADDRESSES[0]);
        if unmounts {
            memory.free(INODE);
        } else if !memory.close(INODE) {
            return; // a key refers to it
        }
        memory.open(INODE);
        memory.cache(INODE, 0, (PAGES[1], PAGES[1]));
        memory.map(SPACE, ADDRESSES[1], PAGES[1], true);
        let key = find::<F>(SPACE, ADDRESSES[1]);
        second.set(key.ok().map(|key| *key.key()));
    });
    afterwards(move || {
        let other = both.get();
        assert!(other.is_none() || other != kept.get(), "{ALIAS}");
    });
}

/// The last close frees an inode: who looks a key up under the page lock refers to one
/// that is being freed. The others see that nobody refers to it any more.
#[test]
fn reuse_after_the_last_close() {
    let failure = fails(|| reuse::<PageLock>(false));
    assert!(failure.what.contains(ALIAS), "{failure}");
    let explorer = Explorer::new();
    explore(
        "key, lockless, close",
        &explorer,
        &[Event::KeySought],
        || {
            reuse::<Lockless>(false);
        },
    );
    explore(
        "key, sequenced, close",
        &explorer,
        &[Event::KeySought],
        || {
            reuse::<Sequenced>(false);
        },
    );
}

/// Unmounting a file system frees inodes whoever refers to them: a key must not name
/// one by its memory.
#[test]
fn reuse_after_unmounting() {
    for failure in [
        fails(|| reuse::<PageLock>(true)),
        fails(|| reuse::<Lockless>(true)),
    ] {
        assert!(failure.what.contains(ALIAS), "{failure}");
    }
    explore("key, sequenced, unmounted", &Explorer::new(), &[], || {
        reuse::<Sequenced>(true);
    });
}

/// A page that comes back from the swap cache has the key that it had.
fn swapped<F: Pin>() {
    map_file(PAGES[0]);
    let expected = Rc::new(Cell::new(None));
    for _ in 0..2 {
        let expected = Rc::clone(&expected);
        spawn(move || {
            let found = key::<F>(SPACE, ADDRESSES[0]).expect("it is mapped all the time");
            assert_eq!(*expected.get().get_or_insert(found), found);
            expected.set(Some(found));
        });
    }
    spawn(|| memory().swap_out(SPACE, ADDRESSES[0]));
}

#[test]
fn swap_out_against_look_up() {
    let explorer = Explorer::new().pct(1, 3, 3_000);
    let events = [Event::KeySought];
    explore(
        "key, lockless, swap",
        &explorer,
        &events,
        swapped::<Lockless>,
    );
    explore(
        "key, sequenced, swap",
        &explorer,
        &events,
        swapped::<Sequenced>,
    );
    let (name, none) = ("key, page lock, swap", &[]);
    explore(name, &explorer, none, swapped::<PageLock>);
}

/// A page that is moved has the key that it had.
fn migrated<F: Pin>() {
    map_file(PAGES[0]);
    spawn(|| {
        let keys = [0, 1].map(|_| key::<F>(SPACE, ADDRESSES[0]).expect("it is mapped"));
        assert_eq!(keys[0], keys[1]);
    });
    spawn(|| {
        memory().migrate(SPACE, ADDRESSES[0], PAGES[1]);
    });
}

#[test]
fn migration_against_look_up() {
    let explorer = Explorer::new();
    explore(
        "key, page lock, migration",
        &explorer,
        &[],
        migrated::<PageLock>,
    );
    explore(
        "key, lockless, migration",
        &explorer,
        &[],
        migrated::<Lockless>,
    );
    explore(
        "key, sequenced, migration",
        &explorer,
        &[],
        migrated::<Sequenced>,
    );
}

/// Two look up what is swapped out, and one of them brings it back. Another unmaps it, frees
/// its inode, and makes another one there with a page at the same place: nothing that was
/// the first one's belongs to it, and its key is another one.
fn swapped_in_and_freed(judge: fn(&[Option<Key>; 2], Option<Key>)) {
    map_file(PAGES[0]);
    let kept: Rc<[Cell<Option<Key>>; 2]> = Rc::default();
    for task in 0..2 {
        let found = Rc::clone(&kept);
        spawn(move || {
            let key = find::<Sequenced>(SPACE, ADDRESSES[0]);
            found[task].set(key.ok().map(|key| *key.key()));
        });
    }
    let other = Rc::new(Cell::new(None));
    let second = Rc::clone(&other);
    spawn(move || {
        let memory = memory();
        memory.swap_out(SPACE, ADDRESSES[0]);
        memory.unmap(SPACE, ADDRESSES[0]);
        memory.free(INODE);
        memory.open(INODE);
        memory.cache(INODE, 0, (PAGES[1], PAGES[1]));
        memory.map(SPACE, ADDRESSES[1], PAGES[1], true);
        let key = find::<Sequenced>(SPACE, ADDRESSES[1]);
        second.set(key.ok().map(|key| *key.key()));
    });
    afterwards(move || judge(&[kept[0].get(), kept[1].get()], other.get()));
}

#[test]
fn swap_in_against_freeing() {
    let stale = Explorer::new().pct(1, 6, 20_000);
    explore("key, swapped in, stale page", &stale, &[], || {
        swapped_in_and_freed(|_, _| {
            let left = memory().page(PAGES[0]).mapping();
            assert_eq!(left, Mapping::Nothing, "a page of a freed inode");
        });
    });
    let alias = Explorer::new().pct(1, 8, 20_000);
    explore("key, swapped in, inode reused", &alias, &[], || {
        swapped_in_and_freed(|first, other| {
            assert!(other.is_none() || !first.contains(&other), "{ALIAS}");
        });
    });
}

/// A page that is moved out of the swap cache comes back.
#[test]
fn migration_of_what_is_swapped_out() {
    explore("key, swapped, migration", &Explorer::new(), &[], || {
        map_file(PAGES[0]);
        spawn(|| {
            let memory = memory();
            let before = key::<Sequenced>(SPACE, ADDRESSES[0]);
            memory.swap_out(SPACE, ADDRESSES[0]);
            assert!(memory.migrate(SPACE, ADDRESSES[0], PAGES[1]));
            assert_eq!(key::<Sequenced>(SPACE, ADDRESSES[0]), before);
        });
    });
}

/// A part of a compound page cannot be taken away by itself: look-ups of the others would
/// never end.
#[test]
fn a_compound_page_stays() {
    let swap_out: fn(u64) = |address| memory().swap_out(SPACE, address);
    let migrate: fn(u64) = |address| assert!(memory().migrate(SPACE, address, 3));
    for address in [0, PAGE] {
        for take in [swap_out, migrate] {
            let failure = fails(move || {
                memory().open(INODE);
                memory().cache(INODE, 0, (PAGES[0], PAGES[1]));
                memory().map(SPACE, 0, PAGES[0], true);
                memory().map(SPACE, PAGE, PAGES[1], true);
                spawn(move || take(address));
            });
            assert!(failure.what.contains("compound"), "{failure}");
        }
    }
}

/// Where a tail was, a page is put that is none.
#[test]
fn migration_to_where_a_tail_was() {
    explore("key, migration, tail", &Explorer::new(), &[], || {
        map_file(PAGES[0]);
        spawn(|| {
            let memory = memory();
            memory.open(INODE + 1);
            memory.cache(INODE + 1, 0, (3, 4));
            memory.free(INODE + 1);
            let before = key::<Sequenced>(SPACE, ADDRESSES[0]);
            assert!(memory.migrate(SPACE, ADDRESSES[0], 4));
            assert_eq!(key::<Sequenced>(SPACE, ADDRESSES[0]), before);
        });
    });
}

/// A page is moved, and another file's is where it was: who found the page before that
/// gets the key of its own file all the same.
fn moved_and_reused<F: Pin>() {
    map_file(PAGES[0]);
    spawn(|| {
        // These policies name an inode by its memory.
        let expected = Key::shared(INODE.into(), ADDRESSES[0]);
        assert_eq!(key::<F>(SPACE, ADDRESSES[0]), Ok(expected), "{ALIAS}");
    });
    spawn(|| {
        let memory = memory();
        if memory.migrate(SPACE, ADDRESSES[0], PAGES[1]) {
            memory.open(INODE + 1);
            memory.cache(INODE + 1, 0, (PAGES[0], PAGES[0]));
        }
    });
}

#[test]
fn reuse_of_a_page_that_was_moved() {
    let explorer = Explorer::new();
    let (locked, lockless) = (moved_and_reused::<PageLock>, moved_and_reused::<Lockless>);
    explore("key, page lock, page reused", &explorer, &[], locked);
    explore("key, lockless, page reused", &explorer, &[], lockless);
}

/// One changes what leads to a page, and takes its last reference away. Who gets none from
/// then on sees the change: else it would look for the page without end.
fn last_reference_gone(ends: impl Fn(&Count<Check>) -> bool + 'static) {
    let count = &memory().page(PAGES[0]).count;
    count.set(1);
    let changed = Rc::new(CheckWord::ZERO);
    let led = Rc::clone(&changed);
    spawn(move || {
        let none = || !count.try_get();
        if none() && none() {
            assert_eq!(led.load(Relaxed), 1, "nothing says why");
        }
    });
    spawn(move || {
        changed.store(1, Relaxed); // what ends the references releases it
        ends(count);
    });
}

#[test]
fn who_gets_no_reference_sees_why() {
    let explorer = Explorer::new();
    explore("key, no reference, freeze", &explorer, &[], || {
        last_reference_gone(|count| count.freeze(1));
    });
    explore("key, no reference, put", &explorer, &[], || {
        last_reference_gone(Count::put);
    });
}

/// One uses a page and gives its reference back. Who freezes the page after that sees the
/// use.
#[test]
fn who_freezes_sees_the_use() {
    explore("key, freeze", &Explorer::new(), &[], || {
        let count = &memory().page(PAGES[0]).count;
        count.set(2);
        let used = Rc::new(CheckWord::ZERO);
        let seen = Rc::clone(&used);
        spawn(move || {
            used.store(1, Relaxed); // put releases it
            assert!(!count.put());
        });
        spawn(move || {
            if count.freeze(1) {
                assert_eq!(seen.load(Relaxed), 1);
            }
        });
    });
}

/// Two have a file open, and give it a page each. Who closes it last takes both pages away.
#[test]
fn the_last_close_sees_every_page() {
    explore("key, two pages, close", &Explorer::new(), &[], || {
        memory().open(INODE);
        memory().inode(INODE).count.get();
        for (page, index) in PAGES.into_iter().zip(0..) {
            spawn(move || {
                let memory = memory();
                memory.cache(INODE, index, (page, page));
                if memory.close(INODE) {
                    let mappings = PAGES.map(|page| memory.page(page).mapping());
                    assert_eq!(mappings, [Mapping::Nothing; 2], "a page of no file");
                }
            });
        }
    });
}

/// Two tasks ask for the key of a file that has no number yet, in spaces of their own and
/// at different addresses: it is one key. The number is one of which both halves say
/// something.
#[test]
fn one_key_in_all_mappings() {
    explore(
        "key, two mappings",
        &Explorer::new(),
        &[Event::KeySought],
        || {
            map_file(PAGES[0]);
            memory().sequences().skip_to(u32::MAX.into());
            memory().map(OTHER_SPACE, ADDRESSES[1], PAGES[0], false);
            let first = Rc::new(Cell::new(None));
            for (space, address) in [(SPACE, ADDRESSES[0]), (OTHER_SPACE, ADDRESSES[1])] {
                let first = Rc::clone(&first);
                spawn(move || {
                    let found = key::<Sequenced>(space, address).expect("it is mapped");
                    assert_eq!(*first.get().get_or_insert(found), found);
                    first.set(Some(found));
                });
            }
        },
    );
}

/// What keys have in common and what not, whatever the policy; no task disturbs.
fn said_of<F: Pin>() {
    const HUGE: (u32, u32) = (1, 2);
    spawn(|| {
        let memory = memory();
        let at = |space, page: u64| find::<F>(space, page * PAGE + 8).map(|key| *key.key());
        assert_eq!(at(SPACE, 0), Err(Fault::Unmapped));
        assert_eq!(key::<F>(SPACE, 6), Err(Fault::Unaligned));

        // An anonymous page's words are its space's.
        for space in [SPACE, OTHER_SPACE] {
            memory.space(space).count.set(1);
        }
        memory.map_anonymous(SPACE, 0, (3, 3));
        memory.map(OTHER_SPACE, 0, 3, true);
        assert_ne!(at(SPACE, 0), at(OTHER_SPACE, 0));
        assert_ne!(at(SPACE, 0), Ok(Key::private(SPACE.into(), 8)));
        memory.map(SPACE, PAGE, 3, false);
        assert_eq!(at(SPACE, 1), Err(Fault::ReadOnly));
        let write = SharedKey::<Check, F>::find(SPACE, PAGE, Access::Write);
        assert_eq!(write.err(), Some(Fault::Unmapped));

        // A file's are the file's: each page of a compound one has its own.
        memory.open(INODE);
        memory.cache(INODE, 4, HUGE);
        let [head, tail] = [HUGE.0, HUGE.1];
        memory.map(SPACE, 0, head, true);
        memory.map(SPACE, PAGE, tail, false);
        memory.map(OTHER_SPACE, 2 * PAGE, tail, true);
        assert_eq!(at(SPACE, 1), at(OTHER_SPACE, 2));
        assert_ne!(at(SPACE, 0), at(SPACE, 1));
        memory.open(INODE + 1);
        memory.cache(INODE + 1, 4, (4, 4));
        memory.map(SPACE, 2 * PAGE, 4, true);
        assert_ne!(at(SPACE, 0), at(SPACE, 2), "files are told apart");

        // Truncated while it is pinned.
        memory.page(head).count.get();
        memory.truncate(INODE);
        assert_eq!(at(SPACE, 0), Err(Fault::Gone));
    });
}

#[test]
fn what_keys_have_in_common() {
    let explorer = Explorer::new();
    explore("key, page lock", &explorer, &[], said_of::<PageLock>);
    explore("key, lockless", &explorer, &[], said_of::<Lockless>);
    explore("key, sequenced", &explorer, &[], said_of::<Sequenced>);
}
