//! The Service through which engines connect to the metadata service.

use firebolt_api::key::Component;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::PORT_NAME;
use crate::render::instance::{object_meta, service_port};
use crate::resolve::instance::{EffectiveInstance, METADATA_PORT, component_labels};

/// Renders the Service.
#[must_use]
pub fn metadata_service(instance: &EffectiveInstance) -> Service {
    Service {
        metadata: object_meta(instance, instance.names().metadata(), Component::Metadata),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(component_labels(&instance.name, Component::Metadata)),
            ports: Some(vec![service_port(PORT_NAME, METADATA_PORT, METADATA_PORT)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
