//! Every ordering of crates/core that orders anything names its pair.

use super::{Finding, source::Source};

const CORE: &str = "crates/core/src/";

/// Checks a file of crates/core. Its platform.rs passes orderings on and
/// chooses none.
pub fn check(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with(CORE) || source.path == "crates/core/src/platform.rs" {
        return Vec::new();
    }
    source
        .find(&["Ordering"])
        .filter(|&at| !source.tokens[at].test)
        .filter_map(|at| {
            let message = shortened(source, at).or_else(|| unpaired(source, at))?;
            let line = source.tokens[at].at.line;
            Some(Finding::new(&source.path, line, message))
        })
        .collect()
}

/// An import that would hide an ordering from this check.
fn shortened(source: &Source, at: usize) -> Option<String> {
    let imported = source.tokens[..at]
        .iter()
        .rev()
        .find_map(|token| match token.text.as_str() {
            "use" => Some(true),
            ";" | "(" | ")" | "[" | "]" | "}" => Some(false),
            _ => None,
        })
        .unwrap_or(false);
    let short = source.has(at + 1, &[":", ":"]) || source.has(at + 1, &["as"]);
    (imported && short).then(|| {
        "an import that shortens an ordering: import `Ordering`, and name the ordering in full \
         where it is used"
            .to_owned()
    })
}

/// An ordering with no pair label beside it.
fn unpaired(source: &Source, at: usize) -> Option<String> {
    let ordering = ["Acquire", "Release", "AcqRel", "SeqCst"]
        .into_iter()
        .find(|ordering| source.has(at + 1, &[":", ":", ordering]))?;
    let labelled = has_label(&source.comments(source.tokens[at].at));
    (!labelled).then(|| {
        format!(
            "`{ordering}` names no pair: write its label, such as (A), on the line or directly \
             above the statement, and the same label at the other half"
        )
    })
}

/// Whether a text has a label: one capital letter and maybe digits, in
/// parentheses.
fn has_label(text: &str) -> bool {
    text.split('(').skip(1).any(|rest| {
        rest.split_once(')').is_some_and(|(label, _)| {
            label
                .strip_prefix(|c: char| c.is_ascii_uppercase())
                .is_some_and(|number| number.bytes().all(|c| c.is_ascii_digit()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> Vec<Finding> {
        let text = format!("fn f() {{\n{body}\n}}");
        check(&Source::parse("crates/core/src/osq.rs", &text).unwrap())
    }

    #[test]
    fn an_ordering_without_a_pair_is_found() {
        let one = found("w.load(Ordering::Acquire);");
        assert_eq!((one.len(), one[0].line), (1, 2));
        assert_eq!(
            found("// some reason\nw.swap(0, Ordering::AcqRel);").len(),
            1
        );
        assert_eq!(
            found("// (A)\na();\nw.store(0, Ordering::Release);").len(),
            1
        );
        assert_eq!(
            found("debug_assert!(w.load(Ordering::SeqCst) == 0);").len(),
            1
        );
        let both = "w.compare_exchange(\n0,\n1,\nOrdering::Acquire, // (A)\nOrdering::Acquire,\n);";
        assert_eq!(found(both).len(), 1);
    }

    #[test]
    fn an_ordering_with_its_pair_is_fine() {
        for body in [
            "w.load(Ordering::Acquire); // (A)",
            "// Pairs with (B2) in unlock.\nw.load(Ordering::Acquire);",
            "// (W1)\nlet x = w\n.load(Ordering::Acquire);",
            "// (A)\n// and more\nw.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);",
            "w.load(Ordering::Relaxed);",
        ] {
            assert!(found(body).is_empty(), "{body}");
        }
    }

    #[test]
    fn an_import_that_hides_orderings_is_found() {
        for import in [
            "use crate::platform::Ordering::Acquire;",
            "use crate::{Platform, Ordering::{Acquire, Release}};",
            "use core::cmp::Ordering as O;",
        ] {
            assert_eq!(found(import).len(), 1, "{import}");
        }
        assert!(found("use crate::{Ordering, Word};\na(); // (A)\n").is_empty());
    }

    #[test]
    fn tests_choose_freely() {
        assert!(found("#[cfg(test)]\nfn g() { w.load(Ordering::SeqCst); }").is_empty());
    }

    #[test]
    fn labels() {
        assert!(has_label("pairs with (A)") && has_label("(B2), see f()") && has_label("((C1)"));
        assert!(!has_label("(a)") && !has_label("(AB)") && !has_label("A1") && !has_label("()"));
    }
}
