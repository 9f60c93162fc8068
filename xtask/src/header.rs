//! The C header, made from the sources of `crates/capi`: each type and function that
//! stands there for C, in their order and with their documentation. They use a handful
//! of types; a generator for all of Rust (cbindgen) would bring many crates to build.

use std::{fmt::Write, fs, path::Path};

use anyhow::{Context, bail};
use syn::{
    Attribute, Expr, FnArg, GenericArgument, Item, Lit, Pat, PathArguments, PointerMutability,
    ReturnType, Type,
};

const SOURCES: &str = "crates/capi/src";
/// Where the header lies, from the root.
pub const HEADER: &str = "crates/capi/include/lockyard.h";

const BEGIN: &str = r#"#ifndef LOCKYARD_H
#define LOCKYARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct timespec; /* as in time.h, which strict C99 keeps from declaring it */
"#;

const END: &str = r"
#ifdef __cplusplus
}
#endif

#endif
";

/// Writes the header; or only says whether it is what the sources make.
///
/// # Errors
/// A file cannot be read or written, or has what this module cannot say in C.
pub fn run(root: &Path, write: bool) -> anyhow::Result<bool> {
    let header = root.join(HEADER);
    let fresh = generate(&|module| {
        let path = root.join(SOURCES).join(format!("{module}.rs"));
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    })?;
    if write {
        fs::create_dir_all(header.parent().expect("it is in a directory"))?;
        fs::write(&header, fresh).with_context(|| format!("cannot write {HEADER}"))?;
        return Ok(true);
    }
    Ok(fs::read_to_string(&header).is_ok_and(|committed| committed == fresh))
}

