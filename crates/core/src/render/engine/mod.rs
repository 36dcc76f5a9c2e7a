//! The objects of an engine, built from an [`EffectiveEngine`].

mod config_map;
mod engine_container;
mod headless_service;
mod pods;
mod rendering_hash;
mod routing_service;
mod stateful_set;
mod template_hash;
mod ui_sidecar;

use std::collections::BTreeMap;

use firebolt_api::key::Label;
use firebolt_api::name::EngineNames;
use k8s_openapi::api::core::v1::ServicePort;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::resolve::engine::EffectiveEngine;

pub(crate) use config_map::has_recorded_data;
pub use config_map::{config_map, copied_config_map};
pub(crate) use engine_container::RESERVED_ENV;
pub(crate) use engine_container::mount_paths;
pub use headless_service::headless_service;
pub(crate) use rendering_hash::outdated_parts;
pub use rendering_hash::rendering_hash;
pub use routing_service::routing_service;
pub use stateful_set::{copied_stateful_set, stateful_set};
pub(crate) use template_hash::is_comparable;
pub use template_hash::template_hash;
pub(crate) use ui_sidecar::UI_CONTAINER;

/// The ports of an engine pod, by name.
const PORTS: [(&str, i32); 3] = [("http-query", 3473), ("health", HEALTH_PORT), ("metrics", 9090)];
const HEALTH_PORT: i32 = 8122;

/// The termination grace period of a pod, in seconds.
const TERMINATION_GRACE_PERIOD: i64 = 60;

/// Names of volumes that the operator adds to engine pods. A user's volume or mount of the same name is ignored.
pub(crate) const RESERVED_VOLUMES: [&str; 5] = [
    CONFIG_VOLUME,
    FORMER_CONFIG_VOLUME,
    DATA_VOLUME,
    RUNTIME_VOLUME,
    UI_VOLUME,
];
/// The volumes that every pod has.
pub(crate) const COMMON_VOLUMES: [&str; 3] = [CONFIG_VOLUME, DATA_VOLUME, RUNTIME_VOLUME];
pub(crate) const CONFIG_VOLUME: &str = "nodes-config";
/// What the original operator calls it.
pub(crate) const FORMER_CONFIG_VOLUME: &str = "engine-config";
pub(crate) const DATA_VOLUME: &str = "data";
const RUNTIME_VOLUME: &str = "runtime";
/// The volume that pods with the web UI have.
pub(crate) const UI_VOLUME: &str = "nginx-writable-dir";

/// The only key of the ConfigMap, which is also the name of the file.
pub(crate) const CONFIG_FILE: &str = "config.yaml";

/// The metadata of every object of the engine. Objects of a generation have a label with its number as well.
fn object_meta(engine: &EffectiveEngine, name: String, generation: Option<i64>) -> ObjectMeta {
    let mut labels = BTreeMap::from([label(Label::Engine, engine.name.clone())]);
    labels.extend(generation.map(|generation| label(Label::Generation, generation.to_string())));
    ObjectMeta {
        name: Some(name),
        namespace: Some(engine.namespace.clone()),
        labels: Some(labels),
        owner_references: Some(vec![OwnerReference {
            api_version: format!("{}/{}", firebolt_api::GROUP, firebolt_api::VERSION),
            kind: "FireboltEngine".to_owned(),
            name: engine.name.clone(),
            uid: engine.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

/// The labels of the objects of one generation, which are also the selector of its pods.
#[must_use]
pub(crate) fn generation_labels(engine: &EffectiveEngine, generation: i64) -> BTreeMap<String, String> {
    BTreeMap::from([
        label(Label::Engine, engine.name.clone()),
        label(Label::Generation, generation.to_string()),
    ])
}

fn label(label: Label, value: String) -> (String, String) {
    (label.key().to_owned(), value)
}

fn names(engine: &EffectiveEngine) -> EngineNames<'_> {
    EngineNames(&engine.name)
}

fn service_ports() -> Vec<ServicePort> {
    let ports = PORTS.iter().map(|(name, port)| ServicePort {
        name: Some((*name).to_owned()),
        port: *port,
        target_port: Some(IntOrString::Int(*port)),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    });
    ports.collect()
}

#[cfg(test)]
mod tests;
