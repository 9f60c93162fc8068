//! Unsafe code says why it is sound, and an unsafe interface what it asks.

use proc_macro2::LineColumn;
use syn::{Attribute, ImplItem, ItemImpl, Safety, TraitItemFn, visit, visit::Visit};

use super::{Finding, source::Source};

/// Checks a file of any crate.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut contracts = Contracts {
        path: &source.path,
        findings: Vec::new(),
        seen: Vec::new(),
    };
    contracts.visit_file(&source.ast);
    let mut findings = contracts.findings;
    findings.extend(in_macros(source, &contracts.seen));
    findings.extend(unexplained(source, "{", "block"));
    findings.extend(unexplained(source, "impl", "impl"));
    findings
}

/// Unsafe blocks and impls without a `// SAFETY:` comment. These are tokens,
/// not syntax, so that those inside macros count.
fn unexplained(source: &Source, next: &str, what: &str) -> Vec<Finding> {
    source
        .find(&["unsafe", next])
        .map(|at| source.tokens[at].at)
        .filter(|&at| !source.comments(at).contains("SAFETY:"))
        .map(|at| {
            Finding::new(
                &source.path,
                at.line,
                format!(
                    "unsafe {what} without a reason: say above it in a `// SAFETY:` comment why \
                     each clause of what it relies on holds"
                ),
            )
        })
        .collect()
}

/// Unsafe functions and traits that macros make, which the syntax tree does not show,
/// without a contract.
fn in_macros(source: &Source, seen: &[LineColumn]) -> Vec<Finding> {
    source
        .find(&["unsafe"])
        .filter(|&at| !seen.contains(&source.tokens[at].at) && is_interface(source, at + 1))
        .filter(|&at| !in_trait_impl(source, at))
        .map(|at| source.tokens[at].at.line)
        .filter(|&line| {
            let above = source.block_above(line);
            !above
                .lines()
                .any(|line| line.trim_start_matches('/').trim() == "# Safety")
        })
        .map(|line| Finding::new(&source.path, line, UNCONTRACTED))
        .collect()
}

/// Whether a trait or a function, and not a function's type, follows `unsafe`.
fn is_interface(source: &Source, at: usize) -> bool {
    let is_abi = |at: usize| {
        source
            .tokens
            .get(at)
            .is_some_and(|t| t.text.starts_with('"'))
    };
    let at = match source.has(at, &["extern"]) {
        true => at + 1 + usize::from(is_abi(at + 1)),
        false => at,
    };
    source.has(at, &["trait"]) || source.has(at, &["fn"]) && !source.has(at + 1, &["("])
}

/// Whether the braces around a token are those of an `impl .. for ..`.
fn in_trait_impl(source: &Source, at: usize) -> bool {
    let text = |at: usize| source.tokens[at].text.as_str();
    let mut depth = 0;
    let open = (0..at).rev().find(|&before| {
        match text(before) {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" => depth -= 1,
            _ => {}
        }
        depth < 0
    });
    let header = (0..open.unwrap_or(0))
        .rev()
        .take_while(|&before| !matches!(text(before), ";" | "{" | "}"));
    let is = |word| move |at| source.has(at, &[word]) && !source.has(at, &["for", "<"]);
    header.clone().any(is("impl")) && header.clone().any(is("for"))
}

const UNCONTRACTED: &str = "unsafe without a contract: say in a `# Safety` section of its \
                            documentation what the caller or implementer must keep";

/// Finds unsafe functions and traits whose documentation has no section of
/// safety. An impl of a trait is bound by the trait's own section.
struct Contracts<'a> {
    path: &'a str,
    findings: Vec<Finding>,
    /// Where `unsafe` stands in signatures and before traits.
    seen: Vec<LineColumn>,
}

impl Contracts<'_> {
    fn require(&mut self, unsafety: Option<&syn::Token![unsafe]>, attrs: &[Attribute]) {
        let Some(unsafety) = unsafety else { return };
        if !attrs.iter().any(opens_safety_section) {
            let line = unsafety.span.start().line;
            self.findings
                .push(Finding::new(self.path, line, UNCONTRACTED));
        }
    }
}

fn keyword(safety: &Safety) -> Option<&syn::Token![unsafe]> {
    match safety {
        Safety::Unsafe(keyword) => Some(keyword),
        _ => None,
    }
}

