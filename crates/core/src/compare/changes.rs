//! What changed since a generation was rendered, in the terms of the objects that users write.

use firebolt_api::key::Annotation;
use firebolt_api::{FireboltEngine, FireboltEngineClass, Storage};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde::Serialize;
use serde_json::Value;

use crate::render::differences;
use crate::render::engine::DATA_VOLUME;

/// The longest value that is reported.
const LONGEST_VALUE: usize = 80;
/// Fields of which only the first part of the path is reported: what stands below is long, or may be secret.
const WHOLE: [&str; 6] = [".env[", ".args", ".command", ".envFrom", ".volumes[", ".annotations"];

/// Fields of pods and containers that the API server never sets by itself: if only the live object has one, it was removed
/// from the desired state. Below those in [`SET_IN_PART`], the same holds for every part.
const NEVER_DEFAULTED: [&str; 13] = [
    "args",
    "command",
    "containers",
    "env",
    "envFrom",
    "hostAliases",
    "imagePullSecrets",
    "initContainers",
    "lifecycle",
    "priorityClassName",
    "topologySpreadConstraints",
    "volumeMounts",
    "volumes",
];
const SET_IN_PART: [&str; 6] = [
    "affinity",
    "annotations",
    "labels",
    "nodeSelector",
    "resources",
    "tolerations",
];

/// The changes between a live StatefulSet and what would be rendered for its generation now, as "`spec.x` changed from 1 to
/// 3". Replicas are not among them. Removed fields are reported only if nothing else changed: the live object also has fields
/// that the API server added.
pub(super) fn changes(
    engine: &FireboltEngine,
    class: Option<&FireboltEngineClass>,
    rendered: &StatefulSet,
    live: &StatefulSet,
) -> Vec<String> {
    let template = |set: &StatefulSet| json(&set.spec.as_ref().map(|spec| &spec.template));
    let claims = |set: &StatefulSet| json(&set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_ref()));
    let sources = Sources { engine, class };
    let (rendered_template, live_template) = (template(rendered), template(live));
    let paths = differences(&rendered_template, &live_template);
    let data = format!("spec.volumes[{DATA_VOLUME}]");
    let (storage, paths): (Vec<String>, Vec<String>) = paths.into_iter().partition(|path| path.starts_with(&data));
    let mut found = Vec::new();
    for path in &paths {
        let change = sources.template_change(path, &rendered_template, &live_template);
        if !found.contains(&change) {
            found.push(change);
        }
    }
    if !storage.is_empty() || !differences(&claims(rendered), &claims(live)).is_empty() {
        found.push(sources.change("storage", engine.spec.storage != Storage::default()));
    }
    let differs = |annotation: Annotation| annotation_of(rendered, annotation) != annotation_of(live, annotation);
    if differs(Annotation::CustomEngineConfigHash) {
        found.push(sources.change("customEngineConfig", engine.spec.custom_engine_config.is_some()));
    }
    let class_changed = differs(Annotation::EngineClassHash);
    if found.is_empty() {
        let removed = removed(&rendered_template, &live_template).into_iter();
        found.extend(removed.map(|field| sources.removal(&field, class_changed)));
    }
    if found.is_empty() && class_changed {
        found.push(sources.change("template", false));
    }
    found
}

struct Sources<'a> {
    engine: &'a FireboltEngine,
    class: Option<&'a FireboltEngineClass>,
}

impl Sources<'_> {
    /// A change of a field of the pod template, attributed to the object that sets it.
    fn template_change(&self, path: &str, rendered: &Value, live: &Value) -> String {
        let field = shortened_path(path);
        let own = self.engine.spec.template.as_ref().map(json);
        let of_class = self.class.map(|class| json(&class.spec.template));
        let sets = |template: &Option<Value>| template.as_ref().is_some_and(|template| at(template, field).is_some());
        let change = |owner: String| match (value(path, live), value(path, rendered)) {
            (Some(from), Some(to)) if field == path => format!("{owner} changed from {from} to {to}"),
            _ => format!("{owner} changed"),
        };
        if sets(&own) {
            change(format!("`spec.template.{field}`"))
        } else if sets(&of_class) {
            change(format!("`spec.template.{field}` of {}", self.class_name()))
        } else {
            change(format!("`{field}` of the pods"))
        }
    }

    /// A change of a field that both the engine and its class may set.
    fn change(&self, field: &str, is_own: bool) -> String {
        if is_own || self.class.is_none() {
            format!("`spec.{field}` changed")
        } else {
            format!("`spec.{field}` of {} changed", self.class_name())
        }
    }

    /// A field of the pod template that no object sets any more.
    fn removal(&self, field: &str, class_changed: bool) -> String {
        match self.class {
            Some(_) if class_changed => format!("{} removed `{field}` from the pods", self.class_name()),
            Some(_) | None => format!("`{field}` was removed from the pods"),
        }
    }

    fn class_name(&self) -> String {
        let name = self.class.and_then(|class| class.metadata.name.as_deref());
        format!("class {}", name.unwrap_or_default())
    }
}

