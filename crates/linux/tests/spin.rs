//! Spinning.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lockyard_core::{FOREVER, Look, Platform};
use lockyard_linux::Linux;

#[test]
fn a_spin_ends_after_so_many_looks() {
    const LOOKS: u32 = 7;
    let word = AtomicU32::new(0);
    for look in [Look::Poll, Look::Event, Look::Every(1_000)] {
        let mut looks = 0;
        let done = |_| {
            looks += 1;
            false
        };
        let seen = Linux::spin_until(&word, Relaxed, look, LOOKS, done, || false);
        assert_eq!((seen, looks), (None, LOOKS));
    }
}

#[test]
fn a_spin_ends_when_it_is_told_to_stop() {
    let word = AtomicU32::new(0);
    for looks in [7, FOREVER] {
        let never = |value| value != 0;
        let seen = Linux::spin_until(&word, Relaxed, Look::Poll, looks, never, || true);
        assert_eq!(seen, None);
    }
}

#[test]
fn a_spin_returns_what_it_saw() {
    let word = AtomicU32::new(5);
    for looks in [1, FOREVER] {
        let seen = Linux::spin_until(&word, Relaxed, Look::Poll, looks, |_| true, || true);
        assert_eq!(seen, Some(5));
    }
}
