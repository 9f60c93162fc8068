//! The mutex of Abseil, Google's C++ library, which readers may share.

use std::{ffi::c_int, sync::OnceLock};

use libloading::Library;

use crate::dynamic::{Calls, Dynamic, Names, Object, Shared, open};

/// `absl::Mutex` of the C++ library Abseil.
pub type Abseil = Dynamic<Mutex>;

/// `absl::Mutex` with its readers.
pub type AbseilRw = Shared<Mutex>;

/// `absl::Mutex`: one `std::atomic<intptr_t>`.
#[repr(transparent)]
pub struct Mutex(isize);

/// The releases with long support whose mutex is known to be this one, newest
/// first.
const RELEASES: [&str; 7] = [
    "20250512", "20250127", "20240722", "20240116", "20230802", "20230125", "20220623",
];

// SAFETY: in each of `RELEASES`, the mutex is one pointer-sized integer, which
// the constructor sets to 0; an unlocked one has no waiters, so nothing points
// to it.
unsafe impl Object for Mutex {
    const UNLOCKED: Self = Self(0);

    fn calls() -> Result<Calls, String> {
        static CALLS: OnceLock<Result<Calls, String>> = OnceLock::new();
        CALLS.get_or_init(|| load(&RELEASES)).clone()
    }
}

fn load(releases: &[&str]) -> Result<Calls, String> {
    releases
        .iter()
        .find_map(|release| load_release(release))
        .ok_or_else(|| {
            format!(
                "libabsl_synchronization.so of Abseil {} is missing (install Debian's libabsl20220623 or later)",
                releases.join(", ")
            )
        })
}

/// Abseil calls the library of its release 20230125 `.so.2301.0.0`, and Debian
/// calls it `.so.20230125`.
fn load_release(release: &str) -> Option<Calls> {
    [release, &format!("{}.0.0", &release[2..6])]
        .iter()
        .find_map(|version| {
            // SAFETY: Abseil's initialisers ask nothing of whoever opens it.
            let library = unsafe { open(&format!("libabsl_synchronization.so.{version}")) }.ok()?;
            namespaces(release).find_map(|namespace| find(library, &namespace))
        })
}

fn find(library: &'static Library, namespace: &str) -> Option<Calls> {
    let absl = format!("_ZN4absl{}{namespace}", namespace.len());
    let member = |name: &str| format!("{absl}5Mutex{name}Ev");
    let names = Names {
        write: [&member("4Lock"), &member("6Unlock")],
        read: [&member("10ReaderLock"), &member("12ReaderUnlock")],
        destroy: Some(&member("D1")),
    };
    // SAFETY: these are `Mutex::Lock()`, `Mutex::Unlock()`, `Mutex::ReaderLock()`,
    // `Mutex::ReaderUnlock()` and `Mutex::~Mutex()`: members that take `this` and
    // return nothing.
    let calls = unsafe { Calls::find(library, &names) }.ok()?;
    let set_mode = format!("{absl}29SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE");
    // SAFETY: it takes an enumeration, which is an `int`, of which 0 is
    // `kIgnore`, and may be called at any time.
    unsafe {
        // A library built with assertions (Debian's is) looks for deadlocks in
        // every call, at more than the price of the lock; others ignore this.
        if let Ok(set_mode) = library.get::<unsafe extern "C" fn(c_int)>(&set_mode) {
            set_mode(0);
        }
    }
    Some(calls)
}

/// The inline namespaces a release may be in: Abseil's own, or one that Debian
/// counts by the changes of its binary interface.
fn namespaces(release: &str) -> impl Iterator<Item = String> {
    let own = format!("lts_{release}");
    std::iter::once(own).chain((1..=20).map(|n| format!("debian{n}")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_missing_library_is_named() {
        let error = super::load(&["19700101"]).err().expect("no such release");
        assert!(error.contains("libabsl_synchronization.so"), "{error}");
        assert!(error.contains("libabsl20220623"), "{error}");
    }
}
