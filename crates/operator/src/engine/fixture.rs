//! Values that tests of several modules start from.

use firebolt_api::FireboltEngine;
use firebolt_core::plan::engine::Plan;
use firebolt_core::resolve::Defaults;
use firebolt_core::resolve::engine::InstanceFacts;
use firebolt_runtime::{ObjectKey, ReconcileError};
use kube::core::Status;
use serde_json::{Value, json};

pub(crate) fn defaults() -> Defaults {
    testkit::defaults!()
}

pub(crate) fn facts() -> InstanceFacts {
    InstanceFacts {
        id: "01J".to_owned(),
        metadata_endpoint: "m:7000".to_owned(),
    }
}

/// An engine of which only the status matters.
pub(crate) fn engine_with(status: Value) -> FireboltEngine {
    FireboltEngine {
        status: serde_json::from_value(status).unwrap(),
        ..FireboltEngine::default()
    }
}

/// The status of an engine that is being created, with this to say about itself.
pub(crate) fn creating(reason: &str, message: &str) -> Value {
    let condition = json!({ "type": "Ready", "status": "False", "reason": reason, "message": message, "lastTransitionTime": "2026-11-16T12:00:00Z" });
    json!({ "currentGeneration": 0, "activeGeneration": -1, "phase": "creating", "conditions": [condition] })
}

/// A plan of a status and nothing else.
pub(crate) fn planned(next: Value) -> Plan {
    Plan {
        status: serde_json::from_value(next).unwrap(),
        ..Plan::default()
    }
}

/// The API server rejects the creation of an object of this kind with this message.
pub(crate) fn rejected(kind: &str, code: u16, message: &str) -> ReconcileError {
    let status = Status {
        code,
        ..Status::failure(message, "Reason")
    };
    ReconcileError::Write {
        verb: "create",
        kind: kind.to_owned(),
        object: ObjectKey::new("n", "a-g0"),
        source: Box::new(kube::Error::Api(Box::new(status))),
    }
}
