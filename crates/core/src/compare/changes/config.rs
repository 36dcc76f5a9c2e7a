//! Changes of the configuration file.

use firebolt_api::key::Annotation;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use super::{DESCRIBED, Rendering, UserManifests, at, from_to};
use crate::render::engine::CONFIG_FILE;

/// The fields that differ. Values of users are not reported, because they may be secret.
pub(super) fn changes(sources: &UserManifests, rendered: Rendering, live: Rendering) -> Vec<String> {
    let file = |of: Rendering| of.config_map.and_then(parsed);
    let (Some(file), Some(live_file)) = (file(rendered), file(live)) else {
        return hash_changed(sources, rendered, live).into_iter().collect();
    };
    let mut paths = Vec::new();
    differing(String::new(), Some(&file), Some(&live_file), &mut paths);
    let mut described = 0..DESCRIBED;
    let mut custom = |path: &String| match described.next() {
        Some(_) => custom(sources, path, &file),
        None => path.clone(),
    };
    let changes = paths.iter().filter_map(|path| {
        let value = |file: &Value| at(file, path).and_then(Value::as_str).map(str::to_owned);
        let from_to = || from_to(value(&live_file), value(&file));
        match path.as_str() {
            "instance.multi_engine.metadata_endpoint" => Some(match sources.engine.spec.metadata_endpoint_override {
                Some(_) => format!("`spec.metadataEndpointOverride`{}", from_to()),
                None => format!("the metadata endpoint{}", from_to()),
            }),
            "instance.id" => Some(format!("the ID of the instance{}", from_to())),
            "engine.nodes" => hosts_changed(&file, &live_file),
            "schema_version" | "instance.type" | "engine.id" | "engine.termination_grace_period" => None,
            _ => Some(custom(path)),
        }
    });
    changes.collect()
}

/// Without the live ConfigMap, only the hash of what it was rendered from is known.
fn hash_changed(sources: &UserManifests, rendered: Rendering, live: Rendering) -> Option<String> {
    let hash = Annotation::CustomEngineConfigHash;
    let is_set_by_class = sources
        .class
        .is_some_and(|class| class.spec.custom_engine_config.is_some());
    let by_class = sources.engine.spec.custom_engine_config.is_none() && is_set_by_class;
    let is_changed = rendered.annotation(hash) != live.annotation(hash);
    is_changed.then(|| format!("{} changed", sources.owned("spec.customEngineConfig", by_class)))
}

/// A field that neither engine nor class sets was removed, or is a default of the operator.
fn custom(sources: &UserManifests, path: &str, file: &Value) -> String {
    let is_set_by = |config: &Option<Value>| config.as_ref().is_some_and(|config| at(config, path).is_some());
    let (own, class) = (is_set_by(&sources.own_config), is_set_by(&sources.class_config));
    let field = format!("spec.customEngineConfig.{path}");
    if own || class {
        format!("{} changed", sources.owned(&field, !own))
    } else if at(file, path).is_some() {
        format!("`{path}` of the engine configuration changed")
    } else {
        format!("`{path}` was removed from the engine configuration")
    }
}

/// The domain in the names of the nodes. Their number is that of the replicas.
fn hosts_changed(file: &Value, live: &Value) -> Option<String> {
    let first = |file: &Value| at(file, "engine.nodes[0].host").cloned();
    let (host, live_host) = (first(file)?, first(live)?);
    (host != live_host).then(|| "the cluster domain (`--cluster-domain`) changed".to_owned())
}

fn parsed(config_map: &ConfigMap) -> Option<Value> {
    let text = config_map.data.as_ref()?.get(CONFIG_FILE)?;
    serde_saphyr::from_str(text).ok()
}

fn differing(path: String, one: Option<&Value>, other: Option<&Value>, found: &mut Vec<String>) {
    match (one.and_then(Value::as_object), other.and_then(Value::as_object)) {
        (Some(fields), Some(others)) => {
            let more = others.keys().filter(|key| !fields.contains_key(*key));
            for key in fields.keys().chain(more) {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                differing(path, fields.get(key), others.get(key), found);
            }
        }
        _ if one == other => {}
        _ => found.push(path),
    }
}
