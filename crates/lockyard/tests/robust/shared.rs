//! The futex of words that processes share, with processes that are killed. No test
//! depends on how long anything takes: it is seen in the shared memory
//! who waits.

use std::{
    fs::File,
    num::NonZeroU32,
    os::unix::fs::MetadataExt,
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread,
    time::Instant,
};

use lockyard::futex::{
    Waited,
    shared::{self, Region},
};

use crate::{
    MILLISECOND,
    alone::Alone,
    page::{self, Child},
};

const ALL: u32 = u32::MAX;
const SLOTS: usize = 15;
const LINE: usize = 16;

/// Two mappings of one file, the second for children.
fn twice(words: usize) -> [Region; 2] {
    let file = Region::file(words).unwrap();
    [(); 2].map(|()| Region::open(&file).unwrap())
}

/// The words of the region's control part.
fn control(region: &Region) -> &[AtomicU32] {
    let first = region.words().as_ptr();
    // SAFETY: the control part lies before the words, is made of words, and is mapped as
    // long as the region is.
    unsafe {
        let start = first.byte_sub(Region::CONTROL);
        std::slice::from_raw_parts(start, Region::CONTROL / 4)
    }
}

/// How many are counted in slots, and how many without.
fn counted(region: &Region) -> [u32; 2] {
    let mut counted = [0; 2];
    for bucket in control(region).chunks_exact(LINE).skip(1) {
        let numbers = bucket.iter().map(|word| word.load(Relaxed) & 0x3fff_ffff);
        for (index, number) in numbers.enumerate() {
            match index < SLOTS {
                true => counted[0] += u32::from(number != 0),
                false => counted[1] += number,
            }
        }
    }
    counted
}

/// Waits until so many are counted. Who waits counts itself anew from time to time, so
/// that one may be missing for a moment.
fn until(region: &Region, count: [u32; 2]) {
    while counted(region) != count {
        thread::sleep(MILLISECOND / 20);
    }
}

/// Waits until so many are counted, in slots or, where those are not wiped, without.
fn until_counted(region: &Region, count: u32) {
    while counted(region).iter().sum::<u32>() != count {
        thread::sleep(MILLISECOND / 20);
    }
}

/// Waits until the word is not 0, and returns what it is.
fn await_change(word: &AtomicU32) -> u32 {
    loop {
        match word.load(Acquire) {
            0 => shared::wait(word, 0, None),
            value => return value,
        };
    }
}

/// Wakes until so many were woken in all.
fn wake_all(word: &AtomicU32, count: u32) {
    let mut woken = 0;
    while woken < count {
        woken += shared::wake(word, ALL);
        thread::sleep(MILLISECOND / 20);
    }
    assert_eq!(woken, count);
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + MILLISECOND)
}

#[test]
fn two_mappings_are_one_word() {
    let _alone = Alone::begin();
    let [here, there] = twice(2);
    let [word, other] = [0, 1].map(|index| &here.words()[index]);
    assert!(!ptr::eq(word, &raw const there.words()[0]));
    assert_eq!(shared::wait(word, 1, None), Waited::Changed);
    assert_eq!(shared::wait(word, 0, soon()), Waited::TimedOut);
    assert_eq!(shared::wake(word, ALL), 0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| shared::wait(word, 0, None));
        until_counted(&there, 1);
        assert_eq!(shared::wake(other, ALL), 0);
        assert_eq!(shared::wake(&there.words()[0], 0), 0);
        wake_all(&there.words()[0], 1);
        assert_eq!(waiter.join().unwrap(), Waited::Woken);
    });
    assert_eq!(counted(&here), [0, 0]);
}

#[test]
fn bit_sets_choose_who_is_woken() {
    let _alone = Alone::begin();
    let [here, there] = twice(1);
    let set = |bits| NonZeroU32::new(bits).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| shared::wait_bitset(&here.words()[0], 0, set(0b0110), None));
        until_counted(&here, 1);
        while shared::wake_bitset(&there.words()[0], ALL, set(0b0011)) == 0 {
            assert_eq!(shared::wake_bitset(&there.words()[0], ALL, set(0b1001)), 0);
            thread::yield_now();
        }
        assert_eq!(waiter.join().unwrap(), Waited::Woken);
    });
}

/// A word outside of all regions is the kernel's: in all mappings, and in private memory.
#[test]
fn a_word_in_no_region_is_the_kernels() {
    let _alone = Alone::begin();
    let [here, there] = page::map_twice().map(|at| {
        // SAFETY: both stay mapped, and zeros are a valid word.
        unsafe { &*at.cast::<AtomicU32>() }
    });
    let private = &AtomicU32::new(0);
    assert_eq!(shared::wait(private, 1, None), Waited::Changed);
    assert_eq!(shared::wait(private, 0, soon()), Waited::TimedOut);
    thread::scope(|scope| {
        for (word, waker) in [(here, there), (private, private)] {
            scope.spawn(move || assert_eq!(shared::wait(word, 0, None), Waited::Woken));
            wake_all(waker, 1);
        }
    });
}