/// The header of what `source` gives for `lib` and the modules that it names.
fn generate(source: &dyn Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<String> {
    let lib = syn::parse_file(&source("lib")?)?;
    let mut out = String::from("/* Made from crates/capi/src by `cargo xtask header`. */\n\n");
    comment(&mut out, &lib.attrs);
    out.push('\n');
    out.push_str(BEGIN);
    for item in &lib.items {
        let Item::Mod(module) = item else { continue };
        let file = syn::parse_file(&source(&module.ident.to_string())?)?;
        for item in &file.items {
            declare(&mut out, item)?;
        }
    }
    out.push_str(END);
    Ok(out)
}

/// Declares an item, if it is for C.
fn declare(out: &mut String, item: &Item) -> anyhow::Result<()> {
    match item {
        Item::Struct(item) => {
            let name = snake(&item.ident.to_string());
            out.push('\n');
            comment(out, &item.attrs);
            writeln!(out, "typedef struct lockyard_{name}_t {{")?;
            let first = item
                .fields
                .iter()
                .next()
                .context("a type without a field")?;
            let opaque = layout(&first.ty);
            if let Some((word, words)) = &opaque {
                writeln!(out, "    {word} opaque[{words}];")?;
            } else {
                for field in &item.fields {
                    let (Some(ident), Some(ty)) = (&field.ident, spelled(&field.ty)) else {
                        bail!(
                            "{}: neither Opaque<_, [word; words]> nor fields for C",
                            item.ident
                        );
                    };
                    writeln!(out, "    {ty}{ident};")?;
                }
            }
            writeln!(out, "}} lockyard_{name}_t;")?;
            if opaque.is_some() {
                let name = name.to_uppercase();
                writeln!(out, "\n#define LOCKYARD_{name}_INITIALIZER {{ {{ 0 }} }}")?;
            }
        }
        Item::Const(item) if item.ident != "_" => {
            let value =
                literal(&item.expr).with_context(|| format!("{} is not a literal", item.ident))?;
            out.push('\n');
            comment(out, &item.attrs);
            writeln!(out, "#define LOCKYARD_{} {value}", item.ident)?;
        }
        Item::Fn(item) if item.sig.abi.is_some() => {
            let name = &item.sig.ident;
            match &item.sig.output {
                ReturnType::Type(_, ty) if self::name(ty).is_some_and(|ty| ty == "c_int") => {}
                _ => bail!("{name} does not return c_int"),
            }
            let parameters = item.sig.inputs.iter().map(parameter);
            let parameters = parameters
                .collect::<anyhow::Result<Vec<_>>>()
                .with_context(|| format!("a parameter of {name}"))?;
            let parameters = match parameters.is_empty() {
                true => vec!["void".to_owned()],
                false => parameters,
            };
            out.push('\n');
            comment(out, &item.attrs);
            let line = format!("int {name}({});", parameters.join(", "));
            let between = format!(",\n{}", " ".repeat(name.to_string().len() + 5));
            if line.len() <= 100 {
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "int {name}({});", parameters.join(&between))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The documentation as a comment, without the headings of its sections.
fn comment(out: &mut String, attributes: &[Attribute]) {
    out.push_str("/*\n");
    for line in attributes.iter().filter_map(documentation) {
        if !line.trim_start().starts_with('#') {
            out.push_str(format!(" *{line}").trim_end());
            out.push('\n');
        }
    }
    out.push_str(" */\n");
}

fn documentation(attribute: &Attribute) -> Option<String> {
    let meta = attribute.meta.require_name_value().ok()?;
    match &meta.value {
        Expr::Lit(syn::ExprLit {
            lit: Lit::Str(text),
            ..
        }) if meta.path.is_ident("doc") => Some(text.value()),
        _ => None,
    }
}

/// The C word of an `Opaque<_, [word; words]>`, and how many.
fn layout(ty: &Type) -> Option<(&'static str, String)> {
    let Type::Path(path) = ty else { return None };
    let opaque = path.path.segments.last().filter(|s| s.ident == "Opaque")?;
    let PathArguments::AngleBracketed(arguments) = &opaque.arguments else {
        return None;
    };
    let GenericArgument::Type(Type::Array(array)) = arguments.args.last()? else {
        return None;
    };
    let word = match name(&array.elem)?.as_str() {
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        _ => return None,
    };
    Some((word, literal(&array.len)?))
}

/// A number as it is written.
fn literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Lit(syn::ExprLit {
            lit: Lit::Int(number),
            ..
        }) => Some(number.to_string()),
        _ => None,
    }
}

fn parameter(argument: &FnArg) -> anyhow::Result<String> {
    let FnArg::Typed(argument) = argument else {
        bail!("a method is no function for C");
    };
    let Pat::Ident(pattern) = &*argument.pat else {
        bail!("it has no name");
    };
    let ident = pattern.ident.to_string();
    let ty = spelled(&argument.ty).with_context(|| format!("the type of {ident}"))?;
    Ok(format!("{ty}{}", ident.trim_start_matches('_')))
}

/// A type as C writes it before a name. What a raw pointer to `const` points to is only
/// read; a lock changes itself, however it is referred to.
fn spelled(ty: &Type) -> Option<String> {
    let (pointee, qualifier) = match ty {
        Type::Path(_) => match inner(ty, "Option") {
            Some(Type::Reference(reference)) => (&*reference.elem, ""),
            Some(_) => return None,
            None => {
                return match name(ty)?.as_str() {
                    "u32" => Some("uint32_t ".to_owned()),
                    "u64" => Some("uint64_t ".to_owned()),
                    _ => None,
                };
            }
        },
        Type::Reference(reference) => (&*reference.elem, ""),
        Type::Ptr(pointer) => match pointer.mutability {
            PointerMutability::Const(_) => (&*pointer.elem, "const "),
            PointerMutability::Mut(_) => (&*pointer.elem, ""),
        },
        _ => return None,
    };
    let pointee = inner(pointee, "MaybeUninit").unwrap_or(pointee);
    Some(match name(pointee)?.as_str() {
        "timespec" => "const struct timespec *".to_owned(),
        "u32" => "uint32_t *".to_owned(),
        // Of C's and C++'s atomic types, and of a plain one.
        "AtomicU32" => format!("{qualifier}volatile void *"),
        ours => format!("{qualifier}lockyard_{}_t *", snake(ours)),
    })
}

/// The argument of a generic type of this name.
fn inner<'a>(ty: &'a Type, generic: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|s| s.ident == generic)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(argument) => Some(argument),
        _ => None,
    }
}

