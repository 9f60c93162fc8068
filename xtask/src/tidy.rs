//! The rules that no compiler checks. Each finding is one line: where, what,
//! and what to do instead.

use std::{fmt, fs, path::Path};

use anyhow::Context;
use walkdir::WalkDir;

mod counters;
mod layers;
pub mod orderings;
mod purity;
pub mod source;
mod spinning;
mod text;
mod unsafety;
mod weakened;

use crate::header;
use source::Source;

/// A rule broken at a place.
#[derive(Debug)]
pub struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A text file of the repository, by its path from the root.
pub struct TextFile {
    /// Its path from the root.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// Checks the repository and prints what it finds. With `write`, lowers the
/// counters first. Returns whether all is well.
pub fn run(root: &Path, write: bool) -> anyhow::Result<bool> {
    let files = text_files(root)?;
    let (sources, mut findings) = parse(&files);
    for source in &sources {
        findings.extend(purity::check(source));
        findings.extend(orderings::check(source));
        findings.extend(spinning::check(source));
        findings.extend(unsafety::check(source));
        findings.extend(weakened::check(source));
    }
    findings.extend(files.iter().flat_map(text::check));
    findings.extend(orderings::halves(&sources));
    findings.extend(layers::check(&files)?);
    findings.extend(counters::check(root, &sources, write)?);
    if !header::run(root, false)? {
        let message = "not what its sources make: run `cargo xtask header`";
        findings.push(Finding::new(header::HEADER, 1, message));
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        println!("{finding}");
    }
    let count = sources.len();
    match findings.len() {
        0 => println!("tidy: {count} Rust files, nothing to say"),
        n => println!("tidy: {count} Rust files, {n} to mend"),
    }
    Ok(findings.is_empty())
}

/// Every text file below `root` but version control's and the compiler's.
pub fn text_files(root: &Path) -> anyhow::Result<Vec<TextFile>> {
    let ours = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        !(name == ".git" || entry.depth() == 1 && name.starts_with("target"))
    };
    let mut files = Vec::new();
    for entry in WalkDir::new(root)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(ours)
    {
        let entry = entry?;
        if !entry.file_type().is_file() {
            continue;
        }
        let bytes = fs::read(entry.path())
            .with_context(|| format!("cannot read {}", entry.path().display()))?;
        let path = entry.path().strip_prefix(root)?.to_string_lossy();
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(TextFile {
                path: path.into_owned(),
                text,
            });
        }
    }
    Ok(files)
}

/// The Rust files; one that does not parse is a finding.
fn parse(files: &[TextFile]) -> (Vec<Source>, Vec<Finding>) {
    let mut sources = Vec::new();
    let mut findings = Vec::new();
    for file in files.iter().filter(|f| f.path.ends_with(".rs")) {
        match Source::parse(&file.path, &file.text) {
            Ok(source) => sources.push(source),
            Err(finding) => findings.push(finding),
        }
    }
    let test_modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in &mut sources {
        if test_modules.iter().any(|module| source.is_module(module)) {
            source.mark_as_test();
        }
    }
    (sources, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_file_that_does_not_parse_is_found() {
        let (sources, findings) = parse(&[file("a.rs", "fn f() {}\nfn g( {}")]);
        assert!(sources.is_empty());
        assert_eq!((findings.len(), findings[0].line), (1, 2));
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_is_known() {
        let (sources, _) = parse(&[
            file("crates/core/src/lib.rs", "mod a;\n#[cfg(test)]\nmod world;"),
            file("crates/core/src/a.rs", "fn f() {}"),
            file("crates/core/src/world.rs", "fn f() {}"),
            file("crates/core/src/world/deep.rs", "fn f() {}"),
        ]);
        let test: Vec<bool> = sources.iter().map(|s| s.tokens[0].test).collect();
        assert_eq!(test, [false, false, true, true]);
    }

    #[test]
    fn the_walk_leaves_out_what_is_built() {
        let root = &crate::root().unwrap();
        let files = text_files(root).unwrap();
        assert!(files.iter().any(|f| f.path == "xtask/src/tidy.rs"));
        assert!(!files.iter().any(|f| f.path.starts_with("target/")));
        assert!(!files.iter().any(|f| f.path.starts_with(".git/")));
    }
}
