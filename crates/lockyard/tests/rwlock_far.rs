//! Two locks whose addresses differ by more than a slot's first word says.

use lockyard::RwLock;

/// What names the other lock in a slot does not say which of the two.
#[test]
fn a_lock_is_free_while_another_far_away_is_read() {
    const FAR: usize = 8 << 30;
    let bytes = FAR + size_of::<RwLock<u64>>();
    // SAFETY: a new mapping, of which little is touched.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert_ne!(mapped, libc::MAP_FAILED);
    let [one, other] = [0, FAR].map(|offset| {
        let place = mapped.wrapping_byte_add(offset).cast::<RwLock<u64>>();
        // SAFETY: it is inside the mapping, aligned, and never unmapped.
        unsafe {
            place.write(RwLock::new(0));
            &*place
        }
    });
    for lock in [one, other] {
        // Its readers are not counted any more.
        (0..1_000).for_each(|_| drop(lock.read()));
    }
    let guard = one.read();
    for _ in 0..100 {
        assert!(other.try_write().is_some(), "it is free");
    }
    drop(guard);
}
