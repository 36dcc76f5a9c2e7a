//! The ConfigMap of one generation: the configuration file that its pods read at start.

use std::collections::BTreeMap;

use firebolt_api::key::Annotation;
use k8s_openapi::api::core::v1::{ConfigMap, LifecycleHandler};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::{CONFIG_FILE, TERMINATION_GRACE_PERIOD, names, object_meta};
use crate::canonical;
use crate::resolve::ENGINE_WITHDRAWAL;
use crate::resolve::engine::EffectiveEngine;

/// What is left of the grace period, in seconds, when the time for the queries is up: the engine has to end before it is
/// killed.
const SHUTDOWN_MARGIN: i64 = 5;

/// Renders the ConfigMap of `generation`.
#[must_use]
pub fn config_map(engine: &EffectiveEngine, generation: i64) -> ConfigMap {
    let text = firebolt_api::to_yaml(&sorted(Value::Object(config(engine, generation, engine.replicas))));
    with_data(engine, generation, BTreeMap::from([(CONFIG_FILE.to_owned(), text)]))
}

/// Renders the ConfigMap of `generation` with the data of another generation, for this number of replicas.
#[must_use]
pub fn copied_config_map(engine: &EffectiveEngine, generation: i64, of: &ConfigMap) -> ConfigMap {
    let mut data = of.data.clone().unwrap_or_default();
    let file = data.get(CONFIG_FILE).and_then(|text| serde_saphyr::from_str(text).ok());
    if let Some(Value::Object(mut config)) = file
        && let Some(own) = config.get_mut("engine").and_then(Value::as_object_mut)
    {
        own.insert("nodes".to_owned(), nodes(engine, generation, engine.replicas));
        let text = firebolt_api::to_yaml(&sorted(Value::Object(config)));
        data.insert(CONFIG_FILE.to_owned(), text);
    }
    with_data(engine, generation, data)
}

/// Whether the data is what the operator wrote, whichever version of it.
pub(crate) fn has_recorded_data(config_map: &ConfigMap) -> bool {
    let annotations = config_map.metadata.annotations.as_ref();
    let recorded = annotations.and_then(|all| all.get(Annotation::ConfigHash.key()));
    recorded.is_none_or(|recorded| *recorded == canonical::hash(&config_map.data))
}

fn with_data(engine: &EffectiveEngine, generation: i64, data: BTreeMap<String, String>) -> ConfigMap {
    let data = Some(data);
    let hash = canonical::hash(&data);
    ConfigMap {
        metadata: ObjectMeta {
            annotations: Some(BTreeMap::from([(Annotation::ConfigHash.key().to_owned(), hash)])),
            ..object_meta(engine, names(engine).config_map(generation), Some(generation))
        },
        data,
        ..ConfigMap::default()
    }
}

/// The whole configuration: what users decide about, and the operator's own values, which nothing there can collide with.
pub(super) fn config(engine: &EffectiveEngine, generation: i64, replicas: i32) -> Map<String, Value> {
    let mut config = engine.config.clone();
    config.insert("schema_version".to_owned(), json!("1.0"));
    let instance = section(&mut config, "instance");
    instance.insert("id".to_owned(), json!(engine.instance.id));
    instance.insert("type".to_owned(), json!("multi_engine"));
    instance.insert(
        "multi_engine".to_owned(),
        json!({ "metadata_endpoint": engine.instance.metadata_endpoint }),
    );
    let grace = (TERMINATION_GRACE_PERIOD - pre_stop_seconds(engine) - SHUTDOWN_MARGIN).max(1);
    let own = section(&mut config, "engine");
    own.insert("id".to_owned(), json!(engine.name));
    own.insert("nodes".to_owned(), nodes(engine, generation, replicas));
    own.insert("termination_grace_period".to_owned(), json!(format!("{grace}s")));
    config
}

/// How much of the grace period passes before the engine gets SIGTERM. How long a command or a request takes is not known:
/// it is assumed to take as long as the hook that it replaces.
fn pre_stop_seconds(engine: &EffectiveEngine) -> i64 {
    let container = engine.template.spec.as_ref().and_then(|spec| spec.containers.first());
    let hook = container.and_then(|container| container.lifecycle.as_ref()?.pre_stop.as_ref());
    let seconds = |hook: &LifecycleHandler| hook.sleep.as_ref().map_or(ENGINE_WITHDRAWAL, |sleep| sleep.seconds);
    hook.map_or(0, seconds)
}

fn section<'a>(config: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let section = config.entry(name).or_insert_with(|| json!({}));
    section
        .as_object_mut()
        .expect("the resolver leaves no section that is no object")
}

fn nodes(engine: &EffectiveEngine, generation: i64, replicas: i32) -> Value {
    (0..replicas).map(|ordinal| node(engine, generation, ordinal)).collect()
}

fn node(engine: &EffectiveEngine, generation: i64, ordinal: i32) -> Value {
    let (pod, service) = (
        names(engine).pod(generation, ordinal),
        names(engine).headless_service(generation),
    );
    json!({ "host": format!("{pod}.{service}.{}.svc.{}", engine.namespace, engine.cluster_domain) })
}

/// The file is the same for the same configuration, whatever order a map type keeps.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<String, Value> = fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
