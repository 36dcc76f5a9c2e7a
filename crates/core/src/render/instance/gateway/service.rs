//! The Service that clients connect to.

use firebolt_api::key::Component;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::CLIENT_PORT_NAME;
use super::envoy::CLIENT_PORT;
use crate::render::instance::{object_meta, service_port};
use crate::resolve::instance::{EffectiveInstance, component_labels};

const PORT: u16 = 80;

/// Renders the Service.
#[must_use]
pub fn gateway_service(instance: &EffectiveInstance) -> Service {
    Service {
        metadata: object_meta(instance, instance.names().gateway(), Component::Gateway),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(component_labels(&instance.name, Component::Gateway)),
            ports: Some(vec![service_port(CLIENT_PORT_NAME, PORT, CLIENT_PORT)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
