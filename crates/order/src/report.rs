//! What is said, on standard error: each report by one write, after the locks of this
//! crate are released.

use std::{
    ffi::c_void,
    fmt::Write,
    ptr,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use crate::{
    graph::{Graph, LONGEST},
    lock::{Kind, Known},
    lookup::Lookup,
    mode::Mode,
    stack::{Stack, mix},
    stderr::write_stderr,
};

static REPORTS: AtomicU32 = AtomicU32::new(0);

/// The reports that this process has made.
pub fn reports() -> u32 {
    REPORTS.load(Relaxed) // a count
}

/// A bound that was met, of which one line is said.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Limit {
    /// All orders are forgotten.
    Orders,
    /// A thread is not watched.
    Threads,
    /// A lock that a thread holds is not seen.
    Held,
    /// A search was given up.
    Search,
    /// An inversion is not reported.
    Reports,
    /// There is no memory for the orders.
    Memory,
}

impl Limit {
    fn line(self) -> &'static str {
        match self {
            Self::Orders => {
                "the table of lock orders is full: it begins anew, now and whenever it is"
            }
            Self::Threads => "more threads than can be watched: the locks of some are not seen",
            Self::Held => "a thread holds more locks than can be seen: some orders are not",
            Self::Search => "a search for a cycle took too long: an inversion may not be reported",
            Self::Reports => "more reports than are made",
            Self::Memory => "no memory for the order of locks: orders are not seen",
        }
    }

    pub fn say_once(self) {
        static SAID: AtomicU32 = AtomicU32::new(0);
        let bit = 1 << self as u32;
        if SAID.fetch_or(bit, Relaxed) & bit == 0 {
            say(self.line());
        }
    }
}

/// A side of an inversion.
#[derive(Clone, Copy)]
struct Side {
    thread: u32,
    held: (usize, Kind, Mode),
    held_at: Stack,
    wanted: (usize, Kind, Mode),
    wanted_at: Stack,
}

/// A cycle, copied out of the graph.
pub struct Inversion {
    edges: usize,
    side: [Option<Side>; LONGEST],
}

impl Inversion {
    pub fn of(graph: &Graph, edges: usize) -> Self {
        let mut side = [None; LONGEST];
        for (side, step) in side.iter_mut().zip(graph.cycle(edges)) {
            *side = Some(Side {
                thread: step.thread,
                held: step.held,
                held_at: *step.held_at,
                wanted: step.wanted,
                wanted_at: *step.wanted_at,
            });
        }
        Self { edges, side }
    }

    #[cold]
    #[inline(never)]
    pub fn report(&self) {
        let mut text = Text::new(format_args!(
            "lock order inversion: {} locks, and a deadlock is possible",
            self.edges
        ));
        for side in self.side.iter().flatten() {
            text.line(format_args!(
                "thread {} wanted {} while it held {}",
                side.thread,
                name(side.wanted.0, side.wanted.1),
                name(side.held.0, side.held.1),
            ));
            text.taken(side.held, "taken", &side.held_at);
            text.taken(side.wanted, "wanted", &side.wanted_at);
        }
        if self.waits_for_reader() {
            text.line(format_args!(
                "one of these readers waits for another when a writer waits between them"
            ));
        }
        if self
            .side
            .iter()
            .flatten()
            .any(|side| side.held.2 == Mode::SharedPassable)
        {
            text.line(format_args!(
                "a read guard that was passed on counts here as that of who took it"
            ));
        }
        text.say();
    }

    fn waits_for_reader(&self) -> bool {
        let sides = || self.side.iter().flatten();
        sides().any(|waiter| {
            let (address, _, mode) = waiter.wanted;
            sides().any(|side| {
                let (held, _, as_what) = side.held;
                held == address && mode.waits_behind_writers_for(as_what)
            })
        })
    }
}

/// What a thread does wrong with one lock.
pub struct Misuse<'a> {
    pub what: std::fmt::Arguments<'a>,
    pub lock: Known,
    /// `None` where it ends.
    pub at: Option<Stack>,
    /// Who holds it, in which mode, since where.
    pub holder: (u32, Mode, Stack),
}

impl Misuse<'_> {
    /// Whether nothing was reported from the same places, and there is room to remember it.
    pub fn is_first(&self) -> bool {
        const REPORTED: usize = 1 << 8;
        static HASHES: [AtomicU64; REPORTED] = [const { AtomicU64::new(0) }; REPORTED];
        let hash = mix(self.at.map_or(0, |at| at.hash()), self.holder.2.hash()) | 1;
        for place in &HASHES {
            // A hash tells no more than itself.
            match place.compare_exchange(0, hash, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(known) if known == hash => return false,
                Err(_) => {}
            }
        }
        Limit::Reports.say_once();
        false
    }

    #[cold]
    #[inline(never)]
    pub fn report(&self) {
        let mut text = Text::new(self.what);
        if let Some(at) = &self.at {
            text.stack("at", at);
        }
        let (thread, mode, stack) = &self.holder;
        text.line(format_args!("thread {thread} holds it"));
        text.taken((self.lock.address, self.lock.kind, *mode), "taken", stack);
        text.say();
    }
}

