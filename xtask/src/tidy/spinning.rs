//! A loop of crates/core that waits does so through its `Platform`. A loop is judged by its
//! own text, so these are not seen: one that calls a function which only looks at a word, a
//! `for`, and in a macro all but a `while` that loads and has an empty body.

use proc_macro2::{LineColumn, Span};
use syn::{BinOp, Expr, visit, visit::Visit};

use super::{Finding, source::Source};

const CORE: &str = "crates/core/src/";

/// Methods of results that do nothing.
const PLAIN: [&str; 6] = ["is_err", "is_ok", "is_some", "is_none", "ok", "err"];

/// Checks a file of crates/core; its tests may do as they like.
pub fn check(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with(CORE) {
        return Vec::new();
    }
    let mut loops = Loops(Vec::new());
    loops.visit_file(&source.ast);
    (0..source.tokens.len())
        .filter(|&at| !source.tokens[at].test)
        .filter(|&at| loops.0.contains(&source.tokens[at].at) || only_loads(source, at))
        .map(|at| {
            let message = "a loop that only looks at a word: wait with `Platform::spin_until` or \
                           `Platform::park`";
            Finding::new(&source.path, source.tokens[at].at.line, message)
        })
        .collect()
}

/// Whether a `while` begins at an index that loads a word in its condition and has an empty
/// body.
fn only_loads(source: &Source, at: usize) -> bool {
    if source.tokens[at].text != "while" {
        return false;
    }
    let mut depth = 0;
    let mut loads = false;
    for (index, token) in source.tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "{" if depth == 0 => return loads && source.has(index + 1, &["}"]),
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "load" => loads = true,
            _ => {}
        }
    }
    false
}

/// Where bare spin loops begin.
struct Loops(Vec<LineColumn>);

impl Loops {
    fn add(&mut self, deeds: &Deeds, keyword: Span) {
        if deeds.only_look() {
            self.0.push(keyword.start());
        }
    }
}

impl<'ast> Visit<'ast> for Loops {
    fn visit_expr(&mut self, node: &'ast Expr) {
        let mut deeds = Deeds::default();
        match node {
            Expr::Loop(node) => {
                deeds.visit_block(&node.body);
                self.add(&deeds, node.loop_token.span);
            }
            Expr::While(node) => {
                deeds.visit_expr(&node.cond);
                deeds.visit_block(&node.body);
                self.add(&deeds, node.while_token.span);
            }
            _ => {}
        }
        visit::visit_expr(self, node);
    }
}

/// What a loop does in a round.
#[derive(Default)]
struct Deeds {
    loads: bool,
    exchanges: bool,
    assigns: bool,
    /// It stores, counts, or calls what may wait.
    other: bool,
}

impl Deeds {
    /// An exchange that goes on from what it found, or from what the same round has loaded,
    /// is no wait.
    fn only_look(&self) -> bool {
        let waits = match (self.loads, self.exchanges) {
            (true, exchanges) => !exchanges,
            (false, exchanges) => exchanges && !self.assigns,
        };
        waits && !self.other
    }
}

impl<'ast> Visit<'ast> for Deeds {
    fn visit_expr_method_call(&mut self, node: &'ast syn::ExprMethodCall) {
        match node.method.to_string().as_str() {
            "load" => self.loads = true,
            "swap" | "compare_exchange" => self.exchanges = true,
            name if name.starts_with("fetch_") => self.exchanges = true,
            name => self.other |= !PLAIN.contains(&name),
        }
        visit::visit_expr_method_call(self, node);
    }
    fn visit_expr_call(&mut self, node: &'ast syn::ExprCall) {
        // `Some(..)` and the like make a value.
        let name = match &*node.func {
            Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.other |= !name.is_some_and(|name| name.starts_with(char::is_uppercase));
        visit::visit_expr_call(self, node);
    }
    fn visit_expr_assign(&mut self, node: &'ast syn::ExprAssign) {
        self.assigns = true;
        visit::visit_expr_assign(self, node);
    }
    fn visit_bin_op(&mut self, op: &'ast BinOp) {
        // A count, up or down.
        self.other |= matches!(op, BinOp::AddAssign(_) | BinOp::SubAssign(_));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> usize {
        let text = format!("fn f() {{ {body} }}");
        check(&Source::parse("crates/core/src/osq.rs", &text).unwrap()).len()
    }

    #[test]
    fn bare_spinning_is_found() {
        for body in [
            "loop { if w.load(Relaxed) != 0 { break; } }",
            "while w.load(Relaxed) == 0 { let _ = 1; }",
            "while w.compare_exchange(0, 1, Relaxed, Relaxed).is_err() {}",
            "while w.swap(1, Relaxed) != 0 {}",
            "let mut x = w.load(Relaxed); while x != 0 { x = w.load(Relaxed); }",
            "m! { while w.load(Relaxed) != 0 {} }",
            "while let Some(0) = Some(w.load(Relaxed)) {}",
        ] {
            assert_eq!(found(body), 1, "{body}");
        }
    }

    #[test]
    fn what_waits_through_the_platform_or_gets_on_is_fine() {
        for body in [
            "while w.load(Relaxed) != 0 { P::park(None); }",
            "loop { if w.load(Relaxed) != 0 { break; } self.wait(); }",
            "loop { match w.compare_exchange(x, x + 1, Relaxed, Relaxed) { Err(now) => x = now, \
             Ok(_) => break } }",
            "loop { let x = w.load(Relaxed); if w.compare_exchange(x, x | 1, Relaxed, Relaxed)\
             .is_ok() { break; } }",
            "while let Some(x) = next() {}",
            "while i < n { if w[i].load(Relaxed) != 0 { return i; } i += 1; }",
            "#[cfg(test)] fn g() { while w.load(Relaxed) != 0 {} }",
        ] {
            assert_eq!(found(body), 0, "{body}");
        }
    }
}
