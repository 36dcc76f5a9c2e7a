//! The one request that creates an Event.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Record;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

use super::event::{Event, EventType};

/// The longest note that the API server accepts, in bytes.
const LONGEST_NOTE: usize = 1024;

/// In whose name events are created.
#[derive(Clone, Debug)]
pub struct Reporter {
    /// The name of the controller, as in `example.com/widget-operator`.
    pub controller: String,
    /// The identity of the process.
    pub instance: String,
}

/// Creates events.
pub(super) struct Publisher {
    client: Client,
    reporter: Reporter,
}

impl Publisher {
    pub(super) fn new(client: Client, reporter: Reporter) -> Self {
        Self { client, reporter }
    }

    pub(super) async fn publish(&self, object: &ObjectReference, event: &Event, now: Timestamp) -> kube::Result<()> {
        let name = object.name.as_deref().unwrap_or_default();
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let record = Record {
            metadata: ObjectMeta {
                // The form in which Kubernetes names events: the object and the time.
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some(
                match event.type_ {
                    EventType::Normal => "Normal",
                    EventType::Warning => "Warning",
                }
                .to_owned(),
            ),
            reason: Some(event.reason.clone()),
            note: Some(note(&event.message)),
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(now)),
            regarding: Some(object.clone()),
            reporting_controller: Some(self.reporter.controller.clone()),
            reporting_instance: Some(self.reporter.instance.clone()),
            ..Record::default()
        };
        let api: Api<Record> = Api::namespaced(self.client.clone(), namespace);
        api.create(&PostParams::default(), &record).await.map(drop)
    }
}

/// The message, shortened if it is too long.
fn note(message: &str) -> String {
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_NOTE - '…'.len_utf8());
    format!("{}…", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_never_too_long() {
        assert_eq!(note("short"), "short");
        for character in ["x", "ä", "€", "🔥"] {
            let note = note(&character.repeat(5_000));
            assert!(
                (LONGEST_NOTE - 4..=LONGEST_NOTE).contains(&note.len()),
                "{}",
                note.len()
            );
            assert!(note.ends_with('…'));
        }
        assert_eq!(note(&"x".repeat(LONGEST_NOTE)).len(), LONGEST_NOTE);
    }
}
