//! Names of addresses: functions with their lines, and objects.

use std::{
    collections::HashMap,
    ffi::{CStr, c_void},
    mem::MaybeUninit,
    path::Path,
    ptr,
};

use backtrace::SymbolName;
use serde::Serialize;

/// A function of the program's, and where in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct Frame {
    /// Its name as the source has it; a file and an offset where no symbol is known.
    pub function: String,
    /// The source file, if there is debug information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Frame {
    /// `function (file:line)`, with the last part of the file's path.
    pub fn text(&self) -> String {
        self.with_place(self.function.clone())
    }

    /// The same without the types of parameters, of which C++ shows many.
    pub fn short(&self) -> String {
        self.with_place(without_parameters(&self.function))
    }

    fn with_place(&self, function: String) -> String {
        let (Some(file), Some(line)) = (&self.file, self.line) else {
            return function;
        };
        let name = Path::new(file).file_name();
        let name = name.map_or_else(|| file.as_str().into(), |name| name.to_string_lossy());
        format!("{function} ({name}:{line})")
    }
}

/// `f(…)` for `f(int, long)`.
fn without_parameters(function: &str) -> String {
    let end = function.rfind(')').unwrap_or(0);
    let mut open = 0;
    let begin = function[..end].rfind(|c| {
        open += i32::from(c == ')') - i32::from(c == '(');
        open < 0
    });
    match begin {
        Some(begin) if begin + 1 < end => {
            format!("{}(…{}", &function[..begin], &function[end..])
        }
        _ => function.to_owned(),
    }
}

/// The names that were looked up.
#[derive(Default)]
pub struct Symbols(HashMap<usize, Vec<Frame>>);

impl Symbols {
    /// The frames of a stack of return addresses, innermost first, with those of functions
    /// that are inlined.
    pub fn stack(&mut self, addresses: &[usize]) -> Vec<Frame> {
        let frames = addresses.iter().flat_map(|&address| {
            let known = self.0.entry(address).or_insert_with(|| frames(address));
            known.clone()
        });
        frames.collect()
    }
}

/// The frames of a return address.
fn frames(address: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    backtrace::resolve(ptr::without_provenance_mut(address), |symbol| {
        if let Some(name) = symbol.name() {
            frames.push(Frame {
                function: in_source(&name),
                file: symbol
                    .filename()
                    .map(|file| file.to_string_lossy().into_owned()),
                line: symbol.lineno(),
            });
        }
    });
    if frames.is_empty() {
        frames.push(Frame {
            function: place(address),
            file: None,
            line: None,
        });
    }
    frames
}

/// The name of the object at an address, if it is one of the program's.
pub fn object(address: usize) -> Option<String> {
    let mut name = None;
    // It is taken for a return address, and what is before it looked up.
    backtrace::resolve(ptr::without_provenance_mut(address + 1), |symbol| {
        name = symbol.name().as_ref().map(in_source);
    });
    name
}

/// The name as the source has it. That of an object of C, or of a short function, may be what a
/// type is mangled to: `a` is no `signed char`.
fn in_source(name: &SymbolName) -> String {
    match name.as_str() {
        Some(plain) if !plain.starts_with("_Z") && !plain.starts_with("_R") => plain.to_owned(),
        _ => name.to_string(),
    }
}

/// The file that an address belongs to, and the offset from where that is loaded.
fn place(address: usize) -> String {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    let at = ptr::without_provenance::<c_void>(address);
    // SAFETY: `found` is writable. Any address may be asked about.
    let known = unsafe { libc::dladdr(at, found.as_mut_ptr()) } != 0;
    // SAFETY: all zeros are valid, and what dladdr wrote is.
    let found = unsafe { found.assume_init() };
    if !known || found.dli_fname.is_null() {
        return format!("{address:#x}");
    }
    // SAFETY: it is the C string of a name that is there as long as the file is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) }.to_string_lossy();
    let name = name.rsplit('/').next().unwrap_or_default();
    format!("{name}+{:#x}", address - found.dli_fbase.addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_mangled_is_shown_as_it_is() {
        let shown = |name: &str| in_source(&SymbolName::new(name.as_bytes()));
        assert_eq!(
            ["a", "b", "Pc", "main"].map(shown),
            ["a", "b", "Pc", "main"]
        );
        assert_eq!(shown("_Z4workPv"), "work(void*)");
        assert_eq!(shown("_RNvC1a1f"), "a::f");
    }

    #[test]
    fn a_frame_shows_the_last_part_of_its_path() {
        let frame = |file: Option<&str>| Frame {
            function: "f".into(),
            file: file.map(str::to_owned),
            line: file.map(|_| 7),
        };
        assert_eq!(frame(Some("/a/b.c")).text(), "f (b.c:7)");
        assert_eq!(frame(None).text(), "f");
    }

    #[test]
    fn parameters_are_left_out_and_no_other_parentheses() {
        for (function, short) in [
            ("f", "f"),
            ("f()", "f()"),
            ("a::f(int, b<(c)1>)", "a::f(…)"),
            (
                "(anonymous namespace)::f(void (*)(int)) const",
                "(anonymous namespace)::f(…) const",
            ),
            ("f::operator()(int)", "f::operator()(…)"),
            ("f)", "f)"),
        ] {
            assert_eq!(without_parameters(function), short);
        }
    }
}
