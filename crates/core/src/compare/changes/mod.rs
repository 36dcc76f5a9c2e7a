//! What changed since a generation was rendered, in the terms of the objects that users write.

mod config;
mod storage;
mod template;

use firebolt_api::key::Annotation;
use firebolt_api::{FireboltEngine, FireboltEngineClass};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec};
use serde::Serialize;
use serde_json::Value;

use crate::resolve::engine::ENGINE_CONTAINER;
use crate::resolve::without_empty_values;
use crate::text::shortened;

/// The longest value that is reported.
const LONGEST_VALUE: usize = 80;
/// The longest change that is reported, in characters. Keys and names of users have nearly any length.
const LONGEST_CHANGE: usize = 500;
/// How many changes of the template and how many of the configuration are described, with the object that sets them. The others
/// are only counted: users determine their number, and a message names two.
const DESCRIBED: usize = 2;

/// The objects of a generation that its pods are made from.
#[derive(Clone, Copy)]
pub(super) struct Rendering<'a> {
    pub(super) set: &'a StatefulSet,
    /// None if it is missing.
    pub(super) config_map: Option<&'a ConfigMap>,
}

impl<'a> Rendering<'a> {
    fn template(&self) -> Value {
        json(&self.set.spec.as_ref().map(|spec| &spec.template))
    }

    fn replicas(&self) -> Option<i32> {
        self.set.spec.as_ref()?.replicas
    }

    fn annotation(&self, annotation: Annotation) -> Option<&'a String> {
        self.set.metadata.annotations.as_ref()?.get(annotation.key())
    }
}

/// The changes between the live objects of a generation and what would be rendered for it now, as "`spec.x` changed from 1
/// to 3". Replicas are not among them. Fields that were removed from the template are reported only if nothing else changed,
/// replicas included: the live object also has fields that the API server or an admission policy added.
pub(super) fn changes(
    engine: &FireboltEngine,
    class: Option<&FireboltEngineClass>,
    rendered: Rendering,
    live: Rendering,
) -> Vec<String> {
    let sources = UserManifests::new(engine, class);
    let (rendered_template, live_template) = (rendered.template(), live.template());
    let mut found = template::changes(&sources, &rendered_template, &live_template);
    found.extend(template::ui_sidecar(&sources, &rendered_template, &live_template));
    found.extend(storage::changes(&sources, rendered.set, live.set));
    found.extend(config::changes(&sources, rendered, live));
    let hashes = [rendered, live].map(|of| of.annotation(Annotation::EngineClassHash));
    if found.is_empty() && rendered.replicas() == live.replicas() {
        let edited = hashes[0] != hashes[1] && hashes.iter().all(Option::is_some);
        let by_class = sources.class_name().filter(|_| edited);
        let by_class = by_class.map_or(String::new(), |class| format!(" (class {class} changed)"));
        let removed = template::removed(&rendered_template, &live_template);
        found.extend(removed.into_iter().map(|removed| format!("{removed}{by_class}")));
    }
    if found.is_empty() && hashes[0] != hashes[1] {
        found.push(format!("{} changed", sources.owned("spec.template", true)));
    }
    found.iter().map(|change| printable(change)).collect()
}

/// A change as part of a message. What stands in live objects need not come from the operator.
fn printable(change: &str) -> String {
    let text = shortened(change, LONGEST_CHANGE);
    text.replace(char::is_control, " ")
}

/// The objects that users write.
struct UserManifests<'a> {
    engine: &'a FireboltEngine,
    class: Option<&'a FireboltEngineClass>,
    own_template: Option<Value>,
    class_template: Option<Value>,
    own_config: Option<Value>,
    class_config: Option<Value>,
}

impl<'a> UserManifests<'a> {
    fn new(engine: &'a FireboltEngine, class: Option<&'a FireboltEngineClass>) -> Self {
        let class_config = class.and_then(|class| class.spec.custom_engine_config.as_ref());
        Self {
            engine,
            class,
            own_template: engine.spec.template.as_ref().map(template),
            class_template: class.map(|class| template(&class.spec.template)),
            own_config: engine.spec.custom_engine_config.as_ref().map(json),
            class_config: class_config.map(json),
        }
    }

    fn class_name(&self) -> Option<&str> {
        Some(self.class?.metadata.name.as_deref().unwrap_or_default())
    }

    /// A field, with the class if that sets it.
    fn owned(&self, field: &str, by_class: bool) -> String {
        match self.class_name().filter(|_| by_class) {
            Some(class) => format!("`{field}` of class {class}"),
            None => format!("`{field}`"),
        }
    }
}

/// "from 1 to 3", if both are known and short.
fn from_to(from: Option<String>, to: Option<String>) -> String {
    let short = |value: Option<String>| value.filter(|value| value.len() <= LONGEST_VALUE);
    match (short(from), short(to)) {
        (Some(from), Some(to)) => format!(" changed from {from} to {to}"),
        _ => " changed".to_owned(),
    }
}

/// What a template sets.
fn template(template: &PodTemplateSpec) -> Value {
    json(&without_empty_values(template, ENGINE_CONTAINER))
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The value at a path such as `spec.containers[engine].resources.limits.cpu`. Keys may contain dots.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let path = path.strip_prefix('.').unwrap_or(path);
    if path.is_empty() {
        return Some(value);
    }
    if let Some(rest) = path.strip_prefix('[') {
        let (entry, rest) = rest.split_once(']')?;
        let entries = value.as_array()?;
        let named = entries
            .iter()
            .find(|other| other["name"] == entry || other["mountPath"] == entry);
        return at(named.or_else(|| entries.get(entry.parse::<usize>().ok()?))?, rest);
    }
    let fields = value.as_object()?;
    let ends = path.match_indices(['.', '[']).map(|(end, _)| end).chain([path.len()]);
    ends.into_iter()
        .find_map(|end| at(fields.get(&path[..end])?, &path[end..]))
}

#[cfg(test)]
mod tests;
