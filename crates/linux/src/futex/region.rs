//! Shared memory in which words lie that processes wait for, and where it is mapped.

use std::{
    fmt::Arguments,
    fs::File,
    io::{Error, ErrorKind, Result},
    os::fd::AsFd,
    ptr::{self, NonNull},
    slice,
    sync::atomic::{
        AtomicPtr, AtomicU32, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        fence,
    },
};

use lockyard_core::futex::Shared;
use rustix::{
    fs::{
        FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate,
        memfd_create,
    },
    io::{Errno, retry_on_intr},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

use crate::Linux;

/// What a region begins with: all zeros before its first use, and any bytes are valid.
#[repr(C, align(64))]
pub(super) struct Control {
    /// [`FORMAT`], or 0.
    format: AtomicU32,
    pub(super) waiters: Shared<Linux, BUCKETS, SLOTS>,
}

/// With the format's line 16 KiB.
const BUCKETS: usize = 255;
/// With the crowd's number they fill a line.
const SLOTS: usize = 15;
const _: () = assert!(size_of::<Control>() == 64 * (BUCKETS + 1));

/// What these bytes mean: to be changed with [`Control`].
const FORMAT: u32 = u32::from_le_bytes(*b"lyf1");

/// A mapping of memory for whose words processes wait by the functions of this module: a
/// file, or memory that forked children share.
///
/// Its first [`Region::CONTROL`] bytes are lockyard's. Zeros are a region that nobody
/// waits in: it need not be initialised. Any number of processes map it, each as often
/// as it likes.
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    place: &'static Place,
    is_ours: bool,
}

// SAFETY: it is atomics in memory that is mapped for all threads.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// So many bytes at the beginning are not its user's.
    pub const CONTROL: usize = size_of::<Control>();

    /// Makes an anonymous file for a region of so many words, to be mapped by
    /// [`Region::open`] here and where else it is sent to. It is sealed: nobody can make
    /// it shorter or longer.
    ///
    /// # Errors
    /// There is no such memory, or are no words.
    pub fn file(words: usize) -> Result<File> {
        if words == 0 {
            return Err(too_short(Self::CONTROL as u64));
        }
        let bytes = words.checked_mul(4);
        let bytes = bytes.and_then(|bytes| bytes.checked_add(Self::CONTROL));
        let bytes = bytes.ok_or_else(|| refused(format_args!("{words} words are too many")))?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("lockyard", flags)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(file.into())
    }

    /// Maps a file, which begins with zeros or is a region already. First all of its memory is
    /// reserved: a word for which a full file system has none would be the process's end.
    ///
    /// Whoever makes the file shorter while it is mapped kills those who use words behind
    /// its end (`SIGBUS`): that of [`Region::file`] cannot be made shorter.
    ///
    /// # Errors
    /// It is too short, is something else, cannot be mapped for writing, or the file system is
    /// full; or the process has too many regions.
    pub fn open(file: impl AsFd) -> Result<Self> {
        let size = fstat(&file)?.st_size;
        let len = usize::try_from(size).ok().filter(|&len| len >= LEAST);
        let len = len.ok_or_else(|| too_short(size as u64))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other
        // memory.
        let start = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, &file, 0) }?;
        let start = NonNull::new(start.cast()).expect("nothing is mapped at 0");
        // SAFETY: it was mapped above, page by page and so aligned; only `drop` unmaps it,
        // and all that uses a word of it borrows the region.
        let region = reserve(&file, len).and_then(|()| unsafe { Self::new(start, len, true) });
        if region.is_err() {
            unmap(start, len);
        }
        region
    }

    /// Makes a region of what the caller has mapped as shared.
    ///
    /// Who uses a word by a region is found by those alone who use it by one that begins with
    /// the same byte: regions that overlap otherwise have two control parts for a word.
    ///
    /// # Errors
    /// It is too short, is something else than zeros or a region, or overlaps a region of the
    /// process that begins elsewhere; or the process has too many regions.
    ///
    /// # Safety
    /// - From `start`, which is aligned to 64, `len` bytes are mapped as shared, for reading
    ///   and writing, until the region is dropped; they are used as atomics only.
    /// - When it is dropped nobody is inside a wait or a wake for a word in it.
    pub unsafe fn from_mapping(start: NonNull<u8>, len: usize) -> Result<Self> {
        // SAFETY: as the caller says.
        unsafe { Self::new(start, len, false) }
    }

    /// # Safety
    /// As for [`Region::from_mapping`].
    unsafe fn new(start: NonNull<u8>, len: usize, is_ours: bool) -> Result<Self> {
        if len < LEAST {
            return Err(too_short(len as u64));
        }
        // SAFETY: there is a control part, as large as was tested, mapped and aligned as
        // the caller says; it is made of atomics, for which any bytes are valid.
        let control: &Control = unsafe { start.cast().as_ref() };
        // First: in a part of another region the format would overwrite a word.
        let place = Place::take(start.as_ptr(), len)?;
        let format = control.format.compare_exchange(0, FORMAT, Relaxed, Relaxed);
        if let Err(other) = format
            && other != FORMAT
        {
            place.leave();
            return Err(refused(format_args!(
                "it begins with {other:#010x}, neither zeros nor a region of this version"
            )));
        }
        Ok(Self {
            start,
            len,
            place,
            is_ours,
        })
    }

    /// The words of the region: at the same index the same one, wherever it is mapped.
    pub fn words(&self) -> &[AtomicU32] {
        let count = (self.len - Self::CONTROL) / 4;
        // SAFETY: behind the control part there are so many words, mapped and aligned as
        // `new` was promised; any bytes are valid atomics; it stays mapped while `self` is
        // borrowed.
        unsafe { slice::from_raw_parts(self.start.add(Self::CONTROL).cast().as_ptr(), count) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.place.leave();
        if self.is_ours {
            unmap(self.start, self.len);
        }
    }
}

