//! Memory that no cache holds, and the random order in which to read it.

use std::fs;

use super::threads::each;
use crate::machine::numbered;

/// More memory than fits in any cache.
pub struct Beyond {
    /// At every 32nd place the next one to look at.
    words: Vec<u32>,
    at: usize,
}

/// Words in 128 bytes.
const STEP: usize = 32;
/// Lines of 64 pages, whose translations fit in the processor's tables.
const WINDOW: usize = 2048;
const MOST: usize = 256 << 20;

impl Beyond {
    /// Memory whose every line is written.
    pub fn new() -> Self {
        let bytes = (4 * last_level_bytes()).clamp(64 << 20, MOST);
        let windows = bytes / (4 * STEP * WINDOW);
        let mut words = vec![0; windows * WINDOW * STEP];
        let order = cycle(WINDOW);
        for window in 0..windows {
            for (line, &next) in order.iter().enumerate() {
                // The way through a window ends where it began, at its first
                // line; from there it goes on in the next window.
                let on = if next == 0 { window + 1 } else { window } % windows;
                let next = on * WINDOW + next as usize;
                words[(window * WINDOW + line) * STEP] = (next * STEP) as u32;
            }
        }
        Self { words, at: 0 }
    }

    /// How much it is.
    pub fn mebibytes(&self) -> usize {
        size_of_val(&*self.words) >> 20
    }

    /// Nanoseconds of a load that goes on where the last one left off.
    pub fn read(&mut self) -> f64 {
        let mut at = self.at;
        let time = each(300, || at = self.words[at] as usize);
        self.at = at;
        time
    }
}

/// The size of the largest cache, 32 MiB where the system does not say.
fn last_level_bytes() -> usize {
    let caches = numbered("/sys/devices/system/cpu/cpu0/cache", "index");
    let sizes = caches.iter().filter_map(|cache| {
        let text = fs::read_to_string(format!("{cache}/size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok()
    });
    sizes.max().map_or(32 << 20, |kib| kib << 10)
}

/// A random permutation that is one cycle: where each number leads.
pub fn cycle(length: usize) -> Vec<u32> {
    let mut next: Vec<u32> = (0..length as u32).collect();
    // Sattolo's shuffle: no number may stay in its place.
    for last in (1..length).rev() {
        next.swap(last, fastrand::usize(..last));
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_visits_every_number() {
        let next = cycle(100);
        let mut seen = [false; 100];
        let mut at = 0;
        for _ in 0..100 {
            seen[at] = true;
            at = next[at] as usize;
        }
        assert!(at == 0 && seen.iter().all(|&s| s));
    }
}