/// Whether an attribute is a line of documentation that reads `# Safety`.
fn opens_safety_section(attribute: &Attribute) -> bool {
    let syn::Meta::NameValue(meta) = &attribute.meta else {
        return false;
    };
    let syn::Expr::Lit(syn::ExprLit {
        lit: syn::Lit::Str(text),
        ..
    }) = &meta.value
    else {
        return false;
    };
    meta.path.is_ident("doc") && text.value().lines().any(|line| line.trim() == "# Safety")
}

impl<'ast> Visit<'ast> for Contracts<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.require(keyword(&node.sig.safety), &node.attrs);
        visit::visit_item_fn(self, node);
    }
    fn visit_trait_item_fn(&mut self, node: &'ast TraitItemFn) {
        self.require(keyword(&node.sig.safety), &node.attrs);
        visit::visit_trait_item_fn(self, node);
    }
    fn visit_signature(&mut self, node: &'ast syn::Signature) {
        self.seen
            .extend(keyword(&node.safety).map(|word| word.span.start()));
        visit::visit_signature(self, node);
    }
    fn visit_item_trait(&mut self, node: &'ast syn::ItemTrait) {
        self.seen
            .extend(node.unsafety.map(|word| word.span.start()));
        self.require(node.unsafety.as_ref(), &node.attrs);
        visit::visit_item_trait(self, node);
    }
    fn visit_item_impl(&mut self, node: &'ast ItemImpl) {
        for item in &node.items {
            if let (None, ImplItem::Fn(function)) = (&node.trait_, item) {
                self.require(keyword(&function.sig.safety), &function.attrs);
            }
        }
        visit::visit_item_impl(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Finding> {
        check(&Source::parse("crates/linux/src/lib.rs", text).unwrap())
    }

    #[test]
    fn unexplained_unsafe_is_found() {
        for text in [
            "fn f() { unsafe { g() } }",
            "fn f() {\n    // because\n    unsafe { g() }\n}",
            "// SAFETY: too far away.\nfn f() {\n    a();\n    unsafe { g() }\n}",
            "unsafe impl Sync for X {}",
            "fn f() { assert!(unsafe { g() }); }",
        ] {
            assert_eq!(found(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn explained_unsafe_is_fine() {
        for text in [
            "fn f() {\n    // SAFETY: as g asks.\n    unsafe { g() }\n}",
            "fn f() {\n    // SAFETY: as g asks.\n    let x = h(\n        1,\n        unsafe { g() },\n    );\n}",
            "fn f() {\n    let x =\n        // SAFETY: as g asks.\n        unsafe { g() };\n}",
            "// SAFETY: X is a number.\n#[allow(x)]\nunsafe impl Sync for X {}",
            "#[unsafe(no_mangle)]\nextern \"C\" fn f() {}\nunsafe extern \"C\" { fn g(); }",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn an_unsafe_interface_without_a_contract_is_found() {
        for text in [
            "/// Does it.\nunsafe fn f() {}",
            "unsafe trait T {}",
            "trait T { unsafe fn f(); }",
            "impl X { unsafe fn f() {} }",
            "fn f() { unsafe fn g() {} }",
            "macro_rules! m { ($f:ident) => { pub unsafe fn $f() {} } }",
            "m! { #[inline]\nunsafe extern \"C\" fn f() {} }",
            "m! { unsafe trait T {} }",
            "m! { impl<F: for<'a> G<'a>> X<F> { unsafe fn f() {} } }",
        ] {
            assert_eq!(found(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn an_unsafe_interface_with_a_contract_is_fine() {
        for text in [
            "/// Does it.\n///\n/// # Safety\n/// Once.\nunsafe fn f() {}",
            "/// # Safety\n/// Only for numbers.\nunsafe trait T {}",
            "impl T for X { unsafe fn f() {} }",
            "type F = unsafe fn();",
            "m! { impl<A> T for $x { fn g() {} unsafe fn f() {} } }",
            "m! { type F = unsafe fn(); type G = unsafe extern \"C\" fn(); }",
            "m! {\n/// Does it.\n///\n/// # Safety\n/// Once.\n#[inline]\nunsafe fn f() {} }",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