/// The name of a type without arguments.
fn name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}

/// `PercpuRwlock` as `percpu_rwlock`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(module: &str) -> anyhow::Result<String> {
        generate(&|name| {
            Ok(if name == "lib" {
                "//! Locks.\nmod a;".to_owned()
            } else {
                module.to_owned()
            })
        })
    }

    #[test]
    fn a_type_and_a_function_are_declared() {
        let made = made(
            "/// A lock.\n#[repr(transparent)]\npub struct AbLock(Opaque<Raw<X>, [u64; 2]>);\n\
             /// Takes it.\n///\n/// # Safety\n/// It is free.\n#[unsafe(no_mangle)]\n\
             pub unsafe extern \"C\" fn f(a: &mut MaybeUninit<AbLock>, _at: &timespec) -> c_int { 0 }\n\
             fn inner() {}",
        )
        .unwrap();
        let expected = "
/*
 * A lock.
 */
typedef struct lockyard_ab_lock_t {
    uint64_t opaque[2];
} lockyard_ab_lock_t;

#define LOCKYARD_AB_LOCK_INITIALIZER { { 0 } }

/*
 * Takes it.
 *
 * It is free.
 */
int f(lockyard_ab_lock_t *a, const struct timespec *at);

#ifdef __cplusplus
}
";
        assert!(made.contains(expected), "{made}");
        assert!(made.contains("/*\n * Locks.\n */\n\n#ifndef"), "{made}");
    }

    #[test]
    fn words_numbers_and_fields_are_declared() {
        let made = made(
            "/// A pair.\n#[repr(C)]\npub struct Pair { word: *const AtomicU32, value: u32 }\n\
             /// Most.\npub const MOST: u32 = 8;\nconst _: () = assert!(MOST == 8);\n\
             /// Waits.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn f(a: *const Pair, \
             b: *mut AtomicU32, at: Option<&timespec>, n: Option<&mut MaybeUninit<u32>>) -> c_int { 0 }",
        )
        .unwrap();
        let expected = "
/*
 * A pair.
 */
typedef struct lockyard_pair_t {
    const volatile void *word;
    uint32_t value;
} lockyard_pair_t;

/*
 * Most.
 */
#define LOCKYARD_MOST 8

/*
 * Waits.
 */
int f(const lockyard_pair_t *a, volatile void *b, const struct timespec *at, uint32_t *n);
";
        assert!(made.contains(expected), "{made}");
    }

    #[test]
    fn a_stale_header_is_found() {
        let root = std::env::temp_dir().join(format!("lockyard-header-{}", std::process::id()));
        fs::create_dir_all(root.join(SOURCES)).unwrap();
        fs::write(root.join(SOURCES).join("lib.rs"), "//! Before.").unwrap();
        assert!(!run(&root, false).unwrap());
        assert!(run(&root, true).unwrap() && run(&root, false).unwrap());
        fs::write(root.join(SOURCES).join("lib.rs"), "//! After.").unwrap();
        assert!(!run(&root, false).unwrap());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_c_cannot_say_is_an_error() {
        assert!(made("pub struct A(Raw);").is_err());
        assert!(made("pub struct A { word: u8 }").is_err());
        assert!(made("pub const A: u32 = B + 1;").is_err());
        assert!(made("pub extern \"C\" fn f(a: u8) -> c_int { 0 }").is_err());
        assert!(made("pub extern \"C\" fn f(a: Option<u32>) -> c_int { 0 }").is_err());
        assert!(made("pub extern \"C\" fn f(a: u32) -> u64 { 0 }").is_err());
        assert!(made("pub extern \"C\" fn f(a: u32) {}").is_err());
    }
}
