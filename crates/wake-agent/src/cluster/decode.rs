//! From what the API server says to what the table needs, and no more: engines carry whole pod templates, and a gateway
//! may have thousands of them to list.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use firebolt_api::condition::EngineCondition;
use firebolt_api::key::Annotation;
use firebolt_api::{AutoStopReason, EnginePhase};
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::warn;

use crate::error::shortened;
use crate::table::Engine;

/// How much of a name or of an error goes into the log.
const WORDS: usize = 200;

/// A part of a list.
#[derive(Deserialize)]
pub struct Page<'a> {
    #[serde(borrow)]
    pub items: Vec<&'a RawValue>,
    #[serde(default)]
    pub metadata: PageMetadata,
}

#[derive(Default, Deserialize)]
pub struct PageMetadata {
    /// Where the next part begins. None or empty at the end.
    #[serde(default, rename = "continue")]
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Spec,
    #[serde(borrow)]
    status: Option<Status<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    name: String,
    /// Borrowed: one of them may be a copy of the whole object.
    #[serde(borrow)]
    annotations: Option<BTreeMap<Cow<'a, str>, &'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    instance_ref: String,
    replicas: i32,
}

/// What another version of the operator wrote may have words that we do not know. They are none.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    phase: Option<&'a RawValue>,
    #[serde(borrow)]
    auto_stop_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
}

/// A value that we know, or none.
fn known<'a, T: Deserialize<'a>>(value: Option<&'a RawValue>) -> Option<T> {
    value.and_then(|value| serde_json::from_str(value.get()).ok())
}

/// One engine of a list.
pub fn engine(item: &RawValue) -> serde_json::Result<Engine> {
    let Item { metadata, spec, status } = serde_json::from_str(item.get())?;
    let status = status.unwrap_or_default();
    let stable = known(status.phase) == Some(EnginePhase::Stable);
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.kind == <&str>::from(EngineCondition::Ready));
    let annotations = metadata.annotations.unwrap_or_default();
    let stamp: Option<String> = known(annotations.get(Annotation::WakeRequested.key()).copied());
    Ok(Engine {
        name: metadata.name,
        instance: spec.instance_ref,
        replicas: spec.replicas,
        ready: spec.replicas > 0 && stable && condition.is_some_and(|condition| condition.status == "True"),
        auto_stop: known::<AutoStopReason>(status.auto_stop_reason),
        wake_requested: stamp.and_then(|stamp| stamp.parse().ok()),
    })
}

/// Engines that cannot be read. Each is told of once, and again only after it could be read.
#[derive(Debug, Default)]
pub struct Skipped(Mutex<BTreeSet<String>>);

impl Skipped {
    /// A list has ended, with these engines that cannot be read, and why.
    pub fn are(&self, skipped: &BTreeMap<String, String>) {
        for engine in self.news(skipped) {
            let reason = &skipped[&engine];
            warn!(
                engine,
                "an engine cannot be read: {reason}. Queries for it are answered as if it did not exist. Update the \
                 custom resource definitions and the operator together."
            );
        }
    }

    /// Those who could be read before.
    fn news(&self, skipped: &BTreeMap<String, String>) -> BTreeSet<String> {
        let now: BTreeSet<String> = skipped.keys().cloned().collect();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *told, now.clone());
        &now - &before
    }
}

/// The name of an engine that cannot be read.
pub fn name(item: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Named {
        metadata: NameOnly,
    }
    #[derive(Deserialize)]
    struct NameOnly {
        name: String,
    }
    let named: Option<Named> = known(Some(item));
    let name = named.map_or_else(|| "without a name".to_owned(), |named| named.metadata.name);
    shortened(&name, WORDS)
}

