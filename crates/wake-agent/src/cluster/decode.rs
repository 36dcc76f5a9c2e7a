//! Parses the fields of engines that the agent needs, and no others: engines contain whole pod templates, and a gateway
//! may list thousands of them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use firebolt_api::condition::EngineCondition;
use firebolt_api::key::Annotation;
use firebolt_api::{AutoStopReason, EnginePhase};
use firebolt_process::error::shortened;
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::warn;

use crate::hold::Engine;

/// The maximum number of characters of a name or an error that are logged.
const LOGGED: usize = 200;

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(borrow)]
    pub(super) items: Vec<&'a RawValue>,
    #[serde(default)]
    pub(super) metadata: PageMetadata,
}

#[derive(Default, Deserialize)]
pub(super) struct PageMetadata {
    /// The continue token of the next page. None or empty on the last page.
    #[serde(default, rename = "continue")]
    pub(super) next: Option<String>,
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
    /// Borrowed: one of them may contain a copy of the whole object.
    #[serde(borrow)]
    annotations: Option<BTreeMap<Cow<'a, str>, &'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    instance_ref: String,
    replicas: i32,
}

/// Values that this version does not know, because another version of the operator wrote them, count as absent.
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

/// The value, or None if it is not known.
fn known<'a, T: Deserialize<'a>>(value: Option<&'a RawValue>) -> Option<T> {
    value.and_then(|value| serde_json::from_str(value.get()).ok())
}

/// Parses one engine of a list.
pub(super) fn engine(item: &RawValue) -> serde_json::Result<Engine> {
    let Item { metadata, spec, status } = serde_json::from_str(item.get())?;
    let status = status.unwrap_or_default();
    let stable = known(status.phase) == Some(EnginePhase::Stable);
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.kind == <&str>::from(EngineCondition::Ready));
    let annotations = metadata.annotations.unwrap_or_default();
    let wake_requested: Option<String> = known(annotations.get(Annotation::WakeRequested.key()).copied());
    Ok(Engine {
        name: metadata.name,
        instance: spec.instance_ref,
        replicas: spec.replicas,
        ready: spec.replicas > 0 && stable && condition.is_some_and(|condition| condition.status == "True"),
        auto_stop: known::<AutoStopReason>(status.auto_stop_reason),
        wake_requested: wake_requested.and_then(|text| text.parse().ok()),
    })
}

/// Engines that cannot be parsed. Each is logged once, and again only after it could be parsed in between.
#[derive(Debug, Default)]
pub(super) struct UnreadableEngines(Mutex<BTreeSet<String>>);

impl UnreadableEngines {
    /// Logs the engines of a list that cannot be parsed, with the cause, if they could be parsed before.
    pub(super) fn log(&self, namespace: &str, unreadable: &BTreeMap<String, String>) {
        for name in self.replace(unreadable) {
            let cause = &unreadable[&name];
            warn!(
                kind = "FireboltEngine",
                namespace,
                name,
                "cannot parse the engine: {cause}. Queries for it receive 404 engine_not_found. Update the custom resource \
                 definitions and the operator together."
            );
        }
    }

    /// Remembers the engines, and returns those that could be parsed before.
    fn replace(&self, unreadable: &BTreeMap<String, String>) -> BTreeSet<String> {
        let now: BTreeSet<String> = unreadable.keys().cloned().collect();
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *logged, now.clone());
        &now - &before
    }
}

/// The name of an engine that cannot be parsed.
pub(super) fn name(item: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Named {
        metadata: NameOnly,
    }
    #[derive(Deserialize)]
    struct NameOnly {
        name: String,
    }
    let named: Option<Named> = known(Some(item));
    let name = named.map_or_else(|| "<unnamed>".to_owned(), |named| named.metadata.name);
    shortened(&name, LOGGED)
}

/// The error of an engine that cannot be parsed, for the log.
pub(super) fn reason(error: &serde_json::Error) -> String {
    shortened(&error.to_string(), LOGGED)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn object(replicas: i32, phase: &str, ready: &str, wake_requested: &str) -> Value {
        let condition = json!({
            "type": "Ready", "status": ready, "reason": "Any", "message": "",
            "lastTransitionTime": "2026-06-01T11:00:00Z",
        });
        json!({
            "apiVersion": format!("{}/{}", firebolt_api::GROUP, firebolt_api::VERSION),
            "kind": "FireboltEngine",
            "metadata": { "name": "analytics", "annotations": { Annotation::WakeRequested.key(): wake_requested, "a\"b": "c" } },
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
    fn an_engine_is_parsed() {
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
    // The status is older than the spec.
    #[case::just_scaled_to_zero(0, "stable", "True")]
    fn an_engine_is_ready_only_if_it_is_stable_and_its_condition_says_so(
        #[case] replicas: i32,
        #[case] phase: &str,
        #[case] ready: &str,
    ) {
        assert!(!read(&object(replicas, phase, ready, "")).unwrap().ready);
    }

    #[test]
    fn an_engine_that_was_never_reconciled_is_parsed() {
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
    fn an_engine_without_a_required_field_is_not_parsed(#[case] path: &str, #[case] value: Value) {
        let mut object = object(2, "stable", "True", "");
        *object.pointer_mut(path).unwrap() = value;
        assert!(read(&object).is_err());
    }

    #[test]
    fn an_engine_that_cannot_be_parsed_is_logged_once() {
        let unreadable = UnreadableEngines::default();
        let of = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        let logged = |names: &[&str]| unreadable.replace(&of(names)).into_iter().collect::<Vec<_>>();
        assert_eq!(logged(&["a"]), ["a"]);
        assert_eq!(logged(&["a", "b"]), ["b"]);
        assert_eq!(logged(&["b"]), Vec::<String>::new());
        assert_eq!(logged(&["a", "b"]), ["a"]);
    }

    #[rstest]
    #[case(json!({ "metadata": { "name": "a" }, "spec": 1 }), "a")]
    #[case(json!([]), "<unnamed>")]
    fn an_engine_that_cannot_be_parsed_is_named_if_it_has_a_name(#[case] object: Value, #[case] expected: &str) {
        assert_eq!(name(&serde_json::value::to_raw_value(&object).unwrap()), expected);
    }
}
