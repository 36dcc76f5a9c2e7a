//! The walls between crates: what each may build on and link, and what is written in one place alone.
//!
//! What clippy can see (who calls a method that writes to the cluster) stands in `clippy.toml`; this is the rest.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use serde_json::Value;

/// Which crates of the workspace a crate may build on, development dependencies aside.
const WALLS: [(&str, &[&str]); 11] = [
    ("firebolt-api", &[]),
    ("firebolt-core", &["firebolt-api"]),
    ("firebolt-process", &[]),
    ("firebolt-runtime", &["firebolt-process"]),
    (
        "firebolt-operator",
        &["firebolt-api", "firebolt-core", "firebolt-process", "firebolt-runtime"],
    ),
    ("firebolt-wake-agent", &["firebolt-api", "firebolt-process"]),
    ("localkube", &["firebolt-process"]),
    ("stand-ins", &["firebolt-api", "firebolt-process"]),
    ("testkit", &["firebolt-api"]),
    ("e2e", &["firebolt-api", "localkube", "stand-ins", "testkit"]),
    (
        "xtask",
        &[
            "firebolt-api",
            "firebolt-core",
            "firebolt-process",
            "localkube",
            "stand-ins",
        ],
    ),
];

/// Crates that do no I/O, and what they must not link, directly or through others.
const PURE: [&str; 2] = ["firebolt-api", "firebolt-core"];
const IMPURE: [&str; 6] = ["tokio", "hyper", "kube-client", "kube-runtime", "fastrand", "rand"];

/// Keys of object metadata are spelled once, in this file.
const KEYS: &str = "crates/api/src/key.rs";
/// Crates that are not part of the product, and may write to the cluster as they like.
const DEVELOPMENT: [&str; 3] = ["crates/localkube/", "crates/stand-ins/", "crates/testkit/"];

/// Every gap in the walls, a line each.
pub(super) fn faults(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut faults = wrong_dependencies(&crate::packages(root)?);
    for name in PURE {
        faults.extend(impurities(name, &linked_crates(root, name)?));
    }
    faults.extend(misplaced_keys(&files_with(root, r#""(compute\.)?firebolt\.io/[a-z]"#)?));
    faults.extend(misplaced_writers(&files_with(root, "clippy::disallowed_methods")?));
    Ok(faults)
}

fn wrong_dependencies(packages: &[Value]) -> Vec<String> {
    let name_of = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name_of).collect();
    let mut faults = Vec::new();
    for package in packages {
        let name = name_of(package);
        let Some((_, allowed)) = WALLS.iter().find(|(wall, _)| *wall == name) else {
            let place = file!();
            faults.push(format!("{name} has no wall: say in {place} what it may build on"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let linked = dependencies
            .filter(|dependency| dependency["kind"] != "dev")
            .map(name_of);
        let wrong = linked.filter(|dependency| ours.contains(dependency) && !allowed.contains(&dependency.as_str()));
        faults.extend(wrong.map(|dependency| format!("{name} may not build on {dependency}")));
    }
    faults
}

fn impurities(name: &str, linked: &str) -> Vec<String> {
    let linked: BTreeSet<&str> = linked.lines().filter_map(|line| line.split(' ').next()).collect();
    let impure = IMPURE.iter().filter(|other| linked.contains(*other));
    impure.map(|other| format!("{name} may not link {other}")).collect()
}

/// Files in which a key of object metadata is written out as a text.
fn misplaced_keys(files: &str) -> Vec<String> {
    let others = files.lines().filter(|file| *file != KEYS);
    others
        .map(|file| format!("{file} spells a metadata key: take it from {KEYS}"))
        .collect()
}

/// Files of the product that except themselves from the lint on writes to the cluster.
fn misplaced_writers(files: &str) -> Vec<String> {
    let product = files
        .lines()
        .filter(|file| !DEVELOPMENT.iter().any(|folder| file.starts_with(folder)));
    let others = product.filter(|file| !file.ends_with("/apply.rs"));
    others
        .map(|file| format!("{file} writes to the cluster: only files called apply.rs may"))
        .collect()
}

/// Every crate that `name` links, a line each.
fn linked_crates(root: &Path, name: &str) -> Result<String, Box<dyn Error>> {
    let mut command = crate::cargo(root);
    command.args([
        "tree",
        "--locked",
        "--edges=normal",
        "--prefix=none",
        "--format={p}",
        "--package",
        name,
    ]);
    super::output(&mut command)
}

/// Source files that hold the pattern, a line each.
fn files_with(root: &Path, pattern: &str) -> Result<String, Box<dyn Error>> {
    let arguments = ["grep", "--untracked", "-lE", pattern, "--", "crates/*/src/*.rs"];
    super::git(root, &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependency: &str, kind: &Value) -> Value {
        json!({ "name": name, "dependencies": [{ "name": dependency, "kind": kind }] })
    }

    #[test]
    fn a_dependency_against_the_direction_is_a_fault() {
        let core = package("firebolt-core", "firebolt-operator", &Value::Null);
        let operator = package("firebolt-operator", "firebolt-core", &Value::Null);
        let faults = wrong_dependencies(&[core, operator]);
        assert_eq!(faults, ["firebolt-core may not build on firebolt-operator"]);
    }

    #[test]
    fn tests_may_build_on_anything() {
        let api = package("firebolt-api", "localkube", &json!("dev"));
        let localkube = package("localkube", "serde", &Value::Null);
        assert!(wrong_dependencies(&[api, localkube]).is_empty());
    }

    #[test]
    fn a_crate_without_a_wall_is_a_fault() {
        assert!(wrong_dependencies(&[package("newcomer", "serde", &Value::Null)])[0].contains("newcomer has no wall"));
    }

    #[test]
    fn a_runtime_in_a_pure_crate_is_a_fault() {
        let faults = impurities(
            "firebolt-core",
            "firebolt-core v0.1.0 (path)\nserde v1.0.0\ntokio v1.54.1\n",
        );
        assert_eq!(faults, ["firebolt-core may not link tokio"]);
    }

    #[test]
    fn keys_and_writers_have_their_places() {
        assert!(misplaced_keys("crates/api/src/key.rs\n").is_empty());
        assert_eq!(misplaced_keys("crates/core/src/lib.rs\n").len(), 1);
        assert!(
            misplaced_writers("crates/operator/src/leader/apply.rs\ncrates/localkube/src/identity.rs\n").is_empty()
        );
        assert_eq!(misplaced_writers("crates/operator/src/process.rs\n").len(), 1);
    }
}
