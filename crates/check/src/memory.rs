//! The memory: a view machine for C11 without load buffering.
//!
//! Each word has its messages in modification order. Each thread has a view:
//! for each word the oldest message that it may still read. A load reads any
//! message its view admits; a store goes anywhere after its view in
//! modification order; a read-modify-write reads a message that no other one
//! has read and goes right behind it. A release puts the view into the message,
//! an acquire takes it out. This is promising semantics (Kang, Hur, Lahav,
//! Vafeiadis and Dreyer, POPL 2017) without promises: RC11 (Lahav, Vafeiadis,
//! Kang, Hur and Dreyer, PLDI 2017) with release sequences as in C++20.
//!
//! Approximated, on the side of more behaviours: a `SeqCst` access is only an
//! acquire, a release or both. On that of fewer: what comes before a `SeqCst` fence is known
//! behind each that is explored later, also where a third thread relays by relaxed accesses,
//! which RC11 does not order. Left out, as in RC11: load buffering.

mod pair;

use std::rc::Rc;

pub(crate) use std::sync::atomic::Ordering;

/// The most threads of a model, the one that sets it up included.
pub(crate) const THREADS: usize = 8;

/// A vector clock.
#[derive(Clone, Copy, Default)]
pub(crate) struct Clock([u32; THREADS]);

impl Clock {
    pub(crate) fn join(&mut self, other: &Clock) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = (*mine).max(theirs);
        }
    }

    /// Starts the thread's next epoch and returns it.
    pub(crate) fn tick(&mut self, thread: usize) -> u32 {
        self.0[thread] += 1;
        self.0[thread]
    }

    pub(crate) fn covers(&self, thread: usize, epoch: u32) -> bool {
        self.0[thread] >= epoch
    }

    /// A thread whose epoch in `self` is not in `other`.
    fn ahead_of(&self, other: &Clock) -> Option<usize> {
        (0..THREADS).find(|&thread| !other.covers(thread, self.0[thread]))
    }
}

/// What a thread knows: the message of each word that it may not go behind,
/// and what happened before.
#[derive(Clone, Default)]
struct View {
    seen: Vec<u16>,
    clock: Clock,
}

impl View {
    fn seen(&self, word: usize) -> u16 {
        self.seen.get(word).copied().unwrap_or(0)
    }

    fn see(&mut self, word: usize, message: u16) {
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        self.seen[word] = message;
    }

    fn join_seen(&mut self, other: &View, words: &[Word]) {
        for (word, &theirs) in other.seen.iter().enumerate() {
            let place = &words[word].place;
            if place[usize::from(theirs)] > place[usize::from(self.seen(word))] {
                self.see(word, theirs);
            }
        }
    }

    fn join(&mut self, other: &View, words: &[Word]) {
        self.join_seen(other, words);
        self.clock.join(&other.clock);
    }
}

/// What a step stores.
#[derive(Clone, Copy)]
pub(crate) struct Store {
    pub(crate) value: u32,
    pub(crate) order: Ordering,
    /// The step, if a thread of the model takes it.
    pub(crate) step: Option<usize>,
}

/// A value that was stored.
pub(crate) struct Message {
    pub(crate) value: u32,
    /// Counts the stores of the execution; 0 for the initial zero.
    pub(crate) serial: u32,
    /// The step that stored it, if a thread of the model did.
    pub(crate) step: Option<usize>,
    /// Whether it stands right behind the message that its writer read.
    chained: bool,
    view: Option<Rc<View>>,
}

/// A word of shared memory.
struct Word {
    address: usize,
    messages: Vec<Message>,
    /// The messages in modification order.
    order: Vec<u16>,
    /// The place of each message in that order.
    place: Vec<u16>,
    /// The last access of each thread.
    touched: Clock,
    freed: bool,
}

impl Word {
    /// The places from that of `message` on, the newest first.
    fn from(&self, message: u16) -> impl Iterator<Item = usize> {
        (usize::from(self.place[usize::from(message)])..self.order.len()).rev()
    }

    /// Whether a message may stand right behind this place.
    fn is_open(&self, place: usize) -> bool {
        self.order
            .get(place + 1)
            .is_none_or(|&next| !self.messages[usize::from(next)].chained)
    }

    fn insert_behind(&mut self, before: u16, message: Message) -> u16 {
        let id = u16::try_from(self.messages.len()).expect("fewer than 65536 stores to a word");
        let at = usize::from(self.place[usize::from(before)]) + 1;
        for &later in &self.order[at..] {
            self.place[usize::from(later)] += 1;
        }
        self.order.insert(at, id);
        self.place.push(at as u16);
        self.messages.push(message);
        id
    }
}

