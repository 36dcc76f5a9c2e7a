//! The one request that makes an Event.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use firebolt_api::key::FIELD_MANAGER;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Record;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

use super::{Event, Severity, note};

/// Writes events in the name of this process.
pub(super) struct Publisher {
    client: Client,
    instance: String,
}

impl Publisher {
    pub fn new(client: Client, instance: &str) -> Self {
        Self {
            client,
            instance: instance.to_owned(),
        }
    }

    pub async fn publish(&self, object: &ObjectReference, event: &Event, now: Timestamp) -> kube::Result<()> {
        let name = object.name.as_deref().unwrap_or_default();
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let record = Record {
            metadata: ObjectMeta {
                // As Kubernetes itself names events: the object and the moment.
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some(
                match event.severity {
                    Severity::Normal => "Normal",
                    Severity::Warning => "Warning",
                }
                .to_owned(),
            ),
            reason: Some(event.reason.clone()),
            note: Some(note(&event.message)),
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(now)),
            regarding: Some(object.clone()),
            reporting_controller: Some(format!("{}/{FIELD_MANAGER}", firebolt_api::GROUP)),
            reporting_instance: Some(self.instance.clone()),
            ..Record::default()
        };
        let api: Api<Record> = Api::namespaced(self.client.clone(), namespace);
        api.create(&PostParams::default(), &record).await.map(drop)
    }
}