/// An error of one engine, for the log.
pub fn reason(error: &serde_json::Error) -> String {
    shortened(&error.to_string(), WORDS)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn object(replicas: i32, phase: &str, ready: &str, stamp: &str) -> Value {
        let condition = json!({
            "type": "Ready", "status": ready, "reason": "Any", "message": "",
            "lastTransitionTime": "2026-06-01T11:00:00Z",
        });
        json!({
            "apiVersion": format!("{}/{}", firebolt_api::GROUP, firebolt_api::VERSION),
            "kind": "FireboltEngine",
            "metadata": { "name": "analytics", "annotations": { Annotation::WakeRequested.key(): stamp, "a\"b": "c" } },
            "spec": { "instanceRef": "main", "replicas": replicas, "template": { "metadata": { "name": 1 } } },
            "status": {
                "currentGeneration": 1, "activeGeneration": 1, "phase": phase,
                "autoStopReason": "Idle", "conditions": [{ "type": "InstanceReady", "status": "False" }, condition],
            },
        })
    }

    fn read(object: &Value) -> serde_json::Result<Engine> {
        engine(&serde_json::value::to_raw_value(object).unwrap())
    }

    #[test]
    fn an_engine_is_read_from_its_object() {
        let expected = Engine {
            name: "analytics".to_owned(),
            instance: "main".to_owned(),
            replicas: 2,
            ready: true,
            auto_stop: Some(AutoStopReason::Idle),
            wake_requested: Some("2026-06-01T12:00:00Z".parse().unwrap()),
        };
        let object = object(2, "stable", "True", "2026-06-01T12:00:00Z");
        assert_eq!(read(&object).unwrap(), expected);
    }

    #[rstest]
    #[case::rolling(2, "creating", "True")]
    #[case::unready(2, "stable", "False")]
    #[case::unknown(2, "stable", "Unknown")]
    #[case::of_a_newer_version(2, "hibernating", "True")]
    // The status is of a moment before.
    #[case::just_told_to_stop(0, "stable", "True")]
    fn what_is_not_stable_and_ready_does_not_count_as_ready(
        #[case] replicas: i32,
        #[case] phase: &str,
        #[case] ready: &str,
    ) {
        assert!(!read(&object(replicas, phase, ready, "")).unwrap().ready);
    }

    #[test]
    fn an_engine_that_the_operator_has_not_looked_at_yet_is_read() {
        let mut new = object(0, "", "", "soon");
        new.as_object_mut().unwrap().remove("status");
        let engine = read(&new).unwrap();
        assert_eq!(
            (engine.ready, engine.auto_stop, engine.wake_requested),
            (false, None, None)
        );
        new["metadata"].as_object_mut().unwrap().remove("annotations");
        assert!(read(&new).is_ok());
    }

    #[rstest]
    #[case("/spec/replicas", json!("many"))]
    #[case("/spec/replicas", json!(5_000_000_000_u64))]
    #[case("/spec/instanceRef", json!(null))]
    #[case("/spec", json!(null))]
    #[case("/metadata/name", json!(null))]
    fn what_the_table_cannot_do_without_makes_an_engine_unreadable(#[case] path: &str, #[case] value: Value) {
        let mut object = object(2, "stable", "True", "");
        *object.pointer_mut(path).unwrap() = value;
        assert!(read(&object).is_err());
    }

    #[test]
    fn an_engine_that_cannot_be_read_is_told_of_once() {
        let skipped = Skipped::default();
        let of = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        let told = |names: &[&str]| skipped.news(&of(names)).into_iter().collect::<Vec<_>>();
        assert_eq!(told(&["a"]), ["a"]);
        assert_eq!(told(&["a", "b"]), ["b"]);
        assert_eq!(told(&["b"]), Vec::<String>::new());
        assert_eq!(told(&["a", "b"]), ["a"]);
    }

    #[rstest]
    #[case(json!({ "metadata": { "name": "a" }, "spec": 1 }), "a")]
    #[case(json!([]), "without a name")]
    fn an_engine_that_cannot_be_read_is_named_if_it_has_a_name(#[case] object: Value, #[case] expected: &str) {
        assert_eq!(name(&serde_json::value::to_raw_value(&object).unwrap()), expected);
    }
}
