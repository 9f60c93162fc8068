//! Counts that may only fall, kept in a committed file: unsafe blocks,
//! attributes that silence a lint, and statics, of each crate.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{
    Finding,
    source::{Source, Token},
};

const FILE: &str = "xtask/counters.toml";

const HEADER: &str = "\
# Counts of each crate that may only fall; `cargo xtask tidy` holds them.
# `cargo xtask tidy --write` lowers them. Raise one by hand, and say in the
# commit why there was no way around it.
";

/// The counts of one crate.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    unsafe_blocks: usize,
    /// `#[allow]` and `#[expect]`, also through `#[cfg_attr]`.
    allows: usize,
    statics: usize,
}

impl Counts {
    fn named(&self) -> [(&'static str, usize); 3] {
        [
            ("unsafe_blocks", self.unsafe_blocks),
            ("allows", self.allows),
            ("statics", self.statics),
        ]
    }

    fn lower(self, other: Self) -> Self {
        Self {
            unsafe_blocks: self.unsafe_blocks.min(other.unsafe_blocks),
            allows: self.allows.min(other.allows),
            statics: self.statics.min(other.statics),
        }
    }

    fn add(&mut self, source: &Source) {
        self.unsafe_blocks += source.find(&["unsafe", "{"]).count();
        self.allows += source.attributes().map(silenced).sum::<usize>();
        // A lifetime is not a static.
        let statics = source.find(&["static"]);
        self.statics += statics.filter(|&at| source.before(at) != "'").count();
    }
}

/// How often an attribute silences lints, itself or through `cfg_attr`.
fn silenced(attribute: &[Token]) -> usize {
    let levels = |words: &&[Token]| {
        ["allow", "expect"].contains(&words[0].text.as_str()) && words[1].text == "("
    };
    match attribute {
        [name, ..] if name.text == "cfg_attr" => attribute.windows(2).filter(levels).count(),
        _ => attribute.windows(2).take(1).filter(levels).count(),
    }
}

type Crates = BTreeMap<String, Counts>;

/// Compares what the sources hold with what the file grants, and says what has
/// fallen. With `write`, first lowers the file and enters new crates.
///
/// # Errors
/// The file cannot be read, or is not what this module writes.
pub fn check(root: &Path, sources: &[Source], write: bool) -> anyhow::Result<Vec<Finding>> {
    let counted = count(sources);
    let file = root.join(FILE);
    let mut text = fs::read_to_string(&file).unwrap_or_default();
    if write {
        text = render(&lowered(&parse(&text)?, &counted))?;
        fs::write(&file, &text).with_context(|| format!("cannot write {FILE}"))?;
    }
    let granted = parse(&text)?;
    for note in fallen(&granted, &counted) {
        println!("{note}");
    }
    Ok(risen(&text, &granted, &counted))
}

fn count(sources: &[Source]) -> Crates {
    let mut crates = Crates::new();
    for source in sources {
        let mut parts = source.path.split('/');
        let name = match parts.next() {
            Some("crates") => parts.next(),
            first => first,
        };
        if let Some(name) = name {
            crates.entry(name.to_owned()).or_default().add(source);
        }
    }
    crates
}

fn parse(text: &str) -> anyhow::Result<Crates> {
    toml::from_str(text).with_context(|| format!("{FILE} is broken"))
}

fn render(crates: &Crates) -> anyhow::Result<String> {
    Ok(format!("{HEADER}\n{}", toml::to_string(crates)?))
}

/// What the file should grant: no more than it did, and no more than is there.
fn lowered(granted: &Crates, counted: &Crates) -> Crates {
    let lower = |(name, counts): (&String, &Counts)| {
        let granted = granted.get(name).unwrap_or(counts);
        (name.clone(), counts.lower(*granted))
    };
    counted.iter().map(lower).collect()
}

/// A line for each count that the file could lower.
fn fallen(granted: &Crates, counted: &Crates) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, granted) in granted {
        let counted = counted.get(name).copied().unwrap_or_default();
        for ((what, granted), (_, counted)) in granted.named().into_iter().zip(counted.named()) {
            if counted < granted {
                notes.push(format!(
                    "{FILE}: {name}.{what} has fallen from {granted} to {counted}: record it with \
                     `cargo xtask tidy --write`"
                ));
            }
        }
    }
    notes
}

