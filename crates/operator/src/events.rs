//! Events of the operator, and what they and conditions say about a rejected write.

use firebolt_api::key::FIELD_MANAGER;
use firebolt_core::plan::{self, Severity};
use firebolt_runtime::RejectedWrite;
use firebolt_runtime::events::{self, Broadcaster, Event, EventType, Recorder, Reporter};
use kube::Client;

/// A recorder for the process with this identity, and the broadcaster that sends its events.
pub(crate) fn recorder(client: Client, identity: &str) -> (Recorder, Broadcaster) {
    let reporter = Reporter {
        controller: format!("{}/{FIELD_MANAGER}", firebolt_api::GROUP),
        instance: identity.to_owned(),
    };
    events::recorder(client, reporter)
}

/// The events of a plan as the runtime emits them.
pub(crate) fn from_plan<'a>(planned: impl IntoIterator<Item = &'a plan::PlannedEvent>) -> Vec<Event> {
    let event = |event: &plan::PlannedEvent| Event {
        type_: match event.severity {
            Severity::Normal => EventType::Normal,
            Severity::Warning => EventType::Warning,
        },
        reason: event.reason.clone(),
        message: event.message.clone(),
    };
    planned.into_iter().map(event).collect()
}

/// The message about a write that the API server rejects. `manifests`: whose spec can be wrong.
pub(crate) fn rejection(rejected: &RejectedWrite, manifests: &str) -> String {
    let RejectedWrite {
        verb,
        kind,
        object,
        message,
    } = rejected;
    format!(
        "The API server rejected the request to {verb} {kind} {}: {message}. Correct the spec of {manifests}, change the \
         policy or quota that rejects it, or grant the missing permission; the operator retries.",
        object.name
    )
}