/// The fields that only the live template has, and that the API server did not add.
fn removed(rendered: &Value, live: &Value) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for path in differences(live, rendered) {
        let field = shortened_path(&path);
        let is_new = !found.iter().any(|known| known == field);
        if is_new && at(rendered, field).is_none() && is_never_defaulted(&path) {
            found.push(field.to_owned());
        }
    }
    found
}

fn is_never_defaulted(path: &str) -> bool {
    let in_pod = path.split_once('.').map_or(path, |(_metadata_or_spec, rest)| rest);
    let (field, rest) = in_pod.split_at(in_pod.find(['.', '[']).unwrap_or(in_pod.len()));
    let in_container = rest.split_once("].").filter(|_| field.ends_with("ontainers"));
    let (field, rest) = match in_container {
        Some((_, inner)) => inner.split_at(inner.find(['.', '[']).unwrap_or(inner.len())),
        None => (field, rest),
    };
    let is_whole = rest.is_empty() || rest.ends_with(']');
    SET_IN_PART.contains(&field) || (is_whole && NEVER_DEFAULTED.contains(&field))
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn annotation_of(set: &StatefulSet, annotation: Annotation) -> Option<&String> {
    set.metadata.annotations.as_ref()?.get(annotation.key())
}

/// The part of a path that is reported.
fn shortened_path(path: &str) -> &str {
    let cut = WHOLE.iter().filter_map(|field| {
        let start = path.find(field)?;
        let end = start + field.len();
        let entry = if field.ends_with('[') {
            path[end..].find(']')? + 1
        } else {
            0
        };
        Some(end + entry)
    });
    cut.min().map_or(path, |end| &path[..end])
}

/// A value that is short and certainly not secret: an image, an amount, a number.
fn value(path: &str, template: &Value) -> Option<String> {
    let found = at(template, path)?;
    let is_plain = path.rsplit('.').next() == Some("image") || path.contains(".resources.");
    match found {
        Value::String(text) if is_plain && text.len() <= LONGEST_VALUE => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(found.to_string()),
        Value::String(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
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
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::render::engine::stateful_set;
    use crate::resolve::Defaults;
    use crate::resolve::engine::{InstanceFacts, resolve};

    fn engine(spec: &Value) -> FireboltEngine {
        let mut all = json!({ "instanceRef": "i", "replicas": 2 });
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let engine = json!({ "apiVersion": "v", "kind": "K", "metadata": { "name": "a", "uid": "u" }, "spec": all });
        serde_json::from_value(engine).unwrap()
    }

    fn class(spec: &Value) -> FireboltEngineClass {
        let class = json!({ "apiVersion": "v", "kind": "K", "metadata": { "name": "small" }, "spec": spec });
        serde_json::from_value(class).unwrap()
    }

    fn rendered(engine: &FireboltEngine, class: &FireboltEngineClass) -> StatefulSet {
        let facts = InstanceFacts {
            id: "01J".to_owned(),
            metadata_endpoint: "m:7000".to_owned(),
        };
        stateful_set(&resolve(engine, Some(class), &facts, &Defaults::example()), 3)
    }

    fn container(container: &Value) -> Value {
        let mut named = json!({ "name": "engine" });
        named
            .as_object_mut()
            .unwrap()
            .extend(container.as_object().unwrap().clone());
        json!({ "template": { "spec": { "containers": [named] } } })
    }

    fn none() -> Value {
        json!({ "template": {} })
    }

    #[rstest]
    #[case("metadata.labels.x", true)]
    #[case("spec.nodeSelector", true)]
    #[case("spec.tolerations[1]", true)]
    #[case("spec.volumes[v]", true)]
    #[case("spec.containers[proxy]", true)]
    #[case("spec.containers[engine].resources.limits.cpu", true)]
    #[case("spec.containers[engine].imagePullPolicy", false)]
    #[case("spec.containers[engine].env[A].valueFrom.fieldRef.apiVersion", false)]
    #[case("spec.volumes[v].configMap.defaultMode", false)]
    #[case("spec.dnsPolicy", false)]
    #[case("spec.securityContext", false)]
    fn what_the_api_server_adds_was_not_removed(#[case] path: &str, #[case] expected: bool) {
        assert_eq!(is_never_defaulted(path), expected);
    }

    #[rstest]
    #[case::nothing(json!({}), json!({}), none(), none(), &[])]
    #[case::image_of_the_engine(container(&json!({ "image": "e:1" })), container(&json!({ "image": "e:2" })), none(), none(),
        &["`spec.template.spec.containers[engine].image` changed from e:1 to e:2"])]
    #[case::image_of_the_class(json!({}), json!({}), container(&json!({ "image": "e:1" })), container(&json!({ "image": "e:2" })),
        &["`spec.template.spec.containers[engine].image` of class small changed from e:1 to e:2"])]
    #[case::amount(container(&json!({ "resources": { "limits": { "cpu": "1" } } })), container(&json!({ "resources": { "limits": { "cpu": "2" } } })), none(), none(),
        &["`spec.template.spec.containers[engine].resources.limits.cpu` changed from 1 to 2"])]
    #[case::a_variable_may_be_secret(container(&json!({ "env": [{ "name": "A", "value": "x" }] })), container(&json!({ "env": [{ "name": "A", "value": "y" }] })), none(), none(),
        &["`spec.template.spec.containers[engine].env[A]` changed"])]
    #[case::label(json!({}), json!({ "template": { "metadata": { "labels": { "example.com/x": "y" } } } }), none(), none(),
        &["`spec.template.metadata.labels.example.com/x` changed"])]
    #[case::taken_away(container(&json!({ "image": "e:1" })), json!({}), none(), none(),
        &["`spec.containers[engine].image` of the pods changed from e:1 to registry.example/engine:1.2.3"])]
    #[case::storage(json!({}), json!({ "storage": { "hostPath": { "path": "/d" } } }), none(), none(), &["`spec.storage` changed"])]
    #[case::storage_of_the_class(json!({}), json!({}), none(), json!({ "template": {}, "storage": { "hostPath": { "path": "/d" } } }), &["`spec.storage` of class small changed"])]
    #[case::config(json!({}), json!({ "customEngineConfig": { "x": 1 } }), none(), none(), &["`spec.customEngineConfig` changed"])]
    #[case::config_of_the_class(json!({}), json!({}), none(), json!({ "template": {}, "customEngineConfig": { "x": 1 } }), &["`spec.customEngineConfig` of class small changed"])]
    #[case::removed_from_the_class(json!({}), json!({}), json!({ "template": { "metadata": { "labels": { "x": "y" } } } }), none(), &["class small removed `metadata.labels.x` from the pods"])]
    #[case::removed(json!({ "template": { "spec": { "nodeSelector": { "disk": "ssd" } } } }), json!({}), none(), none(), &["`spec.nodeSelector` was removed from the pods"])]
    #[case::variable_removed(container(&json!({ "env": [{ "name": "A", "value": "x" }] })), json!({}), none(), none(), &["`spec.containers[engine].env[A]` was removed from the pods"])]
    fn what_changed_is_named_in_the_terms_of_its_author(
        #[case] engine_before: Value,
        #[case] engine_after: Value,
        #[case] class_before: Value,
        #[case] class_after: Value,
        #[case] expected: &[&str],
    ) {
        let live = rendered(&engine(&engine_before), &class(&class_before));
        let (engine, class) = (engine(&engine_after), class(&class_after));
        let found = changes(&engine, Some(&class), &rendered(&engine, &class), &live);
        assert_eq!(found, expected);
    }
}
