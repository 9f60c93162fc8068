//! crates/core runs in every world: it depends on nothing but `core`, has no
//! conditional compilation, and waits only through its `Platform`.

use super::{
    Finding,
    source::{Source, Token},
};

const CORE: &str = "crates/core/src/";
const PLATFORM: &str = "crates/core/src/platform.rs";

/// Checks a file of crates/core; its tests may do as they like.
pub fn check(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with(CORE) {
        return Vec::new();
    }
    (0..source.tokens.len())
        .filter(|&at| !source.tokens[at].test)
        .filter_map(|at| {
            let message = conditional(source, at)
                .or_else(|| foreign(source, at))
                .or_else(|| spinning(source, at))?;
            let line = source.tokens[at].at.line;
            Some(Finding::new(&source.path, line, message))
        })
        .collect()
}

/// Conditional compilation on anything but tests and debug assertions.
fn conditional(source: &Source, at: usize) -> Option<String> {
    let name = source.tokens[at].text.as_str();
    let open = match name {
        "cfg" | "cfg_attr" if source.has(at + 1, &["("]) => at + 1,
        "cfg" | "cfg_select" if source.has(at + 1, &["!"]) => at + 2,
        _ => return None,
    };
    let inside = source.group(open);
    let predicate = match name {
        "cfg_attr" => first_argument(inside),
        _ => inside,
    };
    let asked = predicate
        .iter()
        .map(|token| token.text.as_str())
        .filter(|text| text.starts_with(char::is_alphabetic))
        .find(|text| !matches!(*text, "not" | "all" | "any" | "test" | "debug_assertions"))?;
    Some(format!(
        "{name} on `{asked}` in core, where worlds are told apart by type: move what differs \
         into `Platform`"
    ))
}

/// The tokens up to the first comma that is inside no group.
fn first_argument(tokens: &[Token]) -> &[Token] {
    let mut depth = 0;
    let end = tokens.iter().position(|token| {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    &tokens[..end.unwrap_or(tokens.len())]
}

/// Paths out of `core`, atomics that bypass the platform's words, and what only one
/// architecture has.
fn foreign(source: &Source, at: usize) -> Option<String> {
    let name = source.tokens[at].text.as_str();
    let leads_path = source.has(at + 1, &[":", ":"]);
    let in_path = at > 2 && source.before(at) == ":" && is_name(source.before(at - 2));
    let is_extern = at > 1 && source.before(at) == "crate" && source.before(at - 1) == "extern";
    match name {
        "std" | "alloc" if (leads_path && !in_path) || is_extern => Some(format!(
            "`{name}` in core: use `core`, or ask `Platform` for it"
        )),
        "atomic" if leads_path || in_path || source.in_use(at) => atomic(source, name),
        "arch" if leads_path || in_path || source.in_use(at) => Some(machine(name)),
        "asm" | "global_asm" | "naked_asm" if source.has(at + 1, &["!"]) => Some(machine(name)),
        _ if is_atomic_type(name) => atomic(source, name),
        _ => None,
    }
}

fn atomic(source: &Source, name: &str) -> Option<String> {
    (source.path != PLATFORM).then(|| {
        format!("`{name}` outside platform.rs: use the platform's `Word` and its `Ordering`")
    })
}

fn machine(name: &str) -> String {
    format!("`{name}` in core, which knows no architecture: ask `Platform` for it")
}

fn is_atomic_type(name: &str) -> bool {
    name.strip_prefix("Atomic")
        .is_some_and(|rest| rest.starts_with(char::is_uppercase))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// A wait that no world can see. Loops are judged in spinning.rs.
fn spinning(source: &Source, at: usize) -> Option<String> {
    (source.tokens[at].text == "spin_loop").then(|| {
        "`spin_loop` in core: wait with `Platform::spin_until` or `Platform::park`".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let source = Source::parse(path, text).unwrap();
        check(&source).iter().map(ToString::to_string).collect()
    }

    fn assert_found(text: &str, words: &str) {
        let found = found("crates/core/src/osq.rs", text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains(words), "{found:?}");
    }

    fn assert_fine(text: &str) {
        let found = found("crates/core/src/osq.rs", text);
        assert!(found.is_empty(), "{text}: {found:?}");
    }

    #[test]
    fn cfg_on_a_target_is_found() {
        assert_found("#[cfg(target_os = \"linux\")] fn f() {}", "target_os");
        assert_found("fn f() { #[cfg(not(loom))] g(); }", "loom");
        assert_found("#[cfg_attr(feature = \"x\", inline)] fn f() {}", "feature");
        assert_found(
            "fn f() { if cfg!(target_arch = \"arm\") {} }",
            "target_arch",
        );
        assert_found("fn f() { cfg_select! { unix => {} } }", "unix");
        assert_found("#[cfg_attr(all(), cfg(unix))] fn f() {}", "unix");
        assert_found("#[cfg_attr(any(test, unix), inline)] fn f() {}", "unix");
    }

    #[test]
    fn cfg_on_tests_and_debug_assertions_is_fine() {
        assert_fine("#![cfg_attr(not(test), no_std)]");
        assert_fine("#![cfg_attr(all(debug_assertions, not(test)), no_std)]");
        assert_fine("#[cfg(debug_assertions)] fn f() {}");
        assert_fine("fn f() { if cfg!(debug_assertions) {} }");
    }

    #[test]
    fn std_and_alloc_are_found() {
        assert_found("use std::thread;", "`std`");
        assert_found("fn f() { let x = ::std::thread::current(); }", "`std`");
        assert_found("extern crate alloc;", "`alloc`");
        assert_found("fn f() { g!(alloc::vec::Vec::new()); }", "`alloc`");
        assert_fine("use core::alloc::Layout;\nfn alloc() {}");
    }

    #[test]
    fn atomics_are_found_outside_the_platform() {
        assert_found("use core::sync::atomic::fence;", "`atomic`");
        assert_found("use core::sync::{atomic::fence};", "`atomic`");
        assert_found("use core::sync::{Exclusive, atomic as f};", "`atomic`");
        assert_found("use core::{sync::{atomic}};", "`atomic`");
        assert_found("struct Lock { word: AtomicU32 }", "`AtomicU32`");
        assert_fine("use a::b;\nfn f(atomic: bool) {}");
        let platform = "use core::sync::atomic::AtomicU32;";
        assert!(found(PLATFORM, platform).is_empty());
        assert_eq!(found(PLATFORM, "use std::thread;").len(), 1);
    }

    #[test]
    fn what_one_architecture_has_is_found() {
        assert_found("fn f() { core::arch::x86_64::_rdtsc() }", "`arch`");
        assert_found("use core::{arch as a};", "`arch`");
        assert_found("fn f() { asm!(\"nop\") }", "`asm`");
        assert_fine("fn f(arch: u32) -> u32 { arch }");
    }

    #[test]
    fn what_follows_a_test_field_is_judged() {
        assert_found(
            "struct A { #[cfg(test)] a: B, word: AtomicU32 }",
            "`AtomicU32`",
        );
    }

    #[test]
    fn spin_loop_is_found() {
        assert_found("fn f() { loop { core::hint::spin_loop(); } }", "spin_until");
    }

    #[test]
    fn tests_and_other_crates_do_as_they_like() {
        assert_fine("#[cfg(test)] mod tests { use std::thread; fn f() { spin_loop(); } }");
        let elsewhere = "use std::sync::atomic::AtomicU32;";
        assert!(found("crates/linux/src/lib.rs", elsewhere).is_empty());
    }
}
