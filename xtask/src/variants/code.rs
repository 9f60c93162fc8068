//! A file of `crates/core` by places in its text.

use std::ops::Range;

use anyhow::anyhow;
use proc_macro2::LineColumn;
use syn::{spanned::Spanned, visit, visit::Visit};

use crate::tidy::source::Source;

/// A file, its tokens, and where its functions stand in its text.
pub struct Code {
    /// The file as tokens.
    pub source: Source,
    /// The file as it is.
    pub text: String,
    functions: Vec<(String, Range<usize>)>,
}

impl Code {
    /// Parses a file.
    ///
    /// # Errors
    /// The place where it is not Rust.
    pub fn parse(path: &str, text: &str) -> anyhow::Result<Self> {
        let source = Source::parse(path, text).map_err(|finding| anyhow!("{finding}"))?;
        let mut functions = Functions {
            text,
            found: Vec::new(),
        };
        functions.visit_file(&source.ast);
        Ok(Self {
            functions: functions.found,
            text: text.to_owned(),
            source,
        })
    }

    /// The bytes from the start of one token to the end of another.
    pub fn range(&self, first: usize, last: usize) -> Range<usize> {
        let start = |at: usize| offset(&self.text, self.source.tokens[at].at);
        start(first)..start(last) + self.source.tokens[last].text.len()
    }

    /// The innermost function around a byte.
    pub fn function(&self, at: usize) -> Option<&str> {
        let around = self.functions.iter().filter(|(_, r)| r.contains(&at));
        let innermost = around.min_by_key(|(_, range)| range.len())?;
        Some(&innermost.0)
    }

    /// Where a text stands in the functions of a name.
    pub fn find(&self, function: &str, text: &str) -> Vec<Range<usize>> {
        let named = self.functions.iter().filter(|(name, _)| name == function);
        named
            .flat_map(|(_, range)| {
                let matches = self.text[range.clone()].match_indices(text);
                matches.map(|(at, found)| range.start + at..range.start + at + found.len())
            })
            .collect()
    }
}

/// The byte at a line and a column.
fn offset(text: &str, at: LineColumn) -> usize {
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines.clone().take(at.line - 1).map(str::len).sum();
    let line = lines.nth(at.line - 1).unwrap_or_default();
    before
        + line
            .chars()
            .take(at.column)
            .map(char::len_utf8)
            .sum::<usize>()
}

/// Collects functions, and methods of types and traits.
struct Functions<'a> {
    text: &'a str,
    found: Vec<(String, Range<usize>)>,
}

impl Functions<'_> {
    fn add(&mut self, name: &syn::Ident, node: &impl Spanned) {
        let span = node.span();
        let range = offset(self.text, span.start())..offset(self.text, span.end());
        self.found.push((name.to_string(), range));
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.add(&node.sig.ident, node);
        visit::visit_item_fn(self, node);
    }
    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.add(&node.sig.ident, node);
        visit::visit_impl_item_fn(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// größer\nimpl A { fn a() { let é = 1; x(é) } }\nfn b() { fn c() { x(2) } }\nimpl B { fn a() { x(3) } }\n";

    #[test]
    fn tokens_have_their_bytes() {
        let code = Code::parse("a.rs", TEXT).unwrap();
        for at in 0..code.source.tokens.len() {
            assert_eq!(code.text[code.range(at, at)], code.source.tokens[at].text);
        }
        let call = code.source.find(&["x", "("]).nth(1).unwrap();
        assert_eq!(&code.text[code.range(call, call + 3)], "x(2)");
    }

    #[test]
    fn a_byte_is_in_the_innermost_function() {
        let code = Code::parse("a.rs", TEXT).unwrap();
        let at = |text: &str| code.function(code.text.find(text).unwrap());
        assert_eq!(at("x(é"), Some("a"));
        assert_eq!(at("x(2"), Some("c"));
        assert_eq!(at("impl B"), None);
    }

    #[test]
    fn a_text_is_found_in_all_functions_of_a_name_and_no_others() {
        let code = Code::parse("a.rs", TEXT).unwrap();
        assert_eq!(code.find("a", "x(").len(), 2);
        assert_eq!(code.find("a", "x(2)").len(), 0);
        assert_eq!(&code.text[code.find("a", "x(3)")[0].clone()], "x(3)");
    }
}
