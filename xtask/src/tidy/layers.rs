//! Which crate may depend on which: core on nothing but `lock_api`, a world on
//! core and never on another world.

use anyhow::Context;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Finding, TextFile};

const CORE: &str = "lockyard-core";
const WORLDS: [&str; 3] = ["lockyard-linux", "lockyard-sim", "lockyard-check"];

/// A crate's manifest.
struct Manifest {
    path: String,
    name: String,
    dependencies: Vec<Dependency>,
}

/// A dependency of any kind, for any target, by the name of its package.
struct Dependency {
    name: String,
    line: usize,
}

/// Checks the manifests of the crates.
///
/// # Errors
/// A manifest is not TOML.
pub fn check(files: &[TextFile]) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let root = files.iter().find(|file| file.path == "Cargo.toml");
    let root = root.map_or("", |file| &file.text);
    let root = DeTable::parse(root).context("Cargo.toml is broken")?;
    let shared = table(root.get_ref(), "workspace").and_then(|all| table(all, "dependencies"));
    for file in files {
        if file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml") {
            let manifest =
                parse(file, shared).with_context(|| format!("{} is broken", file.path))?;
            findings.extend(judge(&manifest));
        }
    }
    Ok(findings)
}

fn judge(manifest: &Manifest) -> Vec<Finding> {
    let is_world = WORLDS.contains(&manifest.name.as_str());
    let mut findings: Vec<Finding> = manifest
        .dependencies
        .iter()
        .filter_map(|dependency| {
            let name = &dependency.name;
            let message = if manifest.name == CORE && name != "lock_api" {
                format!("core depends on {name}: it may on nothing but lock_api; use `Platform`")
            } else if is_world && WORLDS.contains(&name.as_str()) {
                format!("a world depends on the world {name}: move what both need into core")
            } else {
                return None;
            };
            Some(Finding::new(&manifest.path, dependency.line, message))
        })
        .collect();
    if is_world && !manifest.dependencies.iter().any(|d| d.name == CORE) {
        let message = format!("a world without {CORE}: depend on it and implement its `Platform`");
        findings.push(Finding::new(&manifest.path, 1, message));
    }
    findings
}

/// Parses a manifest. `shared` is what it may take from the workspace.
fn parse(file: &TextFile, shared: Option<&DeTable>) -> anyhow::Result<Manifest> {
    let document = DeTable::parse(&file.text)?;
    let root = document.get_ref();
    let mut tables = dependency_tables(root);
    for (_, target) in table(root, "target").into_iter().flatten() {
        tables.extend(
            target
                .get_ref()
                .as_table()
                .map_or_else(Vec::new, dependency_tables),
        );
    }
    let dependencies = tables
        .into_iter()
        .flatten()
        .map(|(key, value)| Dependency {
            name: package(key.get_ref(), value, shared).to_owned(),
            line: file.text[..key.span().start].matches('\n').count() + 1,
        })
        .collect();
    let name = table(root, "package")
        .and_then(|package| package.get("name")?.get_ref().as_str())
        .context("it names no package")?;
    Ok(Manifest {
        path: file.path.clone(),
        name: name.to_owned(),
        dependencies,
    })
}

fn dependency_tables<'a>(parent: &'a DeTable<'a>) -> Vec<&'a DeTable<'a>> {
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .into_iter()
        .filter_map(|name| table(parent, name))
        .collect()
}

fn table<'a>(parent: &'a DeTable<'a>, name: &str) -> Option<&'a DeTable<'a>> {
    parent.get(name)?.get_ref().as_table()
}

/// The package's own name, where a dependency is renamed, here or by the workspace.
fn package<'a>(
    key: &'a str,
    dependency: &'a Spanned<DeValue>,
    shared: Option<&'a DeTable>,
) -> &'a str {
    let renamed = |dependency: &'a Spanned<DeValue>| {
        dependency
            .get_ref()
            .as_table()?
            .get("package")?
            .get_ref()
            .as_str()
    };
    let inherits = dependency
        .get_ref()
        .as_table()
        .is_some_and(|d| d.contains_key("workspace"));
    let shared = shared
        .filter(|_| inherits)
        .and_then(|shared| shared.get(key));
    renamed(shared.unwrap_or(dependency)).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, dependencies: &str) -> Vec<Finding> {
        found_in("", name, dependencies)
    }

    fn found_in(root: &str, name: &str, dependencies: &str) -> Vec<Finding> {
        let root = TextFile {
            path: "Cargo.toml".to_owned(),
            text: root.to_owned(),
        };
        let file = TextFile {
            path: "crates/x/Cargo.toml".to_owned(),
            text: format!("[package]\nname = \"{name}\"\n{dependencies}"),
        };
        check(&[file, root]).unwrap()
    }

    #[test]
    fn core_depends_on_lock_api_alone() {
        assert!(found(CORE, "[dependencies]\nlock_api.workspace = true").is_empty());
        for dependencies in [
            "[dependencies]\nlibc = \"0.2\"",
            "[dev-dependencies]\nloom = \"0.7\"",
            "[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"",
            "[dependencies.lock_api]\npackage = \"other\"",
        ] {
            assert_eq!(found(CORE, dependencies).len(), 1, "{dependencies}");
        }
    }

    #[test]
    fn a_world_depends_on_core_and_on_no_other_world() {
        let core = "[dependencies]\nlockyard-core.workspace = true\n";
        assert!(found("lockyard-sim", core).is_empty());
        assert_eq!(found("lockyard-sim", "").len(), 1);
        let other = format!("{core}other = {{ package = \"lockyard-linux\", path = \"x\" }}");
        let found = found("lockyard-sim", &other);
        assert_eq!((found.len(), found[0].line), (1, 5));
    }

    #[test]
    fn what_the_workspace_renames_is_known() {
        let root = "[workspace.dependencies]\ninnocent = { package = \"lockyard-linux\" }";
        let world = "[dependencies]\nlockyard-core = {}\ninnocent.workspace = true";
        assert_eq!(found_in(root, "lockyard-sim", world).len(), 1);
        let core = "[target.x.dev-dependencies]\nlock_api = { workspace = true }";
        let root = "[workspace.dependencies.lock_api]\npackage = \"other\"";
        assert_eq!(found_in(root, CORE, core).len(), 1);
        let own = "[dependencies]\nlock_api = \"0.5\"";
        assert!(found_in(root, CORE, own).is_empty());
    }

    #[test]
    fn others_depend_on_what_they_like() {
        let worlds = "[dependencies]\nlockyard-linux = {}\nlockyard-sim = {}\nlibc = \"0.2\"";
        assert!(found("lockyard-lab", worlds).is_empty());
    }
}
