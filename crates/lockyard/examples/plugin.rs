//! A library that a program of another language opens, uses and closes, whose threads go on.

use lockyard::Mutex;

static USED: Mutex<u32> = Mutex::new(0);

/// Returns how often it was called.
#[unsafe(no_mangle)]
pub extern "C" fn use_plugin() -> u32 {
    let mut used = USED.lock();
    *used += 1;
    *used
}