/// What a region is not made of, and how many a process has.
#[test]
fn what_is_no_region_is_refused() {
    let _alone = Alone::begin();
    let why = |file: &File| Region::open(file).err().unwrap().to_string();
    let empty = File::open("/dev/null").unwrap();
    assert_eq!(why(&empty), "0 bytes: a region has 16388 at least");
    assert!(Region::file(0).is_err());
    assert!(Region::file(usize::MAX).is_err());
    let file = Region::file(1).unwrap();
    let region = Region::open(&file).unwrap();
    let format = control(&region)[0].swap(7, Relaxed);
    assert!(why(&file).contains("begins with 0x00000007"));
    control(&region)[0].store(format, Relaxed);
    assert!(file.set_len(4096).is_err(), "it is sealed");
    let mut regions = vec![region];
    let full = loop {
        match Region::open(&file) {
            Ok(region) => regions.push(region),
            Err(full) => break full,
        }
    };
    assert_eq!(regions.len(), 64, "{full}");
    regions.remove(7);
    regions.push(Region::open(&file).unwrap());
    for region in &regions {
        region.words()[0].fetch_add(1, Relaxed);
        assert_eq!(shared::wake(&region.words()[0], 1), 0);
    }
    assert_eq!(regions[0].words()[0].load(Relaxed), 64);
}

