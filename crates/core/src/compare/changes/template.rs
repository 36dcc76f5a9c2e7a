//! Changes of the pod template.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::{DESCRIBED, LONGEST_VALUE, UserManifests, at, from_to};
use crate::render::engine::{DATA_VOLUME, UI_CONTAINER, UI_VOLUME};
use crate::render::{differences, missing};

/// Fields of which only the first part of the path is reported: what stands below is long, or may be secret.
const WHOLE: [&str; 6] = [".env[", ".args", ".command", ".envFrom", ".volumes[", ".annotations"];

/// Fields whose values are reported: short, and never secret.
const PLAIN: [&str; 6] = [
    "image",
    "imagePullPolicy",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "serviceAccountName",
];
/// Maps whose values are.
const PLAIN_MAPS: [&str; 3] = [".resources.", ".nodeSelector.", ".labels."];

/// Fields of pods and containers that the API server never sets by itself: if only the live object has one, it was removed
/// from the desired state. Below those in [`SET_IN_PART`], the same holds for every part.
const NEVER_DEFAULTED: [&str; 27] = [
    "args",
    "automountServiceAccountToken",
    "command",
    "containers",
    "dnsConfig",
    "env",
    "envFrom",
    "hostAliases",
    "hostNetwork",
    "imagePullSecrets",
    "initContainers",
    "lifecycle",
    "livenessProbe",
    "nodeName",
    "ports",
    "preemptionPolicy",
    "priorityClassName",
    "readinessGates",
    "readinessProbe",
    "runtimeClassName",
    "serviceAccountName",
    "shareProcessNamespace",
    "startupProbe",
    "topologySpreadConstraints",
    "volumeMounts",
    "volumes",
    "workingDir",
];
const SET_IN_PART: [&str; 6] = [
    "affinity",
    "annotations",
    "labels",
    "nodeSelector",
    "resources",
    "tolerations",
];

/// The fields that were added or changed.
pub(super) fn changes(sources: &UserManifests, rendered: &Value, live: &Value) -> Vec<String> {
    let paths = differences(rendered, live);
    let (data_volume, ui_paths) = (data_volume(), ui_paths());
    let is_reported_elsewhere = |path: &str| path.starts_with(&data_volume) || ui_paths.iter().any(|ui| ui == path);
    let mut fields = HashSet::new();
    let paths = paths
        .iter()
        .filter(|path| !is_reported_elsewhere(path) && fields.insert(shortened_path(path)));
    let describe = |(index, path): (usize, &String)| match index {
        ..DESCRIBED => change(sources, path, rendered, live),
        DESCRIBED.. => path.clone(),
    };
    paths.enumerate().map(describe).collect()
}

/// Whether the pods got the container of the web UI, or lost it.
pub(super) fn ui_sidecar(sources: &UserManifests, rendered: &Value, live: &Value) -> Option<String> {
    let [container, _] = ui_paths();
    let has_ui = |template: &Value| at(template, &container).is_some();
    let (from, to) = (has_ui(live), has_ui(rendered));
    let is_set_by_class = sources.class.is_some_and(|class| class.spec.ui_sidecar.is_some());
    let by_class = sources.engine.spec.ui_sidecar.is_none() && is_set_by_class;
    (from != to).then(|| {
        format!(
            "{} changed from {from} to {to}",
            sources.owned("spec.uiSidecar", by_class)
        )
    })
}

/// The fields that only the live template has, and that the API server did not add.
pub(super) fn removed(rendered: &Value, live: &Value) -> Vec<String> {
    let paths: BTreeSet<String> = missing(live, rendered).into_iter().collect();
    let removed = paths
        .iter()
        .filter(|path| is_never_defaulted(path) && shortened_path(path) == *path);
    removed
        .map(|field| format!("`{field}` was removed from the pods"))
        .collect()
}

fn data_volume() -> String {
    format!("spec.volumes[{DATA_VOLUME}]")
}

/// The container of the web UI, and its volume.
fn ui_paths() -> [String; 2] {
    [
        format!("spec.containers[{UI_CONTAINER}]"),
        format!("spec.volumes[{UI_VOLUME}]"),
    ]
}

/// The change of one field, with the object that sets it.
fn change(sources: &UserManifests, path: &str, rendered: &Value, live: &Value) -> String {
    let field = shortened_path(path);
    let sets = |template: &Option<Value>| template.as_ref().is_some_and(|template| at(template, field).is_some());
    let owner = if sets(&sources.own_template) {
        sources.owned(&format!("spec.template.{field}"), false)
    } else if sets(&sources.class_template) {
        sources.owned(&format!("spec.template.{field}"), true)
    } else {
        format!("`{field}` of the pods")
    };
    let value = |template: &Value| value(path, template).filter(|_| field == path);
    format!("{owner}{}", from_to(value(live), value(rendered)))
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
    // That of the pod is set to an empty object.
    let in_security_context = in_container.is_none() && field == "securityContext" && !rest.is_empty();
    SET_IN_PART.contains(&field) || in_security_context || (is_whole && NEVER_DEFAULTED.contains(&field))
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

/// A value that is short and never secret.
fn value(path: &str, template: &Value) -> Option<String> {
    let found = at(template, path)?;
    let last = path.rsplit('.').next().unwrap_or(path);
    let is_plain = PLAIN.contains(&last) || PLAIN_MAPS.iter().any(|map| path.contains(map));
    match found {
        Value::String(text) if is_plain && text.len() <= LONGEST_VALUE => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(found.to_string()),
        Value::String(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("metadata.labels.x", true)]
    #[case("spec.nodeSelector", true)]
    #[case("spec.tolerations[1]", true)]
    #[case("spec.volumes[v]", true)]
    #[case("spec.containers[proxy]", true)]
    #[case("spec.containers[engine].resources.limits.cpu", true)]
    #[case("spec.containers[engine].readinessProbe", true)]
    #[case("spec.securityContext.fsGroup", true)]
    #[case("spec.serviceAccountName", true)]
    #[case("spec.serviceAccount", false)]
    #[case("spec.containers[engine].readinessProbe.periodSeconds", false)]
    #[case("spec.containers[engine].imagePullPolicy", false)]
    #[case("spec.containers[engine].securityContext.procMount", false)]
    #[case("spec.containers[engine].env[A].valueFrom.fieldRef.apiVersion", false)]
    #[case("spec.volumes[v].configMap.defaultMode", false)]
    #[case("spec.dnsPolicy", false)]
    #[case("spec.securityContext", false)]
    fn what_the_api_server_adds_was_not_removed(#[case] path: &str, #[case] expected: bool) {
        assert_eq!(is_never_defaulted(path), expected);
    }
}
