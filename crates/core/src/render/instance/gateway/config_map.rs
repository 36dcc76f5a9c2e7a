//! The ConfigMap with the configuration that Envoy reads at start.

use std::collections::BTreeMap;

use firebolt_api::key::Component;
use k8s_openapi::api::core::v1::ConfigMap;

use super::{CONFIG_FILE, bootstrap};
use crate::render::instance::object_meta;
use crate::resolve::instance::EffectiveInstance;

/// Renders the ConfigMap.
#[must_use]
pub fn gateway_config_map(instance: &EffectiveInstance) -> ConfigMap {
    let text = firebolt_api::to_yaml(&bootstrap(instance));
    ConfigMap {
        metadata: object_meta(instance, instance.names().gateway_config(), Component::Gateway),
        data: Some(BTreeMap::from([(CONFIG_FILE.to_owned(), text)])),
        ..ConfigMap::default()
    }
}
