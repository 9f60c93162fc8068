//! How locks are wanted and held, and who keeps whom waiting.

/// How a thread wants or holds a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mode {
    /// Alone: a mutex, or the writer of a reader-writer lock.
    Exclusive,
    /// As the one reader that may become the writer.
    Upgradable,
    /// As a reader that waits behind writers that wait.
    Shared,
    /// As a reader that passes writers that wait, and may so read again.
    SharedRecursive,
    /// As one that waits behind writers that wait, and that another thread may release: who
    /// took it may not have it any more.
    SharedPassable,
    /// As the writer, by the upgradable reader, who stays that while it waits.
    Upgrade,
}

impl Mode {
    const ALL: [Self; 6] = [
        Self::Exclusive,
        Self::Upgradable,
        Self::Shared,
        Self::SharedRecursive,
        Self::SharedPassable,
        Self::Upgrade,
    ];

    pub(crate) fn from_u8(mode: u8) -> Self {
        Self::ALL[usize::from(mode)]
    }

    pub(crate) fn is_shared(self) -> bool {
        matches!(
            self,
            Self::Shared | Self::SharedRecursive | Self::SharedPassable
        )
    }

    /// Whether who wants a lock in this mode may wait for one that holds it in mode `held`.
    ///
    /// A reader waits for readers when a writer came in between, whom it does not pass: so
    /// a cycle of readers only is none where they pass waiting writers.
    pub(crate) fn waits_for(self, held: Self) -> bool {
        self != Self::SharedRecursive || held == Self::Exclusive
    }

    /// Whether it waits only if a writer does, whom it does not pass.
    pub(crate) fn waits_behind_writers_for(self, held: Self) -> bool {
        match self {
            Self::Shared | Self::SharedPassable => held != Self::Exclusive,
            Self::Upgradable => held.is_shared(),
            _ => false,
        }
    }

    /// Whether two threads cannot hold a lock in these modes at a time.
    pub(crate) fn excludes(self, other: Self) -> bool {
        self == Self::Exclusive
            || other == Self::Exclusive
            || self == Self::Upgradable && other == Self::Upgradable
    }

    /// As a report says it.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Exclusive => "",
            Self::Upgradable => "upgradable, ",
            Self::Shared | Self::SharedRecursive | Self::SharedPassable => "for reading, ",
            Self::Upgrade => "to upgrade, ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{self, *};

    #[test]
    fn a_mode_survives_its_byte() {
        for mode in Mode::ALL {
            assert_eq!(Mode::from_u8(mode as u8), mode);
        }
    }

    #[test]
    fn readers_that_pass_writers_wait_for_writers_only() {
        assert!(SharedRecursive.waits_for(Exclusive));
        for held in [Upgradable, Shared, SharedRecursive, SharedPassable] {
            assert!(!SharedRecursive.waits_for(held));
            assert!(Shared.waits_for(held) && Exclusive.waits_for(held));
            assert!(SharedPassable.waits_for(held));
        }
    }

    #[test]
    fn readers_do_not_guard() {
        assert!(!Shared.excludes(SharedRecursive) && !Shared.excludes(Upgradable));
        assert!(Upgradable.excludes(Upgradable) && Shared.excludes(Exclusive));
    }
}
