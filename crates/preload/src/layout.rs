//! Whether the C library's objects are as this library takes them to be.
//!
//! What a program's compiler has put into them cannot be asked for: the kinds in static
//! initialisers, of which the versions are known. What the C library puts there it is
//! asked to: objects are made for the purpose, and looked at.

use std::{
    ffi::{CStr, c_int},
    mem::MaybeUninit,
    str,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{cond, mutex, next, rwlock};

/// The first and the last minor version of glibc 2 with objects like these.
const KNOWN: [u32; 2] = [31, 43];

/// Why the C library keeps its locks.
pub enum Unknown {
    Version,
    Layout,
}

impl Unknown {
    /// On standard error, for there is nobody to return it to.
    pub fn say(&self) {
        let why: &[u8] = match self {
            Self::Version => b"its version is not one of 2.31 to 2.43",
            Self::Layout => b"its locks are not laid out as those of its version",
        };
        // SAFETY: it returns a C string that is there for ever.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        say(&[b"glibc ", version.to_bytes(), b" keeps its locks: ", why]);
    }
}

/// A line on standard error, of these parts.
pub fn say(line: &[&[u8]]) {
    let (start, end): ([&[u8]; 1], [&[u8]; 1]) = ([b"lockyard: "], [b"\n"]);
    for part in start.iter().chain(line).chain(&end) {
        // SAFETY: the part is that long.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
}

/// # Errors
/// Why our locks must not be put into the program's objects.
pub fn check_version() -> Result<(), Unknown> {
    // SAFETY: it returns a C string that is there for ever.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    let minor = str::from_utf8(version.to_bytes())
        .ok()
        .and_then(|version| version.strip_prefix("2."))
        .and_then(|minor| minor.split('.').next()?.parse::<u32>().ok());
    let known = minor.is_some_and(|minor| (KNOWN[0]..=KNOWN[1]).contains(&minor));
    if known { Ok(()) } else { Err(Unknown::Version) }
}

/// # Errors
/// As [`check_version`].
pub fn check_objects() -> Result<(), Unknown> {
    let known = mutexes() && rwlocks() && conditions();
    if known { Ok(()) } else { Err(Unknown::Layout) }
}

/// Bytes for an object of the C library's, to be made and looked at.
#[repr(C, align(16))]
struct Probe([u32; 16]);

impl Probe {
    fn new() -> Self {
        Self([0; 16])
    }

    /// Whether so many first words are zero, but for those.
    fn is_zero_but(&self, words: usize, but: &[(usize, u32)]) -> bool {
        (0..words).all(|at| {
            let expected = but.iter().find(|(word, _)| *word == at);
            expected.map_or(self.0[at] == 0, |(_, value)| self.0[at] == *value)
        })
    }
}

/// Has attributes set by a function of the C library's, or by none.
macro_rules! with_attributes {
    ($init:ident, $destroy:ident, $set:expr, |$attributes:ident| $make:expr) => {{
        let mut attributes = MaybeUninit::zeroed();
        // SAFETY: it is of the right type, and initialised before it is used.
        unsafe {
            libc::$init(attributes.as_mut_ptr());
            let set: c_int = $set(attributes.as_mut_ptr());
            let $attributes = attributes.as_ptr();
            let made = set == 0 && $make == 0;
            libc::$destroy(attributes.as_mut_ptr());
            made
        }
    }};
}

/// The kind is in one word; all others are zero.
fn mutexes() -> bool {
    use libc::{
        PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_RECURSIVE,
        PTHREAD_PROCESS_SHARED,
    };
    let words = size_of::<libc::pthread_mutex_t>() / 4;
    let mut all = true;
    for kind in [
        PTHREAD_MUTEX_RECURSIVE,
        PTHREAD_MUTEX_ERRORCHECK,
        PTHREAD_MUTEX_ADAPTIVE_NP,
    ] {
        let mut probe = Probe::new();
        all &= with_attributes!(
            pthread_mutexattr_init,
            pthread_mutexattr_destroy,
            |attributes| libc::pthread_mutexattr_settype(attributes, kind),
            |attributes| next::pthread_mutex_init((&raw mut probe).cast(), attributes)
        );
        all &= probe.is_zero_but(words, &[(mutex::KIND, kind as u32)]);
    }
    let mut probe = Probe::new();
    all &= with_attributes!(
        pthread_mutexattr_init,
        pthread_mutexattr_destroy,
        |attributes| libc::pthread_mutexattr_setpshared(attributes, PTHREAD_PROCESS_SHARED),
        |attributes| next::pthread_mutex_init((&raw mut probe).cast(), attributes)
    );
    all && probe.0[mutex::KIND] > mutex::LAST_KIND
}

/// One word says that processes share it, another whom it prefers.
fn rwlocks() -> bool {
    let words = size_of::<libc::pthread_rwlock_t>() / 4;
    let mut probe = Probe::new();
    let mut all = with_attributes!(
        pthread_rwlockattr_init,
        pthread_rwlockattr_destroy,
        |attributes| libc::pthread_rwlockattr_setkind_np(
            attributes,
            rwlock::WRITERS_FIRST.cast_signed()
        ),
        |attributes| next::pthread_rwlock_init((&raw mut probe).cast(), attributes)
    );
    all &= probe.is_zero_but(words, &[(rwlock::PREFERENCE, rwlock::WRITERS_FIRST)]);
    let mut probe = Probe::new();
    all &= with_attributes!(
        pthread_rwlockattr_init,
        pthread_rwlockattr_destroy,
        |attributes| libc::pthread_rwlockattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED),
        |attributes| next::pthread_rwlock_init((&raw mut probe).cast(), attributes)
    );
    all && probe.0[rwlock::SHARED] != 0 && probe.0[rwlock::PREFERENCE] == 0
}

/// A bit of a condition variable. Where it is has changed between versions.
struct Flag {
    word: AtomicU32,
    bit: AtomicU32,
}

impl Flag {
    const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            bit: AtomicU32::new(0),
        }
    }

    /// Finds it in a condition variable that has it and no other. `false` if there is more,
    /// or nothing.
    fn find(&self, probe: &Probe) -> bool {
        let words = size_of::<libc::pthread_cond_t>() / 4;
        let Some(word) = probe.0.iter().position(|&word| word != 0) else {
            return false;
        };
        let bit = probe.0[word];
        self.word.store(word as u32, Relaxed); // constant from the first lock on
        self.bit.store(bit, Relaxed); // likewise
        bit.is_power_of_two() && probe.is_zero_but(words, &[(word, bit)])
    }

    /// # Safety
    /// `cond` points to a condition variable.
    unsafe fn is_set(&self, cond: *const cond::Cond) -> bool {
        let [word, bit] = [&self.word, &self.bit].map(|number| number.load(Relaxed));
        // SAFETY: the word lies in the object; the C library changes it by atomic accesses.
        let word = unsafe { AtomicU32::from_ptr(cond.cast_mut().cast::<u32>().add(word as usize)) };
        word.load(Relaxed) & bit != 0
    }
}

