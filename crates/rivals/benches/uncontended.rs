//! What a lock costs that nobody else wants, beside rivals of Rust: by how many locks the thread
//! takes, and what it does between two. Nanoseconds for a lock and unlock: what a loop takes with it,
//! less what it takes without, the locks by turns, and the median of all rounds.
//!
//! ```sh
//! cargo bench -p lockyard-rivals --bench uncontended               # a table
//! cargo bench -p lockyard-rivals --bench uncontended -- --json     # all rounds
//! ```
//!
//! Back to back a processor waits for the lock alone, and its atomic instructions count. Where
//! something else takes the time, what counts is how many instructions the lock has: they take places
//! of what could be begun meanwhile. Atomic ones wait until all that was stored before is in the cache.

use std::{env, hint::black_box, process, time::Instant};

use lockyard::{Mutex, RwLock};
use lockyard_rivals::{ParkingLot, ParkingLotRw, Std, StdRw};
use lockyard_torture::Lock;

const ROUNDS: usize = 21;

/// Words of a memory that no cache holds.
const FAR: usize = 1 << 23;

/// What a thread does between two locks.
#[derive(Clone, Copy)]
enum Between {
    Nothing,
    /// Multiplications, each of what the one before had.
    Computes,
    /// Four words of [`FAR`].
    Loads,
    Stores,
}

const BETWEEN: [(&str, Between); 4] = [
    ("nothing", Between::Nothing),
    ("computes 70 ns", Between::Computes),
    ("4 far loads", Between::Loads),
    ("4 far stores", Between::Stores),
];

/// Which of the locks the next is.
const LOCKS: [(&str, usize, bool); 3] = [
    ("one", 1, false),
    ("64 in turn", 64, false),
    ("any of 2,000", 2_000, true),
];

struct Thread {
    far: Vec<u64>,
    dice: u64,
}

impl Thread {
    fn new() -> Self {
        let dice = 88_172_645_463_325_252;
        let far = vec![1; FAR];
        Self { far, dice }
    }

    #[inline(always)]
    fn roll(&mut self, sides: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        ((self.dice >> 32) as usize * sides) >> 32
    }

    #[inline(always)]
    fn does(&mut self, between: Between) {
        match between {
            Between::Nothing => (),
            Between::Computes => {
                let mut product = self.dice;
                for _ in 0..70 {
                    product = product.wrapping_mul(product);
                }
                black_box(product);
            }
            Between::Loads => {
                for _ in 0..4 {
                    let at = self.roll(FAR);
                    black_box(self.far[at]);
                }
            }
            Between::Stores => {
                for _ in 0..4 {
                    let at = self.roll(FAR);
                    self.far[at] = self.dice;
                }
            }
        }
    }

    /// Nanoseconds for each use of an item.
    #[inline(always)]
    fn runs<T>(&mut self, items: &[T], any: bool, between: Between, uses: impl Fn(&T)) -> f64 {
        let times = match between {
            Between::Nothing | Between::Computes => 100_000,
            Between::Loads | Between::Stores => 20_000,
        };
        let (mut at, began) = (0, Instant::now());
        for _ in 0..times {
            at = match any {
                true => self.roll(items.len()),
                false if at + 1 < items.len() => at + 1,
                false => 0,
            };
            uses(&items[at]);
            self.does(between);
        }
        began.elapsed().as_nanos() as f64 / f64::from(times)
    }
}

/// What a lock costs, as [`main`] says.
type Cost = fn(&mut Thread, usize, bool, Between) -> f64;

macro_rules! costs {
    ($(($lock:ty, $how:ident)),+) => {
        [$({
            #[inline(never)]
            fn cost(thread: &mut Thread, locks: usize, any: bool, between: Between) -> f64 {
                let items: Vec<($lock, u64)> = (0..locks).map(|_| (Lock::new(), 0)).collect();
                let without = thread.runs(&items, any, between, |(_, data)| _ = black_box(data));
                let with = thread.runs(&items, any, between, |(lock, data)| {
                    Lock::$how(lock, || _ = black_box(data));
                });
                with - without
            }
            cost as Cost
        }),+]
    };
}

const KINDS: [(&str, [Cost; 3]); 3] = [
    (
        "mutex",
        costs![(Mutex<()>, with), (ParkingLot, with), (Std, with)],
    ),
    (
        "rwlock, read",
        costs![(RwLock<()>, read), (ParkingLotRw, read), (StdRw, read)],
    ),
    (
        "rwlock, write",
        costs![(RwLock<()>, with), (ParkingLotRw, with), (StdRw, with)],
    ),
];
const NAMES: [&str; 3] = ["lockyard", "parking_lot", "std"];

fn main() {
    let asked = env::args().skip(1).filter(|argument| argument != "--bench");
    let mut json = false;
    for argument in asked {
        json = argument == "--json" || {
            eprintln!("uncontended: '{argument}': only --json can be asked for");
            process::exit(2)
        };
    }
    let mut thread = Thread::new();
    if !json {
        print!("{:<48}", "ns");
        NAMES.iter().for_each(|name| print!("{name:>12}"));
        println!();
    }
    for (kind, costs) in KINDS {
        for (which, locks, any) in LOCKS {
            for (what, between) in BETWEEN {
                let row = format!("{kind}, {which}, {what}");
                let mut all = [const { Vec::new() }; 3];
                for _ in 0..ROUNDS {
                    for (rounds, cost) in all.iter_mut().zip(costs) {
                        rounds.push(cost(&mut thread, locks, any, between));
                    }
                }
                match json {
                    true => print_rounds(&row, &all),
                    false => print_medians(&row, &mut all),
                }
            }
        }
    }
}

fn print_rounds(row: &str, all: &[Vec<f64>; 3]) {
    for (lock, rounds) in NAMES.iter().zip(all) {
        let ns: Vec<String> = rounds.iter().map(|ns| format!("{ns:.2}")).collect();
        let ns = ns.join(",");
        println!(r#"{{"row":"{row}","lock":"{lock}","ns":[{ns}]}}"#);
    }
}

fn print_medians(row: &str, all: &mut [Vec<f64>; 3]) {
    print!("{row:<48}");
    for rounds in all {
        rounds.sort_by(f64::total_cmp);
        print!("{:>12.1}", rounds[ROUNDS / 2]);
    }
    println!();
}