fn name(address: usize, kind: Kind) -> String {
    format!("{} {address:#x}", kind.name())
}

/// A report in the making.
struct Text(String, Lookup);

impl Text {
    fn new(title: std::fmt::Arguments) -> Self {
        let lookup = Lookup::begin();
        backtrace::clear_symbol_cache(); // libraries may have come since the last
        Self(format!("lockyard: {title}\n"), lookup)
    }

    fn line(&mut self, line: std::fmt::Arguments) {
        let _ = writeln!(self.0, "  {line}"); // a string takes it
    }

    fn taken(&mut self, lock: (usize, Kind, Mode), how: &str, at: &Stack) {
        let (address, kind, mode) = lock;
        let lock = name(address, kind);
        self.stack(&format!("{lock} {}{how} at", mode.verb()), at);
    }

    fn stack(&mut self, title: &str, stack: &Stack) {
        self.line(format_args!("  {title}"));
        let frames: Vec<Frame> = stack.frames().iter().flat_map(|at| resolve(*at)).collect();
        // The unwinder's, this crate's, the lock's; then the program's.
        let first = frames.iter().position(Frame::is_ours).unwrap_or(0);
        for frame in frames[first..].iter().skip_while(|frame| frame.is_ours()) {
            if frame.is_root() {
                break;
            }
            self.line(format_args!("    {}{}", frame.name, frame.place));
            if frame.name == "main" {
                break;
            }
        }
    }

    fn say(self) {
        let Self(text, lookup) = self;
        drop(lookup); // who reads it may have to be forked yet
        REPORTS.fetch_add(1, Relaxed); // a count
        let _ = write_stderr(text.as_bytes()); // or nobody listens
    }
}

/// A function that was called, or inlined where it was.
struct Frame {
    name: String,
    place: String,
}

impl Frame {
    /// Whether it stands between the program's call and this crate. What was inlined has no
    /// module in its name.
    fn is_ours(&self) -> bool {
        const NAMES: [&str; 8] = [
            "lockyard_order::",
            "lockyard_preload::",
            "lockyard::",
            "lock_api::",
            "pthread_",
            "gthread_",
            "mtx_",
            "cnd_",
        ];
        const PLACES: [&str; 5] = [
            "crates/order/src/",
            "crates/lockyard/src/",
            "crates/preload/src/",
            "/lock_api-",
            "/backtrace-",
        ];
        let name = self.name.trim_start_matches(['<', '_']);
        NAMES.iter().any(|part| name.starts_with(part))
            || PLACES.iter().any(|part| self.place.contains(part))
    }

    /// Whether it and its callers are of no interest.
    fn is_root(&self) -> bool {
        self.name.starts_with("__rust_begin_short_backtrace") || self.name == "start_thread"
    }
}

/// The functions at an address, the innermost first.
fn resolve(at: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    backtrace::resolve(ptr::without_provenance_mut::<c_void>(at), |symbol| {
        if let Some(name) = symbol.name() {
            let place = symbol.filename().zip(symbol.lineno());
            // A short one of C's may be what a type of C++ is mangled to: `f` is no `float`.
            let plain = name.as_str().filter(|name| !name.starts_with('_'));
            frames.push(Frame {
                name: plain.map_or_else(|| format!("{name:#}"), str::to_owned),
                place: place.map_or_else(String::new, |(file, line)| {
                    format!(" ({}:{line})", file.display())
                }),
            });
        }
    });
    if frames.is_empty() {
        frames.push(Frame {
            name: format!("{at:#x}"),
            place: String::new(),
        });
    }
    frames
}

/// Says a short line on standard error, though there be no memory.
pub fn say(line: &str) {
    use std::io::Write as _;

    const LONGEST: usize = 512;
    let mut text = [0; LONGEST];
    let mut rest = &mut text[..];
    let _ = writeln!(rest, "lockyard: {line}"); // as much as finds room
    let said = LONGEST - rest.len();
    let _ = write_stderr(&text[..said]); // or nobody listens
}

/// The reports of this process are those that it makes itself.
pub fn after_fork_in_child() {
    REPORTS.store(0, Relaxed); // a count
}
