//! The headless Service of one generation: DNS names for its pods, ready or not, so that they can find each other.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::{generation_labels, names, object_meta, service_ports};
use crate::resolve::engine::EffectiveEngine;

/// Renders the headless Service of `generation`.
#[must_use]
pub fn headless_service(engine: &EffectiveEngine, generation: i64) -> Service {
    Service {
        metadata: object_meta(engine, names(engine).headless_service(generation), Some(generation)),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(generation_labels(engine, generation)),
            ports: Some(service_ports()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
