//! A mutex that its user has written on `lockyard::futex`: Drepper's third, of
//! "Futexes Are Tricky".

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use lockyard::futex;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may wait.
const WAITED_FOR: u32 = 2;

/// A mutex of four bytes, all zero when free.
struct Mutex(AtomicU32);

impl Mutex {
    /// A free mutex.
    const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Takes the mutex, and waits for it.
    fn lock(&self) {
        let free = self.0.compare_exchange(FREE, TAKEN, Acquire, Relaxed);
        if free.is_err() {
            while self.0.swap(WAITED_FOR, Acquire) != FREE {
                futex::wait(&self.0, WAITED_FOR, None);
            }
        }
    }

    /// Releases the mutex, which the caller has.
    fn unlock(&self) {
        let word = &raw const self.0; // of a mutex that the next owner may free
        if self.0.swap(FREE, Release) == WAITED_FOR {
            futex::wake(word, 1);
        }
    }
}

/// Threads add up, one load and one store at a time.
pub fn main() {
    const THREADS: u32 = 8;
    const ADDS: u32 = 2_000;
    static TOTAL: (Mutex, AtomicU32) = (Mutex::new(), AtomicU32::new(0));

    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ADDS {
                    let (mutex, total) = &TOTAL;
                    mutex.lock();
                    total.store(total.load(Relaxed) + 1, Relaxed);
                    mutex.unlock();
                }
            });
        }
    });
    assert_eq!(TOTAL.1.load(Relaxed), THREADS * ADDS);
    println!("{THREADS} threads have added {ADDS} each");
}