/// A finding for each count above what the file grants.
fn risen(text: &str, granted: &Crates, counted: &Crates) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, counted) in counted {
        let Some(granted) = granted.get(name) else {
            let message = format!("no entry for {name}: add it with `cargo xtask tidy --write`");
            findings.push(Finding::new(FILE, 1, message));
            continue;
        };
        let header = format!("[{name}]");
        let line = text.lines().take_while(|line| *line != header).count() + 1;
        for ((what, granted), (_, counted)) in granted.named().into_iter().zip(counted.named()) {
            if counted > granted {
                let message = format!(
                    "{name}.{what} has risen from {granted} to {counted}: do without, or raise \
                     it here and say why in the commit"
                );
                findings.push(Finding::new(FILE, line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crates(name: &str, unsafe_blocks: usize, allows: usize, statics: usize) -> Crates {
        let counts = Counts {
            unsafe_blocks,
            allows,
            statics,
        };
        Crates::from([(name.to_owned(), counts)])
    }

    #[test]
    fn everything_is_counted_once() {
        let text = "#![allow(a)]\n#[expect(b)]\nstatic mut A: &'static u8 = &0;\nthread_local! { static B: u8 = 0; }\nfn f<T: 'static>() { unsafe { g() }; h!(unsafe { g() }); }\nunsafe fn g() {}";
        let source = Source::parse("crates/a/src/lib.rs", text).unwrap();
        assert_eq!(count(&[source]), crates("a", 2, 2, 2));
        let source = Source::parse("xtask/src/main.rs", text).unwrap();
        assert_eq!(count(&[source]), crates("xtask", 2, 2, 2));
    }

    #[test]
    fn what_a_condition_silences_is_counted() {
        let text = "#![cfg_attr(x, expect(a), allow(b))]\n#[cfg_attr(all(), cfg_attr(y, \
                    allow(c)))]\nfn f() { g.expect(h); }\n#[cfg_attr(x, doc = \"allow(\")] \
                    fn allow() {}";
        let source = Source::parse("crates/a/src/lib.rs", text).unwrap();
        assert_eq!(count(&[source]), crates("a", 0, 3, 0));
    }

    #[test]
    fn a_rise_is_found_where_it_is_granted() {
        let granted = crates("a", 1, 0, 3);
        let text = render(&granted).unwrap();
        let found = risen(&text, &granted, &crates("a", 2, 0, 3));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("unsafe_blocks"), "{found:?}");
        assert_eq!(text.lines().nth(found[0].line - 1), Some("[a]"));
        assert!(risen(&text, &granted, &granted).is_empty());
    }

    #[test]
    fn a_new_crate_needs_an_entry() {
        assert_eq!(risen("", &Crates::new(), &crates("a", 0, 0, 0)).len(), 1);
    }

    #[test]
    fn a_fall_is_told_and_no_finding() {
        let (granted, counted) = (crates("a", 1, 1, 1), crates("a", 0, 1, 1));
        assert_eq!(fallen(&granted, &counted).len(), 1);
        assert!(risen("", &granted, &counted).is_empty());
    }

    #[test]
    fn writing_lowers_and_never_raises() {
        let granted = crates("a", 1, 1, 1);
        assert_eq!(
            lowered(&granted, &crates("a", 0, 2, 1)),
            crates("a", 0, 1, 1)
        );
        assert_eq!(
            lowered(&granted, &crates("b", 4, 5, 6)),
            crates("b", 4, 5, 6)
        );
    }

    #[test]
    fn what_is_written_can_be_read() {
        let granted = crates("a", 1, 2, 3);
        assert_eq!(parse(&render(&granted).unwrap()).unwrap(), granted);
        assert!(parse("[a]\nunsafe = 1").is_err());
    }
}