/// Its deadlines are moments of `CLOCK_MONOTONIC`.
static MONOTONIC: Flag = Flag::new();
/// Processes share it.
static PROCESSES: Flag = Flag::new();

fn conditions() -> bool {
    let [mut clock, mut shared] = [Probe::new(), Probe::new()];
    let made = with_attributes!(
        pthread_condattr_init,
        pthread_condattr_destroy,
        |attributes| libc::pthread_condattr_setclock(attributes, libc::CLOCK_MONOTONIC),
        |attributes| libc::pthread_cond_init((&raw mut clock).cast(), attributes)
    ) && with_attributes!(
        pthread_condattr_init,
        pthread_condattr_destroy,
        |attributes| libc::pthread_condattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED),
        |attributes| libc::pthread_cond_init((&raw mut shared).cast(), attributes)
    );
    made && MONOTONIC.find(&clock) && PROCESSES.find(&shared)
}

/// Whether the deadlines of a condition variable are moments of `CLOCK_MONOTONIC`.
///
/// # Safety
/// `cond` points to one.
pub unsafe fn is_monotonic(cond: *const cond::Cond) -> bool {
    // SAFETY: the caller's.
    unsafe { MONOTONIC.is_set(cond) }
}

/// Whether processes share a condition variable.
///
/// # Safety
/// `cond` points to one.
pub unsafe fn is_shared(cond: *const cond::Cond) -> bool {
    // SAFETY: the caller's.
    unsafe { PROCESSES.is_set(cond) }
}
