//! Links and paths in the documents lead to something that exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is in the root")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// The entries of a directory.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("list a directory");
    entries
        .map(|entry| entry.expect("read a directory entry").path())
        .collect()
}

/// Every Markdown document that is written by hand.
fn documents() -> Vec<PathBuf> {
    let directories = ["", "docs", "docs/adr", "docs/operations", "tools"];
    let files = directories
        .iter()
        .flat_map(|directory| entries(&root().join(directory)));
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

/// The text without code blocks.
fn prose(text: &str) -> String {
    let outside_fences = text.split("```").step_by(2).collect::<String>();
    let lines = outside_fences.lines().filter(|line| !line.starts_with("    "));
    lines.collect::<Vec<_>>().join("\n")
}

/// The targets of the inline links.
fn links(text: &str) -> Vec<String> {
    let after = text.split("](").skip(1);
    after
        .filter_map(|rest| rest.split(')').next())
        .map(str::to_owned)
        .collect()
}

/// The anchor that a heading has on a rendered page.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|heading| anchor(heading.trim_start_matches('#')))
        .collect()
}

/// Why a link leads nowhere. None if it leads somewhere, or out of the repository.
fn broken(document: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (path, fragment) = link
        .split_once('#')
        .map_or((link, None), |(path, fragment)| (path, Some(fragment)));
    let target = match path {
        "" => document.to_owned(),
        path => document.parent().expect("a document is in a directory").join(path),
    };
    let complaint = |what: &str| Some(format!("{}: {link}: {what}", document.display()));
    if !target.exists() {
        return complaint("no such file");
    }
    match fragment {
        Some(fragment) if !anchors(&read(&target)).contains(fragment) => complaint("no such heading"),
        _ => None,
    }
}

#[test]
fn links_between_documents_lead_to_a_file_and_a_heading() {
    let mut followed = 0;
    let mut complaints = Vec::new();
    for document in documents() {
        let links = links(&prose(&read(&document)));
        followed += links.len();
        complaints.extend(links.iter().filter_map(|link| broken(&document, link)));
    }
    assert!(followed > 60, "found only {followed} links");
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn a_broken_link_is_found() {
    let document = root().join("README.md");
    assert_eq!(broken(&document, "CONTRIBUTING.md#style"), None);
    for link in ["nowhere.md", "CONTRIBUTING.md#nowhere", "#nowhere"] {
        assert!(broken(&document, link).is_some(), "{link}");
    }
}

/// `a/{b,c}.rs` stands for `a/b.rs` and `a/c.rs`.
fn expand(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (choices, after) = rest.split_once('}').expect("braces are closed");
    let paths = choices.split(',').map(|choice| format!("{before}{choice}{after}"));
    paths.flat_map(|path| expand(&path)).collect()
}

/// The paths from the root that are named as code.
fn paths(text: &str) -> BTreeSet<String> {
    let top: BTreeSet<String> = entries(root())
        .iter()
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    let prose = prose(text);
    let spans = prose.split('`').skip(1).step_by(2);
    let is_path = |span: &&str| span.split('/').next().is_some_and(|first| top.contains(first));
    spans.filter(is_path).flat_map(expand).collect()
}

#[test]
fn every_path_in_the_architecture_exists() {
    let paths = paths(&read(&root().join("ARCHITECTURE.md")));
    assert!(paths.len() > 50, "found only {paths:?}");
    let missing: Vec<_> = paths.iter().filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_path_with_braces_stands_for_several() {
    assert_eq!(
        expand("a/{b,c}/{d,e}.rs"),
        ["a/b/d.rs", "a/b/e.rs", "a/c/d.rs", "a/c/e.rs"]
    );
    let found = paths("see `crates/{api,core}`, `firebolt.io/engine` and `src/main.rs`");
    assert_eq!(
        found,
        BTreeSet::from(["crates/api".to_owned(), "crates/core".to_owned()])
    );
}

#[test]
fn every_crate_is_in_the_architecture() {
    let paths = paths(&read(&root().join("ARCHITECTURE.md")));
    let crates = entries(&root().join("crates"));
    let names = crates.iter().filter(|path| path.join("Cargo.toml").exists());
    let names = names.filter_map(|path| path.file_name()?.to_str());
    let missing: Vec<_> = names
        .filter(|name| !paths.contains(&format!("crates/{name}")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
