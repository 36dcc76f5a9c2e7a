//! Violations that a dry run of the rendered object reports, mapped to the fields that the user wrote.
//!
//! Kubernetes has hundreds of rules for pods, which are not repeated here. The webhook sends the rendered object to the
//! API server as a dry run; the causes that the API server reports are mapped to the fields from which the object was
//! rendered.

use std::fmt::{self, Display, Formatter};

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance, Storage};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

use crate::admit::template::{GATEWAY, METADATA, TemplateKind};
use crate::admit::violation::{Violation, ViolationKind};
use crate::render::engine::DATA_VOLUME;

/// Path of the template in a StatefulSet or Deployment.
const TEMPLATE: &str = "spec.template.";
/// Path of the claims in a StatefulSet.
const CLAIMS: &str = "spec.volumeClaimTemplates";
/// Lists whose entries are identified by their name in paths.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];
/// Keys that identify the entries of lists in a pod. A mount has a name too, but that is the name of its volume.
const IDENTITIES: [&str; 6] = ["mountPath", "devicePath", "name", "containerPort", "ip", "topologyKey"];

/// A cause reported by the API server for rejecting a rendered object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The field of the rendered object.
    pub field: String,
    /// Machine-readable reason, for example `FieldValueInvalid`.
    pub reason: String,
    /// The message of the API server.
    pub message: String,
}

/// Violations of an engine, from a dry run of its StatefulSet. Those that come from its class are reported for its
/// reference to the class.
#[must_use]
pub fn engine_dry_run_violations(
    engine: &FireboltEngine,
    class: Option<&FireboltEngineClass>,
    rendered: &StatefulSet,
    causes: &[Cause],
) -> Vec<Violation> {
    let set = RenderedStatefulSet::of(rendered);
    let own = WrittenFields {
        template: engine.spec.template.as_ref().map(value),
        storage: &engine.spec.storage,
    };
    let inherited = class.map(WrittenFields::of);
    let to_violation = |cause: &Cause| {
        let inherited = inherited.as_ref().and_then(|inherited| set.locate(inherited, cause));
        match [set.locate(&own, cause), inherited] {
            [Some(own), inherited] if inherited.as_ref().is_none_or(|other| other.depth <= own.depth) => {
                cause.at("spec", Some(&own))
            }
            [_, Some(inherited)] => {
                let class = class
                    .and_then(|class| class.metadata.name.as_deref())
                    .unwrap_or_default();
                let Violation { path, kind, message } = cause.at("spec", Some(&inherited));
                let message = format!("In FireboltEngineClass {class}, {path}: {message}");
                Violation::new("spec.engineClassRef", kind, message)
            }
            [_, None] => cause.at("spec", None),
        }
    };
    without_duplicates(causes.iter().map(to_violation))
}

/// Violations of a class, from a dry run of the StatefulSet of a minimal engine. Missing references, such as the volume
/// of a mount, are not reported, because an engine may provide them.
#[must_use]
pub fn engine_class_dry_run_violations(
    class: &FireboltEngineClass,
    rendered: &StatefulSet,
    causes: &[Cause],
) -> Vec<Violation> {
    let (set, written) = (RenderedStatefulSet::of(rendered), WrittenFields::of(class));
    let to_violation = |cause: &Cause| cause.at("spec", set.locate(&written, cause).as_ref());
    let faults = causes.iter().filter(|cause| cause.kind() != ViolationKind::NotFound);
    without_duplicates(faults.map(to_violation))
}

/// Violations of the metadata service, from a dry run of its Deployment.
#[must_use]
pub fn metadata_dry_run_violations(
    instance: &FireboltInstance,
    rendered: &Deployment,
    causes: &[Cause],
) -> Vec<Violation> {
    of_deployment(&METADATA, instance.spec.metadata.template.as_ref(), rendered, causes)
}

/// Violations of the gateway, from a dry run of its Deployment.
#[must_use]
pub fn gateway_dry_run_violations(
    instance: &FireboltInstance,
    rendered: &Deployment,
    causes: &[Cause],
) -> Vec<Violation> {
    of_deployment(&GATEWAY, instance.spec.gateway.template.as_ref(), rendered, causes)
}

