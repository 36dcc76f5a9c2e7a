//! The headless Service through which the metadata service connects to the server.

use firebolt_api::key::Component;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::{PORT, PORT_NAME};
use crate::render::instance::{object_meta, service_port};
use crate::resolve::instance::{EffectiveInstance, component_labels};

/// Renders the Service.
#[must_use]
pub fn postgres_service(instance: &EffectiveInstance) -> Service {
    Service {
        metadata: object_meta(instance, instance.names().postgres(), Component::Postgres),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(component_labels(&instance.name, Component::Postgres)),
            ports: Some(vec![service_port(PORT_NAME, PORT, PORT)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
