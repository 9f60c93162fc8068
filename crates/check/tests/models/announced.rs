//! Models of guarded stores without restartable sequences.

use std::rc::Rc;

use lockyard_check::{Check, CheckWord, Explorer, Tracked, afterwards, history, name, spawn};
use lockyard_core::{
    Look,
    Ordering::*,
    Platform, Word,
    announced::{Announcement, Way, Ways},
};

use crate::explore;

/// What the guard holds while stores may be made.
const OPEN: u32 = 1;
const SHUT: u32 = 2;

/// A place that tasks store to as long as a guard is open, and whoever shuts it has afterwards.
struct Place {
    ways: Ways<Check>,
    announcements: [Announcement<Check>; 2],
    /// How many of these have a task.
    come: CheckWord,
    guard: CheckWord,
    /// Stored to by the first task alone, and by who has shut the guard.
    data: Tracked<u32>,
    /// Stored to by all.
    word: CheckWord,
}

impl Place {
    fn new() -> Rc<Self> {
        let place = Rc::new(Self {
            ways: Ways::new(),
            announcements: [const { Announcement::new() }; 2],
            come: CheckWord::ZERO,
            guard: CheckWord::ZERO,
            data: Tracked::new(0),
            word: CheckWord::ZERO,
        });
        name(&place.ways, "ways");
        name(&place.announcements, "announcements");
        name(&place.come, "come");
        name(&place.guard, "guard");
        name(&place.word, "word");
        place
    }

    /// Nobody stores from then on.
    fn shut(&self) {
        self.guard.store(SHUT, Relaxed); // ordered by what follows
        let unchanged = |count: &CheckWord, seen| {
            let changes = |now| now != seen;
            Check::spin_until(count, Relaxed, Look::Poll, u32::MAX, changes, || false);
        };
        let announcements = || {
            let come = self.come.load(Relaxed); // behind the barrier
            &self.announcements[..come as usize]
        };
        (self.ways).quiesce(<Check as Platform>::quiesce, announcements, unchanged);
    }

    /// A task comes, which goes this way.
    fn come(&self, way: Way) -> &Announcement<Check> {
        let task = self.come.fetch_add(1, Relaxed); // before the barrier
        self.ways.go(way);
        &self.announcements[task as usize]
    }

    /// Adds 1 to the data, by announcing it.
    fn add(&self, announcement: &Announcement<Check>) {
        let store = || self.data.set(self.data.get() + 1);
        announcement.store_if(&self.guard, OPEN, store);
    }

    /// A task comes, and stores 1 to the word.
    fn mark(&self, way: Way) {
        let announcement = self.come(way);
        match way {
            Way::Restarting => {
                Check::store_if(&self.word, 1, &self.guard, OPEN);
            }
            Way::Announcing => {
                let store = || self.word.store(1, Release);
                announcement.store_if(&self.guard, OPEN, store);
            }
        }
    }
}

/// Who has shut the guard has the data, with all that was stored.
#[test]
fn a_store_is_seen_or_not_made() {
    explore("announced", &Explorer::new(), &[], || {
        let place = Place::new();
        place.guard.store(OPEN, Relaxed);
        let (adds, shuts) = (Rc::clone(&place), Rc::clone(&place));
        spawn(move || {
            let announcement = adds.come(Way::Announcing);
            adds.add(announcement);
            adds.add(announcement);
        });
        spawn(move || {
            shuts.shut();
            shuts.data.set(shuts.data.get() + 10);
        });
        afterwards(move || {
            let stores = place.data.get();
            assert!((10..=12).contains(&stores), "{stores}");
        });
    });
}

/// Whoever opens the guard has had the data before.
#[test]
fn who_finds_the_guard_open_comes_after_who_opened_it() {
    explore("announced, opened", &Explorer::new(), &[], || {
        let place = Place::new();
        let (opens, adds) = (Rc::clone(&place), Rc::clone(&place));
        spawn(move || {
            opens.data.set(10);
            opens.guard.store(OPEN, Release);
        });
        spawn(move || adds.add(adds.come(Way::Announcing)));
        afterwards(move || {
            let stores = place.data.get();
            assert!(stores == 10 || stores == 11, "{stores}");
        });
    });
}

/// Tasks say which way they go as they come, while another shuts the guard: after that no
/// store is made.
fn ways(name: &'static str, ways: [Way; 2]) {
    explore(name, &Explorer::new().whims(1), &[], move || {
        let place = Place::new();
        place.guard.store(OPEN, Relaxed);
        for way in ways {
            let place = Rc::clone(&place);
            spawn(move || place.mark(way));
        }
        let shuts = Rc::clone(&place);
        spawn(move || {
            shuts.shut();
            shuts.word.store(2, Relaxed);
        });
        afterwards(move || assert_eq!(history(&place.word, 0).last(), Some(&2)));
    });
}

#[test]
fn two_that_announce_come_late() {
    ways("announced, late", [Way::Announcing, Way::Announcing]);
}

#[test]
fn one_restarts_and_one_announces() {
    ways("announced, beside", [Way::Restarting, Way::Announcing]);
}
