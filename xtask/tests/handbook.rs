//! The documentation describes every reason and phase that users read in a status.

use std::collections::BTreeSet;

const CONDITIONS: &str = include_str!("../../crates/api/src/condition.rs");
const ENGINE_TYPES: &str = include_str!("../../crates/api/src/types/engine.rs");
const INSTANCE_TYPES: &str = include_str!("../../crates/api/src/types/instance.rs");
const CLASSES: &str = include_str!("../../docs/operations/classes.md");
const ENGINES: &str = include_str!("../../docs/operations/engines.md");
const INSTANCES: &str = include_str!("../../docs/operations/instances.md");

/// The variants of an enum, from its source: not all of the documented crates are linked here.
fn variants<'source>(source: &'source str, name: &str) -> BTreeSet<&'source str> {
    let (_, after) = source
        .split_once(&format!("pub enum {name} {{\n"))
        .expect("find the enum");
    let (body, _) = after.split_once("\n}").expect("find its end");
    let lines = body.lines().map(str::trim);
    let variants = lines.filter_map(|line| line.strip_suffix(',').filter(|line| !line.starts_with(['/', '#'])));
    variants.collect()
}

/// The first column of the table under a heading.
fn documented<'manual>(manual: &'manual str, heading: &str) -> BTreeSet<&'manual str> {
    let (_, after) = manual
        .split_once(&format!("\n## {heading}\n"))
        .expect("find the heading");
    let section = after.split("\n## ").next().unwrap_or(after);
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

#[test]
fn every_reason_of_an_instance_has_its_row_and_no_other_has() {
    let known = variants(CONDITIONS, "InstanceReason");
    assert!(known.contains("DeletionBlocked"), "{known:?}");
    assert_eq!(documented(INSTANCES, "Why an instance is not ready"), known);
}

/// The table is about `Ready`, so it lacks the reason of `InstanceReady` when that is True.
#[test]
fn every_reason_of_an_engine_that_is_not_ready_has_its_row_and_no_other_has() {
    let mut known = variants(CONDITIONS, "EngineReason");
    assert!(known.contains("StatefulSetWarning"), "{known:?}");
    assert!(known.remove("InstanceReady"));
    assert_eq!(documented(ENGINES, "Why an engine is not ready"), known);
}

#[test]
fn every_reason_of_auto_stop_has_its_row_and_no_other_has() {
    let known = variants(ENGINE_TYPES, "AutoStopReason");
    assert!(known.contains("Idle"), "{known:?}");
    assert_eq!(documented(ENGINES, "Stopping and waking"), known);
}

#[test]
fn every_reason_of_a_class_has_its_row_and_no_other_has() {
    let known = variants(CONDITIONS, "EngineClassReason");
    assert!(known.contains("DeletionBlocked"), "{known:?}");
    assert_eq!(documented(CLASSES, "Conditions"), known);
}

#[test]
fn every_phase_of_an_instance_has_its_row_and_no_other_has() {
    let known = variants(INSTANCE_TYPES, "InstancePhase");
    assert!(known.contains("Degraded"), "{known:?}");
    assert_eq!(documented(INSTANCES, "Phases"), known);
}