/// Gives so many bytes of the file memory, where its file system can do that beforehand.
fn reserve(file: &impl AsFd, len: usize) -> Result<()> {
    let flags = FallocateFlags::KEEP_SIZE;
    match retry_on_intr(|| fallocate(file, flags, 0, len as u64)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        reserved => Ok(reserved?),
    }
}

/// Unmaps what [`Region::open`] has mapped.
fn unmap(start: NonNull<u8>, len: usize) {
    // SAFETY: it was mapped there, whole; and nobody uses it, for who does borrows the
    // region, which is being dropped or has not been made.
    let unmapped = unsafe { munmap(start.as_ptr().cast(), len) };
    unmapped.expect("a mapping can be unmapped");
}

/// The length of a region of one word.
const LEAST: usize = Region::CONTROL + 4;

fn too_short(len: u64) -> Error {
    refused(format_args!("{len} bytes: a region has {LEAST} at least"))
}

fn refused(why: Arguments<'_>) -> Error {
    Error::new(ErrorKind::InvalidInput, why.to_string())
}

/// How many regions a process has at most.
const REGIONS: usize = 64;

static PLACES: [Place; REGIONS] = [const { Place::new() }; REGIONS];
/// Those from here on have never been taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Where a region is mapped. One of no length is free.
///
/// Who looks for a word has it by reference, so that the place of its region was taken
/// before and is not left meanwhile. Others may be, and a look-up may see half of that: it
/// must not take them for the word's, and need not wait for them.
///
/// | who takes or leaves it | who looks for a word |
/// |---|---|
/// | version := odd | read the version (V2) |
/// | barrier (V1) | read start and length: is the word inside? |
/// | write start and length | barrier (V1) |
/// | full barrier (V3); does another overlap? then write none | read the version: odd, or another one? then it is not the word's |
/// | version := even (V2) | |
///
/// Of two that take overlapping ones at once, one sees the other's (V3): one at least is refused.
struct Place {
    version: AtomicU32,
    start: AtomicPtr<u8>,
    len: AtomicUsize,
}

