//! The Service that the gateway and clients connect to. Its selector switches between generations.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::{generation_labels, names, object_meta, service_ports};
use crate::resolve::engine::EffectiveEngine;

/// Renders the routing Service so that it selects the pods of `generation`. It is headless, so that a client sees the
/// pods themselves and no proxy on the way keeps a connection to one that is going away.
#[must_use]
pub fn routing_service(engine: &EffectiveEngine, generation: i64) -> Service {
    Service {
        // It outlives generations, so it carries the number of none: the sweep must never see it.
        metadata: object_meta(engine, names(engine).routing_service(), None),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(false),
            selector: Some(generation_labels(engine, generation)),
            ports: Some(service_ports()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
