//! Every ordering of crates/core that orders anything names its pair.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, source::Source};

const CORE: &str = "crates/core/src/";

const PLATFORM: &str = "crates/core/src/platform.rs";

/// The modules that the mutex and its kin are made of: one's half may stand in another.
const MUTEX: [&str; 3] = ["mutex", "pimutex", "wait_queue"];

const ORDERINGS: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// Checks a file of crates/core. Its platform.rs passes orderings on and
/// chooses none.
pub fn check(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with(CORE) {
        return Vec::new();
    }
    let mut findings = renamed(source);
    if source.path != PLATFORM {
        findings.extend(unlabelled(source));
    }
    findings
}

/// Orderings under another name, by which no check would know them.
fn renamed(source: &Source) -> Vec<Finding> {
    let is_renamed = |at: usize| {
        let name = source.tokens[at].text.as_str();
        let is_ordering = name == "Ordering" || ORDERINGS.contains(&name) || name == "Relaxed";
        let by_import = source.has(at + 1, &["as"]) && source.in_use(at);
        let by_type = name == "Ordering" && source.has(at + 1, &[";"]) && in_alias(source, at);
        is_ordering && (by_import || by_type)
    };
    (0..source.tokens.len())
        .filter(|&at| !source.tokens[at].test && is_renamed(at))
        .map(|at| {
            let token = &source.tokens[at];
            let message = format!("`{}` by another name: use its own", token.text);
            Finding::new(&source.path, token.at.line, message)
        })
        .collect()
}

/// Whether the path that ends at a token is all that a `type` stands for.
fn in_alias(source: &Source, at: usize) -> bool {
    let words = source.tokens[..at].iter().rev().map(|token| &*token.text);
    let mut words = words.skip_while(|text| *text == ":" || text.starts_with(char::is_alphabetic));
    words.next() == Some("=") && words.nth(1) == Some("type")
}

/// Labels that stand on a single line of all that share labels: without another half.
pub fn halves(sources: &[Source]) -> Vec<Finding> {
    let core = || {
        sources
            .iter()
            .filter(|source| source.path.starts_with(CORE))
    };
    let mut lines = BTreeMap::<_, usize>::new();
    for source in core() {
        for line in source.comment_lines() {
            let words: BTreeSet<&str> = line.split(|c: char| !c.is_alphanumeric()).collect();
            for word in words {
                *lines.entry((family(source), word)).or_default() += 1;
            }
        }
    }
    let mut findings = Vec::new();
    for source in core().filter(|source| source.path != PLATFORM) {
        for at in sites(source).map(|at| source.tokens[at].at) {
            for label in labels(&source.comments(at)).collect::<BTreeSet<_>>() {
                if lines[&(family(source), label)] < 2 {
                    let message = format!(
                        "({label}) has no other half: name it where the lock has that, too"
                    );
                    findings.push(Finding::new(&source.path, at.line, message));
                }
            }
        }
    }
    findings
}

/// Whose labels a file shares: its module's, or those of the mutex.
fn family(source: &Source) -> &str {
    let name = source.path.strip_prefix(CORE).unwrap_or_default();
    let module = name.split(['/', '.']).next().unwrap_or_default();
    match module {
        _ if MUTEX.contains(&module) => MUTEX[0],
        _ => module,
    }
}

fn unlabelled(source: &Source) -> Vec<Finding> {
    sites(source)
        .map(|at| &source.tokens[at])
        .filter(|token| labels(&source.comments(token.at)).next().is_none())
        .map(|token| {
            let message = format!(
                "`{}` names no pair: write its label, such as (A), on the line or directly above \
                 the statement, and the same label at the other half",
                token.text
            );
            Finding::new(&source.path, token.at.line, message)
        })
        .collect()
}

/// The tokens that are orderings which order, but for those of tests.
pub fn sites(source: &Source) -> impl Iterator<Item = usize> {
    (0..source.tokens.len())
        .filter(|&at| !source.tokens[at].test && is_ordering(source, at) && !source.in_use(at))
}

/// Whether the token is an ordering that orders, by its full name or alone.
fn is_ordering(source: &Source, at: usize) -> bool {
    let alone = ![":", "."].contains(&source.before(at));
    let in_full = at >= 3 && source.has(at - 3, &["Ordering", ":", ":"]);
    ORDERINGS.contains(&source.tokens[at].text.as_str()) && (alone || in_full)
}

/// The labels in a text: a capital letter and maybe digits, in parentheses.
pub fn labels(text: &str) -> impl Iterator<Item = &str> {
    text.split('(').skip(1).filter_map(|rest| {
        let (label, _) = rest.split_once(')')?;
        let number = label.strip_prefix(|c: char| c.is_ascii_uppercase())?;
        number.bytes().all(|c| c.is_ascii_digit()).then_some(label)
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
    fn a_short_name_counts_and_its_import_does_not() {
        assert_eq!(
            found("use crate::Ordering::{Acquire, Relaxed};\nw.load(Acquire);").len(),
            1
        );
        assert!(
            found("use crate::Ordering::{Acquire, Relaxed};\nw.load(Acquire); // (A)").is_empty()
        );
        assert_eq!(
            found("fn g() -> impl T + use<> { w.load(Acquire) }").len(),
            1
        );
        assert!(found("see(Event::Release);\nguard.Release();").is_empty());
    }

    #[test]
    fn a_label_without_another_half_is_found() {
        let source = |file: &str, text: &str| {
            Source::parse(&format!("crates/core/src/{file}"), text).unwrap()
        };
        let half = |file| source(file, "fn f() {\nw.load(Acquire); // (Z9), of Z99\n}");
        let other = |file| source(file, "//! | set (Z9) | see |");
        assert_eq!(halves(&[half("osq.rs"), other("gate.rs")])[0].line, 2);
        assert_eq!(halves(&[half("osq.rs")]).len(), 1);
        assert!(halves(&[half("osq.rs"), other("osq/wait.rs")]).is_empty());
        assert!(halves(&[half("mutex/wait.rs"), other("wait_queue.rs")]).is_empty());
    }

    #[test]
    fn another_name_is_found() {
        for rename in [
            "use crate::platform::Ordering as O;",
            "use crate::{Ordering::{Acquire as A, Relaxed}, Word};",
            "type O = crate::Ordering;",
        ] {
            assert_eq!(found(rename).len(), 1, "{rename}");
        }
        let in_platform = Source::parse(PLATFORM, "pub use x::Ordering as O;").unwrap();
        assert_eq!(check(&in_platform).len(), 1);
        for fine in [
            "use x::Word as Ordering;",
            "let x: Ordering;",
            "#[cfg(test)] use x::Acquire as A;",
        ] {
            assert!(found(fine).is_empty(), "{fine}");
        }
    }

    #[test]
    fn tests_choose_freely() {
        assert!(found("#[cfg(test)]\nfn g() { w.load(Ordering::SeqCst); }").is_empty());
    }

    #[test]
    fn a_label_is_a_capital_and_digits() {
        let found = |text| labels(text).collect::<Vec<_>>();
        assert_eq!(found("pairs with (A), then (B2), see f()"), ["A", "B2"]);
        assert_eq!(found("((C1)"), ["C1"]);
        assert!(found("(a) (AB) A1 ()").is_empty());
    }
}
