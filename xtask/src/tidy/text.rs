//! What holds of any text: files are short, and name no place on somebody's
//! machine.

use super::{Finding, TextFile};

/// The longest a source file of a crate may be, in lines.
const MAX_LINES: usize = 600;

/// Top-level directories that differ from machine to machine.
const PRIVATE: [&str; 3] = ["home", "root", "work"];

/// Checks a text file.
pub fn check(file: &TextFile) -> Vec<Finding> {
    let lengthy = too_long(file).into_iter();
    lengthy.chain(machine_paths(file)).collect()
}

fn too_long(file: &TextFile) -> Option<Finding> {
    let mut parts = file.path.split('/');
    let is_source =
        parts.next() == Some("crates") && parts.nth(1) == Some("src") && file.path.ends_with(".rs");
    let lines = file.text.lines().count();
    (is_source && lines > MAX_LINES).then(|| {
        let message =
            format!("{lines} lines, more than {MAX_LINES}: split it by what its parts do");
        Finding::new(&file.path, MAX_LINES + 1, message)
    })
}

fn machine_paths(file: &TextFile) -> impl Iterator<Item = Finding> {
    file.text.lines().enumerate().filter_map(|(index, line)| {
        let directory = PRIVATE.into_iter().find(|name| names(line, name))?;
        let message = format!(
            "an absolute path into /{directory}: make it relative to the repository, or an argument"
        );
        Some(Finding::new(&file.path, index + 1, message))
    })
}

/// Whether a line has an absolute path into a top-level directory. A path
/// component or an address that ends so is none.
fn names(line: &str, directory: &str) -> bool {
    let path = format!("/{directory}/");
    line.match_indices(&path)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || ".-_~}".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: String) -> Vec<Finding> {
        let path = path.to_owned();
        check(&TextFile { path, text })
    }

    #[test]
    fn a_long_source_file_is_found() {
        let lines = |n: usize| "// x\n".repeat(n);
        assert_eq!(found("crates/core/src/a.rs", lines(601)).len(), 1);
        assert_eq!(found("crates/core/src/b/a.rs", lines(601)).len(), 1);
        assert!(found("crates/core/src/a.rs", lines(600)).is_empty());
        assert!(found("crates/core/tests/a.rs", lines(601)).is_empty());
    }

    #[test]
    fn a_machine_path_is_found() {
        for name in PRIVATE {
            let text = format!("first\nsee /{name}/x/file");
            let found = found("notes.md", text);
            assert_eq!((found.len(), found[0].line), (1, 2), "{name}");
        }
    }

    #[test]
    fn other_paths_are_fine() {
        let inside = PRIVATE.map(|name| format!("crates/{name}/x"));
        let others = ["/proc/self/maps", "https://a.org/home/x", "$ROOT/x"];
        for text in others.map(str::to_owned).into_iter().chain(inside) {
            assert!(found("notes.md", text.clone()).is_empty(), "{text}");
        }
    }
}