fn of_deployment(
    component: &TemplateKind,
    written: Option<&PodTemplateSpec>,
    rendered: &Deployment,
    causes: &[Cause],
) -> Vec<Violation> {
    let rendered = rendered.spec.as_ref().map_or(Value::Null, |spec| value(&spec.template));
    let written = written.map(value);
    // For example "spec.gateway": the settings of the component.
    let settings = component.path.trim_end_matches(".template");
    let to_violation = |cause: &Cause| {
        let field = cause.field.strip_prefix(TEMPLATE);
        let place = field.and_then(|field| locate(&rendered, written.as_ref(), field));
        cause.at(settings, place.as_ref())
    };
    without_duplicates(causes.iter().map(to_violation))
}

/// Kubernetes reports some fields twice.
fn without_duplicates(violations: impl Iterator<Item = Violation>) -> Vec<Violation> {
    let mut once = Vec::new();
    for violation in violations {
        if !once.contains(&violation) {
            once.push(violation);
        }
    }
    once
}

impl Cause {
    /// The violation for a field below `parent`, or for the parent if the field is not known. The path contains only
    /// fields that the user wrote; the message names the rest.
    fn at(&self, parent: &str, place: Option<&FieldLocation>) -> Violation {
        match place {
            None => Violation::new(parent, self.kind(), self.text("")),
            Some(FieldLocation { path, rest, .. }) => {
                Violation::new(format!("{parent}.{path}"), self.kind(), self.text(rest))
            }
        }
    }

    fn kind(&self) -> ViolationKind {
        match self.reason.as_str() {
            "FieldValueForbidden" => ViolationKind::Forbidden,
            "FieldValueDuplicate" => ViolationKind::Duplicate,
            "FieldValueRequired" => ViolationKind::Required,
            "FieldValueNotFound" => ViolationKind::NotFound,
            // In all other cases, Kubernetes rejects the value.
            _ => ViolationKind::Invalid,
        }
    }

    /// The message without the kind of the violation, for a part of the field of the violation.
    fn text(&self, part: &str) -> String {
        let kind = self.kind().to_string();
        let words = self.message.strip_prefix(&kind).unwrap_or(&self.message);
        let part = part.trim_start_matches('.');
        match words.trim_start_matches([':', ' ']).trim_end_matches('.') {
            "" if part.is_empty() => "Rejected by Kubernetes.".to_owned(),
            "" => format!("Rejected by Kubernetes: {part} is required."),
            words if part.is_empty() => format!("Rejected by Kubernetes: {words}."),
            words => format!("Rejected by Kubernetes at {part}: {words}."),
        }
    }
}

/// A field that a user wrote, and how far its path matches the field of a cause.
struct FieldLocation {
    /// Path that starts at the template, for example `template.spec.containers[proxy].image`.
    path: String,
    depth: usize,
    /// Rest of the path, for example `.ports[0]`.
    rest: String,
}

/// The fields of a user from which a StatefulSet is rendered.
struct WrittenFields<'a> {
    template: Option<Value>,
    storage: &'a Storage,
}

impl<'a> WrittenFields<'a> {
    fn of(class: &'a FireboltEngineClass) -> Self {
        Self {
            template: Some(value(&class.spec.template)),
            storage: &class.spec.storage,
        }
    }

    /// Location of the storage backend, if one is set.
    fn storage(&self) -> Option<FieldLocation> {
        let backends = [
            (self.storage.persistent_volume_claim.is_some(), "persistentVolumeClaim"),
            (self.storage.empty_dir.is_some(), "emptyDir"),
            (self.storage.host_path.is_some(), "hostPath"),
        ];
        let (_, backend) = backends.into_iter().find(|(is_set, _)| *is_set)?;
        Some(FieldLocation {
            path: format!("storage.{backend}"),
            depth: 1,
            rest: String::new(),
        })
    }
}

/// A rendered StatefulSet.
struct RenderedStatefulSet {
    template: Value,
    /// Path of the data volume, which does not come from a template.
    data: Option<String>,
}

