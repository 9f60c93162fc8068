//! The profile of the program's locks, `lockyard run --stats`: from the environment when
//! the program begins, and told by the locks here.
//!
//! | in the environment | |
//! |---|---|
//! | [`STATS`] | a profile is wanted: in this file, or, if it is empty, on standard error |
//! | [`STATS_PID`] | the process that the file is for; others put their number behind its name |
//!
//! A lock that is taken while a stack is looked up is passed over: what does that may lock.

use std::{
    cell::Cell,
    env,
    ffi::{OsString, c_int, c_void},
    fs, io,
    ops::Range,
    process, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use lockyard_core::Event;
use lockyard_linux::{clock, events};
use lockyard_order::{Lookup, PutOff, keep_stderr, on_own_stack, say, write_stderr};
use lockyard_profile::{Holds, Profile, Report, Stack, Taken, Wait};
pub use lockyard_profile::{Key, Mode};

use crate::{next, policy};

const STATS: &str = "LOCKYARD_STATS";
const STATS_PID: &str = "LOCKYARD_STATS_PID";

/// Null while nobody watches.
static PROFILE: AtomicPtr<Profile> = AtomicPtr::new(ptr::null_mut());
static SETTINGS: OnceLock<Settings> = OnceLock::new();
/// What was asked for when the program began, which may change its environment.
struct Settings {
    /// Empty: standard error.
    file: OsString,
    /// The process that the file is for.
    pid: Option<u32>,
    /// The process whose profile it is. A child of `vfork`, in its parent's memory, is another.
    process: AtomicU32,
    /// The thread that reports: 0 before, [`REPORTED`] after.
    reporter: AtomicUsize,
    began: Instant,
    /// Where this library is loaded: its frames are of no interest.
    own: Range<usize>,
}

const REPORTED: usize = 1; // of no thread
/// How long the program's end waits for another thread's report, which may wait for that end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a thread keeps for itself. No destructor: it can be used as long as it runs.
struct Mine {
    /// Whether it looks a stack up.
    looks_up: Cell<bool>,
    holds: Holds,
}

thread_local! {
    static MINE: Mine = const {
        Mine {
            looks_up: Cell::new(false),
            holds: Holds::new(),
        }
    };
}

#[inline(always)]
pub fn is_on() -> bool {
    !PROFILE.load(Relaxed).is_null() // set before the program began
}

/// The caller has taken the lock without waiting.
#[inline(always)]
pub fn took(key: Key) {
    if is_on() {
        match key.mode() == Mode::Read && may_time(key.address()) {
            true => note_taken_fully(key),
            false => note_taken(key),
        }
    }
}

/// What follows the first look at the record is jumped to, so that this is short.
#[inline(never)]
extern "C" fn note_taken(key: Key) {
    match told(|profile, _| profile.took_known(key)) {
        None | Some(Some(None)) => {}
        Some(Some(Some(taken))) => look(key, taken),
        Some(None) => note_taken_fully(key),
    }
}

/// The lock's record is not where it is looked for first, or there is none yet; or the thread
/// may have the lock, and take it again.
#[cold]
#[inline(never)]
extern "C" fn note_taken_fully(key: Key) {
    match told(|profile, _| profile.took(key)) {
        None => {}
        Some(None) => MINE.with(|mine| mine.holds.nest(key)),
        Some(Some(taken)) => look(key, taken),
    }
}

#[cold]
#[inline(never)]
fn look(key: Key, taken: Taken) {
    told(|profile, mine| {
        let timed = profile.look(taken, stack);
        mine.holds.begin(profile, key, timed, clock::cycles());
    });
}

/// Takes the lock by `wait`, which returns 0 when it did.
#[inline(always)]
pub fn waiting(key: Key, wait: impl FnOnce() -> c_int) -> c_int {
    if !is_on() {
        return wait();
    }
    let waiter = told(|profile, _| profile.waits(key, stack)).flatten();
    events::take_marks();
    let began = clock::cycles();
    let code = wait();
    if code == 0 {
        let ns = since(began);
        let marks = events::take_marks();
        let wait = Wait {
            ns,
            slept: marks.has(Event::Parked) || marks.has(Event::Boosted),
            owner_off: marks.has(Event::SpinOwnerOff),
        };
        told(
            |profile, mine| match profile.waited(key, wait, waiter.as_ref()) {
                Some(timed) => mine.holds.begin(profile, key, timed, clock::cycles()),
                None => mine.holds.nest(key),
            },
        );
    }
    code
}

/// Whether the caller's hold of the lock at an address may be timed: if it is, surely.
#[inline(always)]
pub fn may_time(address: usize) -> bool {
    is_on() && MINE.with(|mine| mine.holds.may_time(address))
}

/// The caller is about to release the lock, if it has it.
#[inline(always)]
pub fn releases(key: Key) {
    if may_time(key.address()) {
        note_release(key);
    }
}

#[inline(never)]
fn note_release(key: Key) {
    told(|profile, mine| {
        if let Some((began, timed)) = mine.holds.end(key) {
            profile.held(key, since(began), timed);
        }
    });
}

/// The lock was made, and nobody uses it yet.
#[inline(always)]
pub fn made(key: Key) {
    if is_on() {
        told(|profile, _| profile.made(key, &stack()));
    }
}

/// The lock is destroyed: nobody uses it any more.
#[inline(always)]
pub fn destroyed(key: Key) {
    if is_on() {
        told(|profile, _| profile.destroyed(key));
    }
}

/// Tells the profile, unless the caller is looking a stack up for it.
#[inline(always)]
fn told<T>(tell: impl FnOnce(&Profile, &Mine) -> T) -> Option<T> {
    MINE.with(|mine| {
        // SAFETY: it is null or what `Profile::map` returned, which is there for ever.
        let profile = unsafe { PROFILE.load(Relaxed).as_ref() }?; // set before the program began
        (!mine.looks_up.get()).then(|| tell(profile, mine))
    })
}

/// Nanoseconds since then. Another CPU's counter may be behind.
fn since(cycles: u64) -> u64 {
    let passed = clock::cycles().wrapping_sub(cycles).cast_signed();
    clock::ns_in_cycles(passed.max(0).cast_unsigned())
}

/// The caller's stack.
#[cold]
fn stack() -> Stack {
    let own = SETTINGS.get().map_or(0..0, |settings| settings.own.clone());
    MINE.with(|mine| {
        mine.looks_up.set(true);
        let stack = Stack::here(&own);
        mine.looks_up.set(false);
        stack
    })
}

/// Begins to watch if the environment says so. In a fork's child it begins anew.
pub fn start() {
    let Some(file) = env::var_os(STATS) else {
        return;
    };
    let pid = env::var(STATS_PID).ok().and_then(|pid| pid.parse().ok());
    let settings = Settings {
        file,
        pid,
        process: AtomicU32::new(process::id()),
        reporter: AtomicUsize::new(0),
        began: Instant::now(),
        own: own_range(),
    };
    match Profile::map() {
        Err(error) => complain("no profile", &error),
        Ok(profile) if SETTINGS.set(settings).is_ok() => {
            clear_file();
            keep_stderr(); // where the report goes, or a complaint
            stack(); // what finds stacks is bound now, not inside a lock
            // SAFETY: the handlers are functions of this library, which stays loaded.
            unsafe {
                libc::pthread_atfork(None, None, Some(after_fork_in_child));
                at_quick_exit(report);
            }
            events::enable_marks(true);
            PROFILE.store(ptr::from_ref(profile).cast_mut(), Relaxed); // the program has one thread
            policy::profile();
        }
        Ok(_) => {}
    }
}

/// What an earlier run has left is not taken for this one's, should it be killed.
fn clear_file() {
    let is_its = |settings: &&Settings| settings.pid == Some(process::id());
    if let Some(settings) = SETTINGS.get().filter(is_its)
        && !settings.file.is_empty()
    {
        let mut folded = settings.file.clone();
        folded.push(".folded");
        for file in [&settings.file, &folded] {
            let _ = fs::write(file, ""); // the report says what is wrong
        }
    }
}

unsafe extern "C" {
    /// The C library's: what is called by `quick_exit`, the latest first.
    pub fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

extern "C" fn after_fork_in_child() {
    if let Some(settings) = SETTINGS.get() {
        settings.process.store(process::id(), Relaxed); // the child has one thread
        settings.reporter.store(0, Relaxed); // likewise
    }
    told(|profile, mine| {
        mine.holds.clear();
        profile.clear();
    });
}

/// Ends the watch and reports, when the program ends; once, however many threads end it.
extern "C" fn report() {
    let Some(settings) = SETTINGS.get() else {
        return;
    };
    if settings.process.load(Relaxed) != process::id() {
        return;
    }
    let me = MINE.with(|mine| ptr::from_ref(mine).addr());
    let _put_off = PutOff::now(); // a handler may end the program
    // What was written is in the kernel: that the report was made tells no more than itself.
    let reporter = &settings.reporter;
    match reporter.compare_exchange(0, me, Relaxed, Relaxed) {
        Ok(_) => {
            if on_own_stack(|| report_all(settings)).is_none() {
                complain(
                    "the profile cannot be written",
                    &io::ErrorKind::OutOfMemory.into(),
                );
            }
            reporter.store(REPORTED, Relaxed);
        }
        // A handler of a fault, which is not put off, does not wait for what that interrupted.
        Err(other) if other == me => {}
        Err(_) => {
            let until = Instant::now() + PATIENCE;
            while reporter.load(Relaxed) != REPORTED && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn report_all(settings: &Settings) {
    let profile = PROFILE.swap(ptr::null_mut(), Relaxed);
    // SAFETY: it is null or what `Profile::map` returned, which is there for ever.
    let Some(profile) = (unsafe { profile.as_ref() }) else {
        return;
    };
    let lookup = Lookup::begin();
    let report = Report::new(profile, settings.began.elapsed());
    drop(lookup);
    if report.locks.is_empty() && settings.pid != Some(process::id()) {
        return; // a child that took none
    }
    let written = match settings.file.is_empty() {
        true => write_stderr(report.text().as_bytes()),
        false => write(&report, settings),
    };
    if let Err(error) = written {
        complain("the profile cannot be written", &error);
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static REPORT: extern "C" fn() = report;

/// Also ends the program, without what `exit` calls. A signal handler may: then the report is
/// made wherever that has interrupted the thread, which is why it takes no lock of ours.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    report();
    // SAFETY: it has no clause.
    unsafe { next::_exit(status) };
    process::abort()
}

#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

fn write(report: &Report, settings: &Settings) -> io::Result<()> {
    let mut file = settings.file.clone();
    if settings.pid != Some(report.pid) {
        file.push(format!(".{}", report.pid));
    }
    fs::write(&file, report.json())?;
    file.push(".folded");
    fs::write(&file, report.folded())
}

/// On standard error, for there is nobody to return it to.
fn complain(what: &str, error: &io::Error) {
    say(&format!("{what}: {error}"));
}

/// Where this library is loaded.
fn own_range() -> Range<usize> {
    let mut own = 0..0;
    // SAFETY: the function is `find_own`, which is called before this returns, with a
    // pointer to a range.
    unsafe { libc::dl_iterate_phdr(Some(find_own), (&raw mut own).cast()) };
    own
}

/// Whether a loaded object has this function; its range goes into `own`.
///
/// # Safety
/// As `dl_iterate_phdr` has it; `own` points to a `Range<usize>`.
unsafe extern "C" fn find_own(info: *mut libc::dl_phdr_info, _: usize, own: *mut c_void) -> c_int {
    let here = own_range as *const () as usize;
    // SAFETY: `info` points to a description, whose headers are that many.
    let (base, headers) = unsafe {
        let headers = std::slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum.into());
        ((*info).dlpi_addr as usize, headers)
    };
    let code = headers.iter().find_map(|header| {
        let start = base.wrapping_add(header.p_vaddr as usize);
        let range = start..start.wrapping_add(header.p_memsz as usize);
        (header.p_type == libc::PT_LOAD && range.contains(&here)).then_some(range)
    });
    if let Some(code) = code {
        // SAFETY: the caller's.
        unsafe { *own.cast::<Range<usize>>() = code };
        return 1;
    }
    0
}
