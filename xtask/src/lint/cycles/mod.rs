//! No cycles between modules of a crate.
//!
//! # The rule
//!
//! At every level of the tree of modules, the modules beside each other form no cycle by what they use. A path from
//! `a::x` to `b::y` counts as a use of `b` by `a`, where `a` and `b` are the children of the nearest module that contains
//! both. A path that leads to a re-export counts as a use of the module that has the item.
//!
//! A module and its parent are no cycle: `mod.rs` may hold what its children share, and use the children. So a path from
//! a module to its parent's own items does not count, nor does one from a parent to a child. Nor do unit tests (whatever
//! is under `#[cfg(test)]`). Test programs and benchmarks are checked like any other crate.
//!
//! # Caveats
//!
//! Sources are read as tokens, so that paths within macros count, too. What a macro makes is not seen. A name that comes
//! through a glob import of a parent (`use super::*`) is not seen either. A module with a `#[path]` is not read: its file
//! belongs to another program.

mod graph;
mod source;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use self::graph::Graph;
use self::source::{Crate, Use};

/// How many places are shown of each use that is part of a cycle.
const SHOWN: usize = 3;

/// The cycles of every crate of the workspace, each with the lines that make it.
pub(super) fn faults(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut faults = Vec::new();
    for package in crate::packages(root)? {
        let package_name = package["name"].as_str().unwrap_or_default();
        let targets = package["targets"].as_array().into_iter().flatten();
        let sources = targets.filter(|target| {
            ["lib", "bin", "test", "bench"]
                .iter()
                .any(|kind| target["kind"][0] == *kind)
        });
        for target in sources {
            let path = PathBuf::from(target["src_path"].as_str().unwrap_or_default());
            let source = Crate::read(&path)?;
            let target_name = target["name"].as_str().unwrap_or_default();
            let name = match target["kind"][0].as_str() {
                Some("test" | "bench") => format!("{package_name} ({target_name})"),
                _ => package_name.to_owned(),
            };
            faults.extend(cycles(&source).iter().map(|cycle| describe(root, &name, cycle)));
        }
    }
    Ok(faults)
}

/// Modules beside each other that use each other, directly or around.
struct Cycle {
    /// The module that contains them.
    parent: String,
    modules: Vec<String>,
    /// What each uses of another, with the places.
    uses: Vec<(String, String, Vec<Use>)>,
}

fn cycles(source: &Crate) -> Vec<Cycle> {
    let mut levels: BTreeMap<String, Graph<Use>> = BTreeMap::new();
    let mut uses = source.uses();
    // `use crate::a::{self, A}` is one use.
    uses.dedup();
    for used in uses {
        let common = used.from.iter().zip(&used.to).take_while(|(a, b)| a == b).count();
        // One contains the other.
        if common == used.from.len() || common == used.to.len() {
            continue;
        }
        let parent = used.from[..common].join("::");
        let (from, to) = (used.from[common].clone(), used.to[common].clone());
        levels.entry(parent).or_default().add(from, to, used);
    }
    let mut found = Vec::new();
    for (parent, graph) in &levels {
        found.extend(graph.cycles().into_iter().map(|modules| Cycle {
            parent: parent.clone(),
            uses: graph.within(&modules),
            modules,
        }));
    }
    found
}

fn describe(root: &Path, package: &str, cycle: &Cycle) -> String {
    let parent = if cycle.parent.is_empty() { "" } else { "::" };
    let modules = cycle.modules.join(", ");
    let mut text = format!("{package}{parent}{}: {modules}", cycle.parent);
    for (from, to, places) in &cycle.uses {
        let _ = write!(text, "\n    {from} uses {to} ({} times)", places.len());
        for place in places.iter().take(SHOWN) {
            let file = place.file.strip_prefix(root).unwrap_or(&place.file).display();
            let _ = write!(text, "\n        {file}:{}: {}", place.line, place.to.join("::"));
        }
    }
    text
}