impl RenderedStatefulSet {
    fn of(rendered: &StatefulSet) -> Self {
        let template = rendered.spec.as_ref().map_or(Value::Null, |spec| value(&spec.template));
        let volumes = template["spec"]["volumes"].as_array();
        let data = volumes.and_then(|volumes| volumes.iter().position(|volume| volume["name"] == DATA_VOLUME));
        Self {
            data: data.map(|index| format!("{TEMPLATE}spec.volumes[{index}]")),
            template,
        }
    }

    fn locate(&self, written: &WrittenFields, cause: &Cause) -> Option<FieldLocation> {
        let field = &cause.field;
        let is_data = self.data.as_ref().is_some_and(|data| field.starts_with(data));
        if is_data || field.starts_with(CLAIMS) {
            return written.storage();
        }
        locate(&self.template, written.template.as_ref(), field.strip_prefix(TEMPLATE)?)
    }
}

fn value(template: &PodTemplateSpec) -> Value {
    serde_json::to_value(template).expect("a template is plain JSON")
}

/// Follows a path of the rendered template through the written one, as far as possible.
fn locate(mut rendered: &Value, written: Option<&Value>, field: &str) -> Option<FieldLocation> {
    let mut written = written?;
    let mut place = FieldLocation {
        path: "template".to_owned(),
        depth: 0,
        rest: String::new(),
    };
    let segments = segments(field);
    // Kubernetes omits `metadata` from the path of labels and annotations.
    let metadata = matches!(segments.first(), Some(PathSegment::Field("labels" | "annotations")))
        .then_some(PathSegment::Field("metadata"));
    let segments: Vec<PathSegment> = metadata.into_iter().chain(segments).collect();
    let mut list = "";
    for (index, step) in segments.iter().enumerate() {
        if let (Value::Array(entries), PathSegment::Entry(number)) = (written, step) {
            let entry = number.parse::<usize>().ok().and_then(|number| rendered.get(number));
            let position = entry.and_then(|entry| entries.iter().position(|other| is_same(entry, other)));
            let (Some(entry), Some(position)) = (entry, position) else {
                // An entry of the operator, whose index has no meaning for the user.
                break;
            };
            (rendered, written) = (entry, &entries[position]);
            let position = position.to_string();
            let by_name = written["name"].as_str().filter(|_| CONTAINERS.contains(&list));
            let entry = PathSegment::Entry(by_name.unwrap_or(&position));
            place.path.push_str(&entry.to_string());
        } else {
            let (PathSegment::Field(key) | PathSegment::Entry(key)) = step;
            let Some(next) = written.get(key).filter(|next| !is_empty(next)) else {
                place.rest = segments[index..].iter().map(PathSegment::to_string).collect();
                break;
            };
            rendered = rendered.get(key).unwrap_or(&Value::Null);
            (written, list) = (next, key);
            place.path.push_str(&step.to_string());
        }
        place.depth += 1;
    }
    Some(place)
}

/// Whether an entry of a rendered list is an entry that the user wrote.
fn is_same(rendered: &Value, written: &Value) -> bool {
    let identity = IDENTITIES.iter().find(|key| rendered.get(key).is_some());
    match identity {
        Some(key) => rendered.get(key) == written.get(key),
        None => rendered == written,
    }
}

/// An empty list counts as none: the types serialize `containers` even if the user did not set it.
fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[derive(Debug, PartialEq, Eq)]
enum PathSegment<'a> {
    Field(&'a str),
    /// Index of a list or key of a map.
    Entry(&'a str),
}

impl Display for PathSegment<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(key) => write!(f, ".{key}"),
            Self::Entry(key) => write!(f, "[{key}]"),
        }
    }
}

/// The segments of a path such as `spec.containers[0].resources.limits[cpu]`.
fn segments(mut field: &str) -> Vec<PathSegment<'_>> {
    let mut segments = Vec::new();
    while !field.is_empty() {
        if let Some(rest) = field.strip_prefix('[') {
            let end = rest.find(']').unwrap_or(rest.len());
            segments.push(PathSegment::Entry(&rest[..end]));
            field = rest.get(end + 1..).unwrap_or_default();
        } else {
            let rest = field.strip_prefix('.').unwrap_or(field);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            segments.push(PathSegment::Field(&rest[..end]));
            field = &rest[end..];
        }
    }
    segments
}

#[cfg(test)]
mod tests;
