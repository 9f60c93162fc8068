//! The places of a lock that can be weakened: orderings that order,
//! quiescences and fences.

use std::ops::Range;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::{
    tidy::{orderings, source::Source},
    variants::Code,
};

/// One weakening, by what stays when lines move.
#[derive(Clone, PartialEq, Eq, Deserialize, Debug)]
pub struct Site {
    /// The file, from crates/core/src.
    pub file: String,
    /// The innermost function.
    pub function: String,
    /// The labels of its comment, as `M2 Q1`.
    pub label: String,
    /// What was there and what is there instead, as `AcqRel -> Acquire`.
    pub change: String,
}

/// A weakening and where it stands in the text.
pub struct Weakening {
    /// Which.
    pub site: Site,
    /// Its line.
    pub line: usize,
    /// What to replace.
    pub range: Range<usize>,
    /// By what.
    pub with: &'static str,
}

const CALLS: [[&str; 6]; 2] = [
    ["P", ":", ":", "quiesce", "(", ")"],
    ["P", ":", ":", "fence", "(", ")"],
];

fn calls(source: &Source) -> impl Iterator<Item = usize> {
    CALLS.iter().flat_map(|call| source.find(call))
}

/// The first line of a file at which something can be weakened.
pub fn first(source: &Source) -> Option<usize> {
    let sites = orderings::sites(source).chain(calls(source));
    sites.map(|at| source.tokens[at].at.line).min()
}

/// All weakenings of a file.
///
/// # Errors
/// A site outside a function, or two that cannot be told apart.
pub fn find(file: &str, text: &str) -> anyhow::Result<Vec<Weakening>> {
    let code = Code::parse(file, text)?;
    let mut found: Vec<Weakening> = Vec::new();
    let orderings = orderings::sites(&code.source).map(|at| (at, at, weaker(&code, at)));
    let calls = calls(&code.source).map(|at| (at, at + CALLS[0].len() - 1, vec!["()"]));
    for (first, last, weaker) in orderings.chain(calls) {
        let at = code.source.tokens[first].at;
        let range = code.range(first, last);
        let function = code.function(range.start);
        let comments = code.source.comments(at);
        let mut labels: Vec<&str> = orderings::labels(&comments).collect();
        labels.sort_unstable();
        labels.dedup();
        for with in weaker {
            let from = &code.text[range.clone()];
            let to = if with == "()" { "nothing" } else { with };
            let site = Site {
                file: file.to_owned(),
                function: function
                    .with_context(|| format!("{file}:{}: outside a function", at.line))?
                    .to_owned(),
                label: labels.join(" "),
                change: format!("{from} -> {to}"),
            };
            ensure!(
                found.iter().all(|known| known.site != site),
                "{file}:{}: a second ({}) {} in {}: give it another label",
                at.line,
                site.label,
                site.change,
                site.function
            );
            found.push(Weakening {
                site,
                line: at.line,
                range: range.clone(),
                with,
            });
        }
    }
    found.sort_by_key(|weakening| weakening.range.start);
    Ok(found)
}

/// The orderings next below the one at a token.
fn weaker(code: &Code, at: usize) -> Vec<&'static str> {
    match code.source.tokens[at].text.as_str() {
        "AcqRel" => vec!["Acquire", "Release"],
        "SeqCst" => match method(code, at) {
            Some("load") => vec!["Acquire"],
            Some("store") => vec!["Release"],
            _ => vec!["AcqRel"],
        },
        _ => vec!["Relaxed"],
    }
}

/// The method that a token is an argument of.
fn method(code: &Code, at: usize) -> Option<&str> {
    let mut depth = 0;
    let open = (0..at).rev().find(|&before| {
        match code.source.tokens[before].text.as_str() {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" => depth -= 1,
            _ => {}
        }
        depth < 0
    })?;
    Some(code.source.before(open))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(body: &str) -> Vec<String> {
        let text = format!("use x::{{Ordering::*, Acquire}};\nfn f() {{\n{body}\n}}");
        let found = find("a.rs", &text).unwrap();
        found
            .iter()
            .map(|w| format!("({}) {}", w.site.label, w.site.change))
            .collect()
    }

    #[test]
    fn every_ordering_that_orders_is_weakened() {
        assert_eq!(
            changes("w.load(Acquire); // (A)\nw.load(Relaxed);\nw.swap(0, AcqRel); // (B2), (A)"),
            [
                "(A) Acquire -> Relaxed",
                "(A B2) AcqRel -> Acquire",
                "(A B2) AcqRel -> Release"
            ]
        );
        assert_eq!(
            changes("// (A)\nw.compare_exchange(\n0,\nf(1),\nRelease,\nAcquire,\n);"),
            ["(A) Release -> Relaxed", "(A) Acquire -> Relaxed"]
        );
    }

    #[test]
    fn sequential_consistency_becomes_what_the_operation_can_be() {
        assert_eq!(
            changes("w.load(SeqCst); w.store(f(1), SeqCst); w.swap(g(0), SeqCst);"),
            [
                "() SeqCst -> Acquire",
                "() SeqCst -> Release",
                "() SeqCst -> AcqRel"
            ]
        );
    }

    #[test]
    fn quiescences_are_removed() {
        let text = "fn f() {\n    P::quiesce(); // (M2)\n}";
        let found = find("a.rs", text).unwrap();
        assert_eq!((found.len(), found[0].line), (1, 2));
        assert_eq!(&text[found[0].range.clone()], "P::quiesce()");
        assert_eq!(found[0].site.change, "P::quiesce() -> nothing");
        assert_eq!(changes("P::store_if(a, b, c, d);"), [""; 0]);
    }

    #[test]
    fn a_site_knows_its_function() {
        let text = "fn g() {}\nfn f() { g(|| w.load(Acquire)) }";
        let found = find("a.rs", text).unwrap();
        assert_eq!(found[0].site.function, "f");
        assert_eq!(&text[found[0].range.clone()], "Acquire");
    }

    #[test]
    fn sites_that_cannot_be_told_apart_are_refused() {
        let text = "fn f() { w.load(Acquire); w.load(Acquire); }";
        assert!(find("a.rs", text).is_err());
    }
}