/// A cell that is not atomic: accesses that conflict must be ordered.
#[derive(Default)]
struct Cell {
    written: Clock,
    read: Clock,
}

#[derive(Default)]
struct Thread {
    now: View,
    /// What relaxed loads have seen, for an acquire fence.
    pending: View,
    /// What a release fence has published.
    fenced: Option<Rc<View>>,
}

/// The memory of one execution.
pub(crate) struct Memory {
    words: Vec<Word>,
    cells: Vec<Cell>,
    threads: Vec<Thread>,
    /// The seen messages of the `SeqCst` fences.
    fences: View,
    last_fence: u32,
    last_pair: u32,
    /// What every later test of a conditional store must see.
    quiesced: View,
    last_quiesce: u32,
    /// The conditional stores: what every later quiesce sees.
    conditional: View,
    last_conditional: u32,
    last_surrender: u32,
    serial: u32,
    freed: Vec<(usize, usize)>,
}

fn acquires(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst
    )
}

fn releases(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Release | Ordering::AcqRel | Ordering::SeqCst
    )
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            words: Vec::with_capacity(64),
            cells: Vec::new(),
            threads: (0..THREADS).map(|_| Thread::default()).collect(),
            fences: View::default(),
            last_fence: 0,
            last_pair: 0,
            quiesced: View::default(),
            last_quiesce: 0,
            conditional: View::default(),
            last_conditional: 0,
            last_surrender: 0,
            serial: 1,
            freed: Vec::new(),
        }
    }

    /// A new word, holding the zero that happens before everything.
    pub(crate) fn word(&mut self, address: usize) -> usize {
        self.words.push(Word {
            address,
            messages: vec![Message {
                value: 0,
                serial: 0,
                step: None,
                chained: false,
                view: None,
            }],
            order: vec![0],
            place: vec![0],
            touched: Clock::default(),
            freed: self
                .freed
                .iter()
                .any(|&(start, end)| (start..end).contains(&address)),
        });
        self.words.len() - 1
    }

    pub(crate) fn address(&self, word: usize) -> usize {
        self.words[word].address
    }

    pub(crate) fn message(&self, word: usize, id: u16) -> &Message {
        &self.words[word].messages[usize::from(id)]
    }

    /// The values that the word at this address has had, in modification order.
    pub(crate) fn history(&self, address: usize) -> impl Iterator<Item = u32> {
        self.words
            .iter()
            .filter(move |word| word.address == address)
            .flat_map(|word| {
                let value = |id: &u16| word.messages[usize::from(*id)].value;
                word.order.iter().map(value)
            })
    }

    /// The latest word there.
    pub(crate) fn word_at(&self, address: usize) -> Option<usize> {
        self.words.iter().rposition(|word| word.address == address)
    }

    /// How many stores to the word there were.
    pub(crate) fn stores(&self, word: usize) -> usize {
        self.words[word].messages.len() - 1
    }

    /// How many stores to the word came later in modification order.
    pub(crate) fn staleness(&self, word: usize, id: u16) -> usize {
        let word = &self.words[word];
        word.order.len() - 1 - usize::from(word.place[usize::from(id)])
    }

    /// The serial number of the next store.
    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// The serial number at the last `SeqCst` fence.
    pub(crate) fn last_fence(&self) -> u32 {
        self.last_fence
    }

    /// The serial number when two words were last replaced at once, or found to differ.
    pub(crate) fn last_pair(&self) -> u32 {
        self.last_pair
    }

    /// The serial number at the last quiesce.
    pub(crate) fn last_quiesce(&self) -> u32 {
        self.last_quiesce
    }

    /// The serial number at the last test of a conditional store.
    pub(crate) fn last_conditional(&self) -> u32 {
        self.last_conditional
    }

    /// The serial number when a spinner last gave up.
    pub(crate) fn last_surrender(&self) -> u32 {
        self.last_surrender
    }

    /// A spinner gives up, for nobody else can go on.
    pub(crate) fn give_up(&mut self) {
        self.last_surrender = self.serial;
        self.serial += 1;
    }

    /// Whether the word was written since that serial number.
    pub(crate) fn written_since(&self, word: usize, serial: u32) -> bool {
        self.words[word]
            .messages
            .last()
            .is_some_and(|last| last.serial >= serial)
    }

    /// The steps that have written the word.
    pub(crate) fn writers(&self, word: usize) -> impl Iterator<Item = usize> {
        self.words[word].messages.iter().filter_map(|m| m.step)
    }

    /// The messages that the thread may read, the newest first.
    pub(crate) fn readable(&self, thread: usize, word: usize) -> impl Iterator<Item = u16> {
        let seen = self.threads[thread].now.seen(word);
        let word = &self.words[word];
        word.from(seen).map(|place| word.order[place])
    }

    /// Those of them that are no older than what the last message of `lock` says.
    pub(crate) fn readable_under(
        &self,
        lock: usize,
        thread: usize,
        word: usize,
    ) -> impl Iterator<Item = u16> {
        let view = self.message(lock, self.newest(lock)).view.as_ref();
        let place = &self.words[word].place;
        let oldest = place[usize::from(view.map_or(0, |view| view.seen(word)))];
        self.readable(thread, word)
            .filter(move |&message| place[usize::from(message)] >= oldest)
    }

    /// The last message in modification order.
    pub(crate) fn newest(&self, word: usize) -> u16 {
        let order = &self.words[word].order;
        *order.last().expect("a word has a value")
    }

    /// Those of them that a test may read: what was there before a quiesce is
    /// seen after it.
    pub(crate) fn testable(&self, thread: usize, word: usize) -> impl Iterator<Item = u16> {
        let place = &self.words[word].place;
        let oldest = place[usize::from(self.quiesced.seen(word))];
        self.readable(thread, word)
            .filter(move |&message| place[usize::from(message)] >= oldest)
    }

    /// Those that no read-modify-write has read: where the thread's own store
    /// or read-modify-write may go.
    pub(crate) fn is_open(&self, word: usize, id: u16) -> bool {
        let word = &self.words[word];
        word.is_open(usize::from(word.place[usize::from(id)]))
    }

    /// The read-modify-write that read the message, if one of a thread did.
    pub(crate) fn taker(&self, word: usize, id: u16) -> Option<usize> {
        let word = &self.words[word];
        let next = word
            .order
            .get(usize::from(word.place[usize::from(id)]) + 1)?;
        let next = &word.messages[usize::from(*next)];
        next.step.filter(|_| next.chained)
    }

    /// Starts the thread where `parent` is.
    pub(crate) fn fork(&mut self, parent: usize, thread: usize) {
        self.threads[thread].now = self.threads[parent].now.clone();
    }

    /// Everything that the thread did happens before what `parent` does next.
    pub(crate) fn join(&mut self, parent: usize, thread: usize) {
        let theirs = self.threads[thread].now.clone();
        self.threads[parent].now.join(&theirs, &self.words);
    }

    pub(crate) fn touch(&mut self, thread: usize, word: usize) -> Result<(), String> {
        let epoch = self.threads[thread].now.clock.tick(thread);
        let word = &mut self.words[word];
        word.touched.0[thread] = epoch;
        if word.freed {
            return Err("the word was freed".into());
        }
        Ok(())
    }

    fn read(&mut self, thread: usize, word: usize, id: u16, order: Ordering) -> u32 {
        let message = &self.words[word].messages[usize::from(id)];
        let Thread { now, pending, .. } = &mut self.threads[thread];
        now.see(word, id);
        if let Some(view) = &message.view {
            let into = if acquires(order) { now } else { pending };
            into.join(view, &self.words);
        }
        message.value
    }

    fn write(&mut self, thread: usize, word: usize, store: Store, behind: u16, chained: bool) {
        let Store { value, order, step } = store;
        // A read-modify-write carries on the release sequence it extends.
        let chain = self.words[word].messages[usize::from(behind)]
            .view
            .clone()
            .filter(|_| chained);
        let me = &mut self.threads[thread];
        let own = if releases(order) {
            Some(Rc::new(me.now.clone()))
        } else {
            me.fenced.clone()
        };
        let view = match (own, chain) {
            (Some(own), Some(chain)) => {
                let mut both = View::clone(&own);
                both.join(&chain, &self.words);
                Some(Rc::new(both))
            }
            (own, chain) => own.or(chain),
        };
        let message = Message {
            value,
            serial: self.serial,
            step,
            chained,
            view,
        };
        self.serial += 1;
        let id = self.words[word].insert_behind(behind, message);
        me.now.see(word, id);
    }

    /// Reads message `id`.
    pub(crate) fn load(
        &mut self,
        thread: usize,
        word: usize,
        id: u16,
        order: Ordering,
    ) -> Result<u32, String> {
        self.touch(thread, word)?;
        Ok(self.read(thread, word, id, order))
    }

    /// Stores right behind message `id`.
    pub(crate) fn store(
        &mut self,
        thread: usize,
        word: usize,
        id: u16,
        store: Store,
    ) -> Result<(), String> {
        self.touch(thread, word)?;
        self.write(thread, word, store, id, false);
        Ok(())
    }

    /// Reads message `id` and stores right behind it.
    pub(crate) fn exchange(
        &mut self,
        thread: usize,
        word: usize,
        id: u16,
        store: Store,
    ) -> Result<u32, String> {
        self.touch(thread, word)?;
        let old = self.read(thread, word, id, store.order);
        self.write(thread, word, store, id, true);
        Ok(old)
    }

    pub(crate) fn fence(&mut self, thread: usize, order: Ordering) {
        let me = &mut self.threads[thread];
        me.now.clock.tick(thread);
        if acquires(order) {
            let pending = std::mem::take(&mut me.pending);
            me.now.join(&pending, &self.words);
        }
        if order == Ordering::SeqCst {
            // The fences are totally ordered, but do not synchronise.
            me.now.join_seen(&self.fences, &self.words);
            self.fences.join_seen(&me.now, &self.words);
            self.last_fence = self.serial;
            self.serial += 1;
        }
        if releases(order) {
            me.fenced = Some(Rc::new(me.now.clone()));
        }
    }

    /// The test of a conditional store or addition: reads message `id`.
    pub(crate) fn test(
        &mut self,
        thread: usize,
        word: usize,
        id: u16,
        order: Ordering,
    ) -> Result<u32, String> {
        self.last_conditional = self.serial;
        self.serial += 1;
        self.load(thread, word, id, order)
    }

    /// The store of one whose test succeeded, right behind message `id`.
    pub(crate) fn store_tested(
        &mut self,
        thread: usize,
        word: usize,
        id: u16,
        store: Store,
    ) -> Result<(), String> {
        self.store(thread, word, id, store)?;
        self.passed(thread, word);
        Ok(())
    }

    /// The addition of one whose test succeeded, right behind message `id`.
    pub(crate) fn add_tested(
        &mut self,
        thread: usize,
        word: usize,
        id: u16,
        store: Store,
    ) -> Result<(), String> {
        self.exchange(thread, word, id, store)?;
        self.passed(thread, word);
        Ok(())
    }

    /// Every later quiesce sees what the thread has stored.
    fn passed(&mut self, thread: usize, word: usize) {
        let mut stored = View::default();
        stored.see(word, self.threads[thread].now.seen(word));
        self.conditional.join_seen(&stored, &self.words);
    }

    /// Tests and conditional stores are before it, or after it and see what
    /// the thread has seen.
    pub(crate) fn quiesce(&mut self, thread: usize) {
        let now = &mut self.threads[thread].now;
        now.clock.tick(thread);
        now.join_seen(&self.conditional, &self.words);
        self.quiesced.join_seen(now, &self.words);
        self.last_quiesce = self.serial;
        self.serial += 1;
    }

    /// A new cell that is not atomic.
    pub(crate) fn cell(&mut self) -> usize {
        self.cells.push(Cell::default());
        self.cells.len() - 1
    }

    /// An access of a cell; an error names the thread it races with.
    pub(crate) fn access(&mut self, thread: usize, cell: usize, write: bool) -> Result<(), usize> {
        let clock = &mut self.threads[thread].now.clock;
        let epoch = clock.tick(thread);
        let cell = &mut self.cells[cell];
        let race = cell
            .written
            .ahead_of(clock)
            .or_else(|| cell.read.ahead_of(clock).filter(|_| write));
        let mine = if write {
            &mut cell.written
        } else {
            &mut cell.read
        };
        mine.0[thread] = epoch;
        race.map_or(Ok(()), Err)
    }

    /// Frees the memory between two addresses; an error names a word there and
    /// the thread whose access to it is not ordered before.
    pub(crate) fn free(
        &mut self,
        thread: usize,
        start: usize,
        end: usize,
    ) -> Result<(), (usize, usize)> {
        self.freed.push((start, end));
        let clock = self.threads[thread].now.clock;
        for (index, word) in self.words.iter_mut().enumerate() {
            if (start..end).contains(&word.address) {
                word.freed = true;
                if let Some(other) = word.touched.ahead_of(&clock) {
                    return Err((index, other));
                }
            }
        }
        Ok(())
    }
}
