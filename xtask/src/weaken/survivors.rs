//! The weakenings that no model is known to catch.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::sites::Site;

/// Where they are written down.
pub const LIST: &str = "crates/check/survivors.toml";

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    survivor: Vec<Survivor>,
}

/// A weakening that passes all models, and why the ordering stays.
#[derive(Deserialize)]
pub struct Survivor {
    /// Which weakening.
    #[serde(flatten)]
    pub site: Site,
    why: String,
}

/// The committed list.
pub fn read(root: &Path) -> anyhow::Result<Vec<Survivor>> {
    let text = fs::read_to_string(root.join(LIST)).with_context(|| format!("no {LIST}"))?;
    parse(&text).with_context(|| format!("{LIST} is malformed"))
}

fn parse(text: &str) -> anyhow::Result<Vec<Survivor>> {
    let list: List = toml::from_str(text)?;
    for survivor in &list.survivor {
        ensure!(
            !survivor.why.trim().is_empty(),
            "no reason for {:?}",
            survivor.site
        );
    }
    Ok(list.survivor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[survivor]]\nfile = \"a.rs\"\nfunction = \"f\"\nlabel = \"M2 Q1\"\nchange = \"AcqRel -> Acquire\"\nwhy = ";

    #[test]
    fn a_survivor_has_a_site_and_a_reason() {
        let list = parse(&format!("{ONE}\"it must\"")).unwrap();
        assert_eq!(list[0].site.label, "M2 Q1");
        assert!(parse(&format!("{ONE}\" \"")).is_err());
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn the_committed_list_is_well_formed() {
        let root = &crate::root().unwrap();
        read(root).unwrap();
    }
}
