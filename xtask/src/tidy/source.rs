//! A Rust file as the checks see it: a flat list of tokens, macros' included,
//! and which comments belong to which code.

use proc_macro2::{Delimiter, LineColumn, TokenStream, TokenTree};
use syn::{spanned::Spanned, visit, visit::Visit};

use super::Finding;

/// An identifier, a literal, a single character of punctuation, or one end of
/// a group.
pub struct Token {
    /// As written. Comments are no tokens; a string keeps its quotes.
    pub text: String,
    /// Where it begins.
    pub at: LineColumn,
    /// Whether it belongs to an item that only tests see.
    pub test: bool,
}

/// A parsed file.
pub struct Source {
    /// Its path from the repository's root.
    pub path: String,
    /// All its tokens.
    pub tokens: Vec<Token>,
    /// Its syntax tree.
    pub ast: syn::File,
    lines: Vec<String>,
    statements: Vec<(LineColumn, LineColumn)>,
}

impl Source {
    /// Parses a file.
    ///
    /// # Errors
    /// The place where it is not Rust.
    pub fn parse(path: &str, text: &str) -> Result<Self, Finding> {
        let broken = |line, error| Finding::new(path, line, format!("not Rust: {error}"));
        let stream: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            broken(error.span().start().line, error.to_string())
        })?;
        let ast: syn::File = syn::parse2(stream.clone())
            .map_err(|error: syn::Error| broken(error.span().start().line, error.to_string()))?;
        let mut tokens = Vec::new();
        flatten(stream, false, &mut tokens);
        let mut statements = Statements(Vec::new());
        statements.visit_file(&ast);
        Ok(Self {
            path: path.to_owned(),
            tokens,
            ast,
            lines: text.lines().map(str::to_owned).collect(),
            statements: statements.0,
        })
    }

    /// Where these tokens stand one after the other: the index of the first.
    pub fn find(&self, pattern: &[&str]) -> impl Iterator<Item = usize> {
        (0..self.tokens.len()).filter(|&at| self.has(at, pattern))
    }

    /// Whether these tokens begin at an index.
    pub fn has(&self, at: usize, pattern: &[&str]) -> bool {
        let rest = self.tokens.get(at..).unwrap_or_default();
        rest.len() >= pattern.len() && pattern.iter().zip(rest).all(|(p, t)| t.text == *p)
    }

    /// The token before an index, or nothing at the start of the file.
    pub fn before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |at| &self.tokens[at].text)
    }

    /// Whether the token at an index belongs to a `use` declaration.
    pub fn in_use(&self, at: usize) -> bool {
        let start = self.tokens[..at]
            .iter()
            .rposition(|token| token.text == ";");
        let start = start.map_or(0, |end| end + 1);
        // `use<..>` lists what a return type captures.
        (start..at).any(|at| self.tokens[at].text == "use" && !self.has(at + 1, &["<"]))
    }

    /// The tokens inside each attribute's brackets.
    pub fn attributes(&self) -> impl Iterator<Item = &[Token]> {
        let outer = self.find(&["#", "["]).map(|at| at + 1);
        let inner = self.find(&["#", "!", "["]).map(|at| at + 2);
        outer.chain(inner).map(|open| self.group(open))
    }

    /// The tokens inside the group that opens at an index.
    pub fn group(&self, open: usize) -> &[Token] {
        let mut depth = 0;
        let inside = self.tokens[open..].iter().take_while(|token| {
            match token.text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            depth > 0
        });
        &self.tokens[open + 1..open + inside.count()]
    }

    /// The comments that belong to the code at a place: on its line, directly
    /// above its line, and directly above the statement that it is part of.
    pub fn comments(&self, at: LineColumn) -> String {
        let statement = self
            .statements
            .iter()
            .filter(|(start, end)| *start <= at && at < *end)
            .map(|(start, _)| start.line)
            .max()
            .unwrap_or(at.line);
        let own_line = self.lines[at.line - 1].split_once("//");
        let mut comments = own_line.map_or("", |(_, comment)| comment).to_owned();
        for line in [at.line, statement] {
            comments.push('\n');
            comments.push_str(&self.block_above(line));
        }
        comments
    }

    /// What follows `//` on each line that has it.
    pub fn comment_lines(&self) -> impl Iterator<Item = &str> {
        let comments = self.lines.iter().filter_map(|line| line.split_once("//"));
        comments.map(|(_, comment)| comment)
    }

    /// The comment lines directly above a line; attributes may stand between.
    pub fn block_above(&self, line: usize) -> String {
        let block: Vec<&str> = self.lines[..line - 1]
            .iter()
            .rev()
            .map(|line| line.trim_start())
            .take_while(|line| line.starts_with("//") || line.starts_with("#["))
            .filter(|line| line.starts_with("//"))
            .collect();
        block.join("\n")
    }

    /// The modules in files of their own that only tests see, as paths without
    /// an extension.
    pub fn test_modules(&self) -> Vec<String> {
        let stem = self.path.trim_end_matches(".rs");
        let directory = match stem.rsplit_once('/') {
            Some((directory, "lib" | "main" | "mod")) => directory,
            _ => stem,
        };
        self.find(&["mod"])
            .filter(|&at| self.tokens[at].test && self.has(at + 2, &[";"]))
            .map(|at| format!("{directory}/{}", self.tokens[at + 1].text))
            .collect()
    }

    /// Whether this file is a module, named as [`Source::test_modules`] does,
    /// or lies below it.
    pub fn is_module(&self, module: &str) -> bool {
        self.path
            .strip_prefix(module)
            .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }

    /// Says that only tests see the file.
    pub fn mark_as_test(&mut self) {
        for token in &mut self.tokens {
            token.test = true;
        }
    }
}

