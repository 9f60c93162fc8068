//! The rare paths that our locks took, counted while a run lasts.

use lockyard_core::Event;
use lockyard_linux::events;
use lockyard_sim::Stats;
use serde::{Serialize, Serializer};

/// How often each event happened, in the order of the locks' own list.
#[derive(Clone, Debug)]
pub struct Events(Vec<(String, u64)>);

impl Events {
    /// Runs `work` and counts the events in it, if they are `wanted`: counting
    /// costs a little on every rare path.
    pub fn during<T>(wanted: bool, work: impl FnOnce() -> T) -> (T, Option<Self>) {
        if !wanted {
            return (work(), None);
        }
        // What happened before is not this run's.
        events::take().for_each(drop);
        events::enable(true);
        let result = work();
        events::enable(false);
        let counts = events::take();
        let named = counts.map(|(event, n)| (format!("{event:?}"), n));
        (result, Some(Self(named.collect())))
    }

    /// The events of a simulation.
    pub fn of(stats: &Stats) -> Self {
        let counts = Event::ALL.into_iter().zip(stats.events);
        let named = counts.map(|(event, n)| (format!("{event:?}"), n));
        Self(named.collect())
    }

    /// How often this one happened.
    pub fn of_kind(&self, event: Event) -> u64 {
        let name = format!("{event:?}");
        let mut all = self.0.iter();
        all.find(|(named, _)| *named == name).map_or(0, |(_, n)| *n)
    }

    /// The events that happened and how often.
    pub fn happened(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.0.iter().map(|(name, n)| (name.as_str(), *n));
        all.filter(|(_, n)| *n > 0)
    }
}

impl Serialize for Events {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, n)| (name, n)))
    }
}
