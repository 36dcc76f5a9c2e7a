//! The ConfigMap with the configuration file that the metadata service reads at start.

use std::collections::BTreeMap;

use firebolt_api::key::Component;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::config::config;
use super::{config_file, database};
use crate::render::instance::object_meta;
use crate::render::instance::pod::texts;
use crate::resolve::instance::EffectiveInstance;

/// Renders the ConfigMap.
#[must_use]
pub fn metadata_config_map(instance: &EffectiveInstance) -> ConfigMap {
    let format = instance.metadata.config_format;
    ConfigMap {
        metadata: ObjectMeta {
            annotations: Some(texts(vec![database(instance)])),
            ..object_meta(instance, instance.names().metadata_config(), Component::Metadata)
        },
        data: Some(BTreeMap::from([(
            config_file(format).to_owned(),
            config(instance).file(format),
        )])),
        ..ConfigMap::default()
    }
}
