//! What the table knows of an engine.

use firebolt_api::condition::EngineCondition;
use firebolt_api::key::Annotation;
use firebolt_api::name::MAX_ENGINE_NAME;
use firebolt_api::{AutoStopReason, EnginePhase, FireboltEngine};
use jiff::Timestamp;

/// An engine as the API server shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// The instance that it belongs to.
    pub instance: String,
    /// What `spec.replicas` asks for.
    pub replicas: i32,
    /// Whether it says that it is ready.
    pub ready: bool,
    /// What auto-stop decided last. None as long as the operator has not looked.
    pub auto_stop: Option<AutoStopReason>,
    /// The time in the wake annotation. One that cannot be read is none.
    pub wake_requested: Option<Timestamp>,
}

impl Engine {
    /// Whether it has no pods and wants none.
    pub(super) fn stopped(&self) -> bool {
        self.replicas == 0
    }

    /// Whether it is stopped and nobody would follow a request to wake it. One that the operator has not looked at yet may
    /// have a policy, be it from its class.
    pub(super) fn stopped_for_good(&self) -> bool {
        self.stopped() && self.auto_stop == Some(AutoStopReason::Disabled)
    }

    /// Whether it is stopped and may be woken.
    pub(super) fn sleeps(&self) -> bool {
        self.stopped() && !self.stopped_for_good()
    }
}

impl From<&FireboltEngine> for Engine {
    fn from(engine: &FireboltEngine) -> Self {
        let status = engine.status.as_ref();
        let stable = status.is_some_and(|status| status.phase == Some(EnginePhase::Stable));
        let condition = status.and_then(|status| {
            let mut conditions = status.conditions.iter();
            conditions.find(|condition| condition.type_ == EngineCondition::Ready.to_string())
        });
        let annotations = engine.metadata.annotations.as_ref();
        let stamp = annotations.and_then(|annotations| annotations.get(Annotation::WakeRequested.key()));
        Self {
            name: engine.metadata.name.clone().unwrap_or_default(),
            instance: engine.spec.instance_ref.clone(),
            replicas: engine.spec.replicas,
            ready: engine.spec.replicas > 0 && stable && condition.is_some_and(|condition| condition.status == "True"),
            auto_stop: status.and_then(|status| status.auto_stop_reason),
            wake_requested: stamp.and_then(|stamp| stamp.parse().ok()),
        }
    }
}

/// Whether an engine can have this name. Envoy has looked already; this keeps the table safe from whoever else asks.
pub(super) fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= MAX_ENGINE_NAME
        && !text.is_empty()
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case("a", true)]
    #[case("9-to-5", true)]
    #[case("", false)]
    #[case("-a", false)]
    #[case("a-", false)]
    #[case("a.b", false)]
    #[case("A", false)]
    #[case("é", false)]
    fn names_are_those_that_the_gateway_selects(#[case] text: &str, #[case] valid: bool) {
        assert_eq!(is_name(text), valid);
    }

    #[test]
    fn the_longest_name_is_that_of_the_api() {
        assert!(is_name(&"a".repeat(MAX_ENGINE_NAME)));
        assert!(!is_name(&"a".repeat(MAX_ENGINE_NAME + 1)));
    }

    fn object(replicas: i32, phase: &str, ready: &str, stamp: &str) -> FireboltEngine {
        let condition = json!({
            "type": "Ready", "status": ready, "reason": "Any", "message": "",
            "lastTransitionTime": "2026-06-01T11:00:00Z",
        });
        let object = json!({
            "apiVersion": format!("{}/{}", firebolt_api::GROUP, firebolt_api::VERSION),
            "kind": "FireboltEngine",
            "metadata": { "name": "analytics", "annotations": { Annotation::WakeRequested.key(): stamp } },
            "spec": { "instanceRef": "main", "replicas": replicas },
            "status": {
                "currentGeneration": 1, "activeGeneration": 1, "phase": phase,
                "autoStopReason": "Idle", "conditions": [condition],
            },
        });
        serde_json::from_value(object).expect("an engine")
    }

    #[test]
    fn an_engine_is_read_from_its_object() {
        let engine = Engine::from(&object(2, "stable", "True", "2026-06-01T12:00:00Z"));
        let expected = Engine {
            name: "analytics".to_owned(),
            instance: "main".to_owned(),
            replicas: 2,
            ready: true,
            auto_stop: Some(AutoStopReason::Idle),
            wake_requested: Some("2026-06-01T12:00:00Z".parse().expect("a time")),
        };
        assert_eq!(engine, expected);
    }

    #[test]
    fn an_engine_that_is_not_stable_or_not_ready_does_not_count_as_ready() {
        assert!(!Engine::from(&object(2, "creating", "True", "")).ready);
        assert!(!Engine::from(&object(2, "stable", "False", "")).ready);
        assert!(!Engine::from(&object(2, "stable", "Unknown", "")).ready);
        // Just told to stop: the status is of a moment before.
        assert!(!Engine::from(&object(0, "stable", "True", "")).ready);
    }

    #[test]
    fn a_stamp_that_cannot_be_read_is_none() {
        assert_eq!(Engine::from(&object(2, "stable", "True", "soon")).wake_requested, None);
    }
}