/// Appends the tokens of a stream. What only tests see reaches from `#[cfg(test)]` to the
/// first `{}`, `;` or `,`, but for the commas of generics and of what follows `where`.
fn flatten(stream: TokenStream, test: bool, out: &mut Vec<Token>) {
    let mut in_test_item = test;
    let mut angles = 0_usize;
    let mut after_where = false;
    for tree in stream {
        let push = |text: &str, at, test, out: &mut Vec<Token>| {
            let text = text.to_owned();
            out.push(Token { text, at, test });
        };
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                let attribute = out.last().is_some_and(|token| token.text == "#");
                if attribute && group.stream().to_string() == "cfg (test)" {
                    (in_test_item, angles, after_where) = (true, 0, false);
                }
                push(open, group.span_open().start(), in_test_item, out);
                flatten(group.stream(), in_test_item, out);
                push(close, group.span_close().start(), in_test_item, out);
                in_test_item = test || in_test_item && open != "{";
            }
            tree => {
                let text = tree.to_string();
                let before = out.last().map_or("", |token| &token.text);
                match text.as_str() {
                    "<" => angles += 1,
                    ">" if before == "=" => angles = 0, // an arm's arrow
                    ">" if before != "-" => angles = angles.saturating_sub(1),
                    "where" => after_where = true,
                    _ => {}
                }
                let ends = text == ";" || text == "," && angles == 0 && !after_where;
                push(&text, tree.span().start(), in_test_item, out);
                in_test_item = test || in_test_item && !ends;
            }
        }
    }
}

/// Where each statement, item and match arm begins and ends.
struct Statements(Vec<(LineColumn, LineColumn)>);

impl Statements {
    fn add(&mut self, node: &impl Spanned) {
        let span = node.span();
        self.0.push((span.start(), span.end()));
    }
}

impl<'ast> Visit<'ast> for Statements {
    fn visit_stmt(&mut self, node: &'ast syn::Stmt) {
        self.add(node);
        visit::visit_stmt(self, node);
    }
    fn visit_item(&mut self, node: &'ast syn::Item) {
        self.add(node);
        visit::visit_item(self, node);
    }
    fn visit_impl_item(&mut self, node: &'ast syn::ImplItem) {
        self.add(node);
        visit::visit_impl_item(self, node);
    }
    fn visit_trait_item(&mut self, node: &'ast syn::TraitItem) {
        self.add(node);
        visit::visit_trait_item(self, node);
    }
    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        self.add(node);
        visit::visit_arm(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comments(text: &str, token: &str) -> String {
        let source = Source::parse("a.rs", text).unwrap();
        let at = source.find(&[token]).next().unwrap();
        source.comments(source.tokens[at].at)
    }

    #[test]
    fn comments_belong_to_line_block_and_statement() {
        let text = "fn f() {\n    // one\n    // two\n    let x =\n        // three\n        here(); // four\n}";
        let found = comments(text, "here");
        for word in ["one", "two", "three", "four"] {
            assert!(found.contains(word), "{word} in {found:?}");
        }
    }

    #[test]
    fn comments_of_another_statement_do_not_count() {
        let text = "// item\nfn f() {\n    // one\n    a();\n    here();\n    // two\n}";
        assert_eq!(comments(text, "here").trim(), "");
        let blank = "fn f() {\n    // one\n\n    here();\n}";
        assert_eq!(comments(blank, "here").trim(), "");
    }

    #[test]
    fn attributes_may_stand_below_the_comment() {
        assert!(comments("// one\n#[inline]\nfn here() {}", "here").contains("one"));
    }

    #[test]
    fn test_items_are_marked() {
        let text = "fn a() {}\n#[cfg(test)]\nextern crate std;\nfn b() {}\n#[cfg(test)]\n#[allow(x)]\nmod c { fn d() {} }\nfn e() {}";
        let source = Source::parse("a.rs", text).unwrap();
        let marked = |name| source.tokens[source.find(&[name]).next().unwrap()].test;
        assert_eq!(
            ["a", "std", "b", "c", "d", "e"].map(marked),
            [false, true, false, true, true, false]
        );
    }

    #[test]
    fn a_test_field_ends_at_its_comma() {
        let text = "struct A {\n#[cfg(test)]\na: B<C, D>,\ne: F,\n}\n#[cfg(test)]\n\
                    impl<G, H> I for J where G: K, H: L { fn m() {} }\n\
                    fn n() { match o { #[cfg(test)] p if p < 3 => q, r => s } }";
        let source = Source::parse("a.rs", text).unwrap();
        let marked = |name: &&str| source.tokens[source.find(&[name]).next().unwrap()].test;
        assert!(
            ["a", "D", "H", "J", "K", "L", "m", "p", "q"]
                .iter()
                .all(marked)
        );
        assert!(!["e", "F", "n", "r", "s"].iter().any(marked));
    }

    #[test]
    fn tokens_inside_macros_are_seen() {
        let source = Source::parse("a.rs", "fn f() { assert!(x(y)); }").unwrap();
        let open = source.find(&["(", "x"]).next().unwrap();
        let inside: String = source.group(open).iter().map(|t| &*t.text).collect();
        assert_eq!(inside, "x(y)");
    }
}