impl Place {
    const fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            start: AtomicPtr::new(ptr::null_mut()),
            len: AtomicUsize::new(0),
        }
    }

    fn take(start: *mut u8, len: usize) -> Result<&'static Self> {
        let index = PLACES.iter().position(Self::try_begin);
        let index = index.ok_or_else(|| {
            let most = format!("the process has {REGIONS} regions, and can have no more");
            Error::new(ErrorKind::OutOfMemory, most)
        })?;
        TAKEN.fetch_max(index + 1, Relaxed); // who has a word of it comes after this
        let place = &PLACES[index];
        place.write(start, len);
        fence(SeqCst); // (V3) pairs with itself
        let mut others = PLACES[..TAKEN.load(Relaxed)].iter(); // ordered by the barrier
        let overlaps = others.any(|other| other.overlaps(start.addr(), len));
        if overlaps {
            place.write(ptr::null_mut(), 0);
        }
        place.end();
        if overlaps {
            return Err(refused(format_args!(
                "it overlaps a region of the process that begins elsewhere"
            )));
        }
        Ok(place)
    }

    /// Makes the version odd, if the place is free.
    fn try_begin(&self) -> bool {
        let version = self.version.load(Acquire); // (V2) pairs with `end`'s Release
        if !version.is_multiple_of(2) || self.len.load(Relaxed) != 0 {
            return false;
        }
        let odd = version.wrapping_add(1);
        // (V2) Acquire pairs with `end`'s Release: it is still free.
        let begun = (self.version).compare_exchange(version, odd, Acquire, Relaxed);
        begun.is_ok()
    }

    fn leave(&self) {
        self.version.fetch_add(1, Relaxed); // ordered by `write`
        self.write(ptr::null_mut(), 0);
        self.end();
    }

    /// The caller has made the version odd.
    fn write(&self, start: *mut u8, len: usize) {
        fence(Release); // (V1) pairs with the Acquire of who reads it
        self.start.store(start, Relaxed); // ordered by the version
        self.len.store(len, Relaxed); // likewise
    }

    fn end(&self) {
        self.version.fetch_add(1, Release); // (V2) pairs with `holding` and `try_begin`
    }

    /// Whether another region is here, or is about to be, that has bytes in common with this
    /// one and begins elsewhere.
    fn overlaps(&self, start: usize, len: usize) -> bool {
        let (other, other_len) = loop {
            let version = self.version.load(Acquire); // (V2) pairs with `end`'s Release
            let other = self.start.load(Relaxed).addr(); // ordered by the version
            let other_len = self.len.load(Relaxed); // likewise
            fence(Acquire); // (V1) pairs with `write`'s Release
            if self.version.load(Relaxed) == version {
                break (other, other_len);
            }
        };
        other != 0 && other != start && other < start + len && start < other + other_len
    }

    /// Where the region begins, if the address lies in it.
    #[inline]
    fn holding(&self, address: usize) -> Option<*mut u8> {
        let version = self.version.load(Acquire); // (V2) pairs with `end`'s Release
        let start = self.start.load(Relaxed); // ordered by the version
        let len = self.len.load(Relaxed); // likewise
        if address.wrapping_sub(start.addr()) >= len {
            return None;
        }
        fence(Acquire); // (V1) pairs with `write`'s Release
        let is_whole = version.is_multiple_of(2) && self.version.load(Relaxed) == version;
        is_whole.then_some(start)
    }
}

/// The control part of the word's region, and how many bytes behind it the word lies.
#[inline]
pub(super) fn find(word: &AtomicU32) -> Option<(&Control, u64)> {
    let address = ptr::from_ref(word).addr();
    let places = &PLACES[..TAKEN.load(Relaxed)]; // the word's region came before
    let start = places.iter().find_map(|place| place.holding(address))?;
    let offset = (address - start.addr()) as u64;
    // SAFETY: the word lies in a region, which begins with a control part. That is mapped,
    // as `Region::new` was promised, for as long as the word is borrowed: the word is
    // either borrowed from the region, or is of who promised that nobody waits or wakes
    // when that is dropped.
    Some((unsafe { &*start.cast() }, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_changes_holds_nothing() {
        let place = Place::new();
        let start = ptr::without_provenance_mut(64);
        assert_eq!(place.holding(64), None);
        assert!(place.try_begin());
        place.write(start, 8);
        assert_eq!(place.holding(64), None); // somebody is at it
        place.end();
        assert!(!place.try_begin());
        assert_eq!(place.holding(63), None);
        assert_eq!(place.holding(71), Some(start));
        assert_eq!(place.holding(72), None);
        assert!(place.overlaps(60, 8) && place.overlaps(68, 8));
        assert!(!place.overlaps(64, 4) && !place.overlaps(56, 8) && !place.overlaps(72, 8));
        place.leave();
        assert_eq!(place.holding(64), None);
        assert!(!place.overlaps(60, 8));
        assert!(place.try_begin());
    }
}
