//! Every file of crates/core with an ordering, a quiescence or a fence is one that
//! `cargo xtask weaken` knows.

use super::{Finding, source::Source};
use crate::weaken::{is_listed, sites};

const CORE: &str = "crates/core/src/";

/// Checks a file of crates/core.
pub fn check(source: &Source) -> Option<Finding> {
    let file = source.path.strip_prefix(CORE)?;
    let line = sites::first(source).filter(|_| !is_listed(file))?;
    let message = "nobody weakens this: list the file with its lock in xtask/src/weaken.rs";
    Some(Finding::new(&source.path, line, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, body: &str) -> Option<usize> {
        let text = format!("fn f() {{\n{body}\n}}");
        check(&Source::parse(path, &text).unwrap()).map(|finding| finding.line)
    }

    #[test]
    fn a_file_that_nobody_weakens_is_found() {
        let new = "crates/core/src/osq/new.rs";
        assert_eq!(found(new, "w.load(Acquire); // (A)"), Some(2));
        assert_eq!(
            found(new, "w.load(Relaxed);\nP::quiesce(); // (A)"),
            Some(3)
        );
        assert_eq!(found(new, "P::fence();"), Some(2));
    }

    #[test]
    fn one_that_is_listed_or_orders_nothing_is_fine() {
        assert_eq!(found("crates/core/src/osq.rs", "w.load(Acquire);"), None);
        assert_eq!(found("crates/core/src/new.rs", "w.load(Relaxed);"), None);
        assert_eq!(found("crates/sim/src/new.rs", "w.load(Acquire);"), None);
    }
}