#[test]
fn a_mapping_of_the_callers_is_a_region() {
    let Some(_alone) = crate::begin() else { return };
    let len = Region::CONTROL + 4096;
    // SAFETY: it is a new mapping.
    let start = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        libc::mmap(ptr::null_mut(), len, access, flags, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    let start = NonNull::new(start.cast::<u8>()).unwrap();
    // SAFETY: it stays mapped, as a whole and aligned to a page, with zeros in it; the parts
    // begin at multiples of 64, and end before it does.
    let part = |at, len| unsafe { Region::from_mapping(start.add(at), len) };
    let region = part(0, len).unwrap();
    assert_eq!(region.words().len(), 1024);
    assert!(part(0, len - 4).is_ok(), "they have one control part");
    // A peer that has one of these two would be missed by who uses the other.
    let inner = part(2048, len - 2048).err().unwrap().to_string();
    assert!(inner.contains("begins elsewhere"), "{inner}");
    assert_eq!(
        control(&region)[512].load(Relaxed),
        0,
        "it is left as it was"
    );
    let word = &region.words()[1023];
    let child = Child::start(|| assert_eq!(await_change(word), 5));
    until_counted(&region, 1);
    word.store(5, Release);
    shared::wake(word, ALL);
    child.join();
    assert_eq!(counted(&region), [0, 0]);
}

/// Else a word without memory would end who uses it, where there is no more.
#[test]
fn a_file_has_all_its_memory_before_it_is_used() {
    let _alone = Alone::begin();
    const WORDS: usize = 1 << 16;
    let file = Region::file(WORDS).unwrap();
    let blocks = || file.metadata().unwrap().blocks();
    assert_eq!(blocks(), 0, "it is sparse");
    let _region = Region::open(&file).unwrap();
    assert!(blocks() * 512 >= (Region::CONTROL + 4 * WORDS) as u64);
}

/// Of those who wait one after the other is killed, and the last is woken.
#[test]
fn who_is_killed_while_it_waits_is_uncounted() {
    const WAITERS: u32 = 4;
    let Some(_alone) = crate::begin() else { return };
    let [here, there] = twice(1);
    let wait = || assert_eq!(await_change(&there.words()[0]), 1);
    let mut children: Vec<_> = (0..WAITERS).map(|_| Child::start(wait)).collect();
    until(&here, [WAITERS, 0]);
    for left in (1..WAITERS).rev() {
        children.remove(0).kill();
        until(&here, [left, 0]);
    }
    here.words()[0].store(1, Release);
    shared::wake(&here.words()[0], ALL);
    children.remove(0).join();
    assert_eq!(counted(&here), [0, 0]);
}

/// Those who found no slot stay counted when they are killed, and nobody is missed.
#[test]
fn who_is_killed_in_the_crowd_takes_nobody_along() {
    const WAITERS: u32 = SLOTS as u32 + 3;
    let Some(_alone) = crate::begin() else { return };
    let [here, there] = twice(1);
    let wait = || assert_eq!(await_change(&there.words()[0]), 1);
    let children: Vec<_> = (0..WAITERS).map(|_| Child::start(wait)).collect();
    until(&here, [SLOTS as u32, 3]);
    let mut survivors = Vec::new();
    for (index, child) in children.into_iter().enumerate() {
        match index % 2 {
            0 => child.kill(),
            _ => survivors.push(child),
        }
    }
    here.words()[0].store(1, Release);
    shared::wake(&here.words()[0], ALL);
    survivors.into_iter().for_each(Child::join);
    let [slots, crowd] = counted(&here);
    assert_eq!(slots, 0);
    assert!(crowd <= 3);
}

/// A child that waits again and again is killed wherever it is.
#[test]
fn who_is_killed_anywhere_in_a_wait_is_uncounted() {
    const KILLS: u32 = 60;
    let Some(_alone) = crate::begin() else { return };
    let [here, there] = twice(2);
    let [word, waits] = [0, 1].map(|index| &there.words()[index]);
    for kill in 0..KILLS {
        let begun = waits.load(Relaxed);
        let child = Child::start(|| {
            loop {
                shared::wait(word, 0, Some(Instant::now())); // the glance, then the kernel
                waits.fetch_add(1, Relaxed);
            }
        });
        while waits.load(Relaxed) == begun {
            thread::yield_now();
        }
        (0..kill * 37 % 1000).for_each(|_| std::hint::spin_loop());
        child.kill();
        assert_eq!(counted(&here), [0, 0], "kill {kill}");
    }
}

/// A child changes a word and wakes, again and again, until it is killed; another process
/// waits for that word, and tells this one, by another mapping. Those two go on.
#[test]
fn who_is_killed_while_it_wakes_takes_nobody_along() {
    const KILLS: u32 = 30;
    const LAST: u32 = u32::MAX;
    let Some(_alone) = crate::begin() else { return };
    let [here, there] = twice(2);
    let waiter = Child::start(|| {
        let [word, told] = [0, 1].map(|index| &there.words()[index]);
        let mut seen = 0;
        while seen != LAST {
            shared::wait(word, seen, None);
            seen = word.load(Acquire);
            told.fetch_add(1, Release);
            shared::wake(told, ALL);
        }
    });
    let [word, told] = [0, 1].map(|index| &here.words()[index]);
    for _ in 0..KILLS {
        let waker = Child::start(|| {
            loop {
                word.fetch_add(1, Release);
                shared::wake(word, ALL);
            }
        });
        for _ in 0..10 {
            let seen = told.load(Acquire);
            shared::wait(told, seen, None);
        }
        waker.kill();
    }
    word.store(LAST, Release);
    shared::wake(word, ALL);
    waiter.join();
    assert_eq!(counted(&here), [0, 0]);
}

/// A small generator of numbers (Marsaglia, Xorshift RNGs, 2003).
fn scramble(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

/// One process writes anything anywhere, while two others wait and wake: each call of
/// theirs ends, and when it has ended all is well in other words.
#[test]
fn who_scribbles_breaks_nobodys_calls() {
    const CALLS: u32 = 400;
    let Some(_alone) = crate::begin() else { return };
    let [here, there] = twice(4);
    let scribbler = Child::start(|| {
        let mut state = 1;
        loop {
            let all = [control(&there), there.words()];
            for word in all.into_iter().flatten() {
                let value = scramble(&mut state);
                // Some are numbers of tasks, or of waiters, or nothing.
                word.store(value >> (value % 40).min(31), Relaxed);
            }
        }
    });
    let call = |region: &Region| {
        for index in 0..CALLS {
            let word = &region.words()[index as usize % 4];
            let deadline = Instant::now() + MILLISECOND / 20;
            shared::wait(word, word.load(Relaxed), Some(deadline));
            shared::wake(word, 1 << (index % 32));
        }
    };
    let other = Child::start(|| call(&there));
    call(&here);
    other.join();
    scribbler.kill();
    drop([here, there]);
    let [here, there] = twice(1);
    let waiter = Child::start(|| assert_eq!(await_change(&there.words()[0]), 1));
    until_counted(&here, 1);
    here.words()[0].store(1, Release);
    shared::wake(&here.words()[0], 1);
    waiter.join();
}

/// A waker that is told that nobody waits wakes nobody; the waiter looks again by itself.
#[test]
fn a_waiter_whose_count_was_taken_looks_again() {
    let Some(_alone) = crate::begin() else { return };
    let [here, there] = twice(1);
    let waiter = Child::start(|| assert_eq!(await_change(&there.words()[0]), 1));
    until_counted(&here, 1);
    control(&here)[LINE..]
        .iter()
        .for_each(|word| word.store(0, Relaxed));
    here.words()[0].store(1, Release);
    shared::wake(&here.words()[0], ALL);
    waiter.join();
}

/// The mapping by which a waiter is woken may be gone before, and so may its process.
#[test]
fn who_unmaps_a_region_takes_it_from_nobody() {
    let Some(_alone) = crate::begin() else { return };
    let file = Region::file(1).unwrap();
    let open = || Region::open(&file).unwrap();
    let here = open();
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(await_change(&here.words()[0]), 1));
        until_counted(&here, 1);
        Child::start(|| drop(open())).join();
        drop(open());
        Child::start(|| {
            let there = open();
            there.words()[0].store(1, Release);
            shared::wake(&there.words()[0], ALL);
        })
        .join();
    });
}
