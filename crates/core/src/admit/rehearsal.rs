//! What Kubernetes says of an object that would be made from a template, told at the fields that the user wrote.
//!
//! Kubernetes has hundreds of rules for pods, which are not repeated here. The webhook lets the API server try the
//! rendered object without storing it; what it objects to is led back to where it comes from.

use std::fmt::{self, Display, Formatter};

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance, Storage};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

use super::component::{Component, GATEWAY, METADATA};
use super::violation::{Kind, Violation};
use crate::render::engine::DATA_VOLUME;

/// Where the template stands in a StatefulSet or Deployment.
const TEMPLATE: &str = "spec.template.";
/// Where the claims stand in a StatefulSet.
const CLAIMS: &str = "spec.volumeClaimTemplates";
/// Lists whose entries go by their name in paths.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];
/// What tells the entries of lists of a pod apart, where anything does. A mount has a name too, but it is not its own.
const IDENTITIES: [&str; 6] = ["mountPath", "devicePath", "name", "containerPort", "ip", "topologyKey"];

/// One thing that Kubernetes objects to in a rendered object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The field of the rendered object.
    pub field: String,
    /// The reason for programs, as in `FieldValueInvalid`.
    pub reason: String,
    /// The words of the API server.
    pub message: String,
}

/// What Kubernetes objects to in the StatefulSet of an engine: what comes from its class is told of its reference.
#[must_use]
pub fn engine_objections(
    engine: &FireboltEngine,
    class: Option<&FireboltEngineClass>,
    rendered: &StatefulSet,
    objections: &[Objection],
) -> Vec<Violation> {
    let set = Set::of(rendered);
    let own = Written {
        template: engine.spec.template.as_ref().map(value),
        storage: &engine.spec.storage,
    };
    let inherited = class.map(Written::of);
    let tell = |objection: &Objection| {
        let inherited = inherited
            .as_ref()
            .and_then(|inherited| set.locate(inherited, objection));
        match [set.locate(&own, objection), inherited] {
            [Some(own), inherited] if inherited.as_ref().is_none_or(|other| other.depth <= own.depth) => {
                objection.at("spec", Some(&own))
            }
            [_, Some(inherited)] => {
                let class = class
                    .and_then(|class| class.metadata.name.as_deref())
                    .unwrap_or_default();
                let Violation { path, kind, message } = objection.at("spec", Some(&inherited));
                let message = format!("In FireboltEngineClass {class}, {path}: {message}");
                Violation::new("spec.engineClassRef", kind, message)
            }
            [_, None] => objection.at("spec", None),
        }
    };
    each_once(objections.iter().map(tell))
}

/// What Kubernetes objects to in the StatefulSet of an engine that has nothing but its class. What is only missing, such as
/// a volume to a mount, an engine may bring.
#[must_use]
pub fn engine_class_objections(
    class: &FireboltEngineClass,
    rendered: &StatefulSet,
    objections: &[Objection],
) -> Vec<Violation> {
    let (set, written) = (Set::of(rendered), Written::of(class));
    let tell = |objection: &Objection| objection.at("spec", set.locate(&written, objection).as_ref());
    let faults = objections.iter().filter(|objection| objection.kind() != Kind::NotFound);
    each_once(faults.map(tell))
}

/// What Kubernetes objects to in the Deployment of the metadata service.
#[must_use]
pub fn metadata_objections(
    instance: &FireboltInstance,
    rendered: &Deployment,
    objections: &[Objection],
) -> Vec<Violation> {
    of_deployment(
        &METADATA,
        instance.spec.metadata.template.as_ref(),
        rendered,
        objections,
    )
}

/// What Kubernetes objects to in the Deployment of the gateway.
#[must_use]
pub fn gateway_objections(
    instance: &FireboltInstance,
    rendered: &Deployment,
    objections: &[Objection],
) -> Vec<Violation> {
    of_deployment(&GATEWAY, instance.spec.gateway.template.as_ref(), rendered, objections)
}

fn of_deployment(
    component: &Component,
    written: Option<&PodTemplateSpec>,
    rendered: &Deployment,
    objections: &[Objection],
) -> Vec<Violation> {
    let rendered = rendered.spec.as_ref().map_or(Value::Null, |spec| value(&spec.template));
    let written = written.map(value);
    // As in "spec.gateway": the settings of the component.
    let settings = component.path.trim_end_matches(".template");
    let tell = |objection: &Objection| {
        let field = objection.field.strip_prefix(TEMPLATE);
        let place = field.and_then(|field| locate(&rendered, written.as_ref(), field));
        objection.at(settings, place.as_ref())
    };
    each_once(objections.iter().map(tell))
}

/// Kubernetes objects to some fields twice.
fn each_once(violations: impl Iterator<Item = Violation>) -> Vec<Violation> {
    let mut once = Vec::new();
    for violation in violations {
        if !once.contains(&violation) {
            once.push(violation);
        }
    }
    once
}

impl Objection {
    /// Tells it of a place below `parent`, or of the parent if there is none. Only what the user wrote is named as the place;
    /// the message says where in it.
    fn at(&self, parent: &str, place: Option<&Place>) -> Violation {
        match place {
            None => Violation::new(parent, self.kind(), self.said("")),
            Some(Place { path, rest, .. }) => Violation::new(format!("{parent}.{path}"), self.kind(), self.said(rest)),
        }
    }

    fn kind(&self) -> Kind {
        match self.reason.as_str() {
            "FieldValueForbidden" => Kind::Forbidden,
            "FieldValueDuplicate" => Kind::Duplicate,
            "FieldValueRequired" => Kind::Required,
            "FieldValueNotFound" => Kind::NotFound,
            // Whatever else it is, the value is not one that Kubernetes takes.
            _ => Kind::Invalid,
        }
    }

    /// Its words, without what the kind says already, about a part of the field that is told of.
    fn said(&self, part: &str) -> String {
        let kind = self.kind().to_string();
        let words = self.message.strip_prefix(&kind).unwrap_or(&self.message);
        let part = part.trim_start_matches('.');
        match words.trim_start_matches([':', ' ']).trim_end_matches('.') {
            "" if part.is_empty() => "Kubernetes does not take it like this.".to_owned(),
            "" => format!("Kubernetes does not take it without {part}."),
            words if part.is_empty() => format!("Kubernetes does not take it: {words}."),
            words => format!("Kubernetes does not take it, at {part}: {words}."),
        }
    }
}

/// A field that a user wrote, and how far it leads towards the one that was objected to.
struct Place {
    /// From the template on, as in `template.spec.containers[proxy].image`.
    path: String,
    depth: usize,
    /// The rest of the way, as in `.ports[0]`.
    rest: String,
}

/// What a user wrote that a StatefulSet is made from.
struct Written<'a> {
    template: Option<Value>,
    storage: &'a Storage,
}

impl<'a> Written<'a> {
    fn of(class: &'a FireboltEngineClass) -> Self {
        Self {
            template: Some(value(&class.spec.template)),
            storage: &class.spec.storage,
        }
    }

    /// Where it says how data is kept, if it does.
    fn storage(&self) -> Option<Place> {
        let backends = [
            (self.storage.persistent_volume_claim.is_some(), "persistentVolumeClaim"),
            (self.storage.empty_dir.is_some(), "emptyDir"),
            (self.storage.host_path.is_some(), "hostPath"),
        ];
        let (_, backend) = backends.into_iter().find(|(is_set, _)| *is_set)?;
        Some(Place {
            path: format!("storage.{backend}"),
            depth: 1,
            rest: String::new(),
        })
    }
}

/// A rendered StatefulSet.
struct Set {
    template: Value,
    /// Where the volume for the data stands, which is made from no template.
    data: Option<String>,
}

impl Set {
    fn of(rendered: &StatefulSet) -> Self {
        let template = rendered.spec.as_ref().map_or(Value::Null, |spec| value(&spec.template));
        let volumes = template["spec"]["volumes"].as_array();
        let data = volumes.and_then(|volumes| volumes.iter().position(|volume| volume["name"] == DATA_VOLUME));
        Self {
            data: data.map(|index| format!("{TEMPLATE}spec.volumes[{index}]")),
            template,
        }
    }

    fn locate(&self, written: &Written, objection: &Objection) -> Option<Place> {
        let field = &objection.field;
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

/// Follows a field of the rendered template through the written one, as far as that goes.
fn locate(mut rendered: &Value, written: Option<&Value>, field: &str) -> Option<Place> {
    let mut written = written?;
    let mut place = Place {
        path: "template".to_owned(),
        depth: 0,
        rest: String::new(),
    };
    let steps = steps(field);
    // Kubernetes leaves the metadata out of the way to labels and annotations.
    let metadata =
        matches!(steps.first(), Some(Step::Field("labels" | "annotations"))).then_some(Step::Field("metadata"));
    let steps: Vec<Step> = metadata.into_iter().chain(steps).collect();
    let mut list = "";
    for (index, step) in steps.iter().enumerate() {
        if let (Value::Array(entries), Step::Entry(number)) = (written, step) {
            let entry = number.parse::<usize>().ok().and_then(|number| rendered.get(number));
            let position = entry.and_then(|entry| entries.iter().position(|other| is_same(entry, other)));
            let (Some(entry), Some(position)) = (entry, position) else {
                // An entry that is not the user's, at a number that means nothing to them.
                break;
            };
            (rendered, written) = (entry, &entries[position]);
            let position = position.to_string();
            let by_name = written["name"].as_str().filter(|_| CONTAINERS.contains(&list));
            let entry = Step::Entry(by_name.unwrap_or(&position));
            place.path.push_str(&entry.to_string());
        } else {
            let (Step::Field(key) | Step::Entry(key)) = step;
            let Some(next) = written.get(key).filter(|next| !is_empty(next)) else {
                place.rest = steps[index..].iter().map(Step::to_string).collect();
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

/// Whether an entry of a rendered list is one that the user wrote.
fn is_same(rendered: &Value, written: &Value) -> bool {
    let identity = IDENTITIES.iter().find(|key| rendered.get(key).is_some());
    match identity {
        Some(key) => rendered.get(key) == written.get(key),
        None => rendered == written,
    }
}

/// An empty list stands for none: the types write `containers` even where the user did not.
fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    Field(&'a str),
    /// An index of a list or a key of a map.
    Entry(&'a str),
}

impl Display for Step<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(key) => write!(f, ".{key}"),
            Self::Entry(key) => write!(f, "[{key}]"),
        }
    }
}

/// The steps of a path such as `spec.containers[0].resources.limits[cpu]`.
fn steps(mut field: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    while !field.is_empty() {
        if let Some(rest) = field.strip_prefix('[') {
            let end = rest.find(']').unwrap_or(rest.len());
            steps.push(Step::Entry(&rest[..end]));
            field = rest.get(end + 1..).unwrap_or_default();
        } else {
            let rest = field.strip_prefix('.').unwrap_or(field);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Field(&rest[..end]));
            field = &rest[end..];
        }
    }
    steps
}

#[cfg(test)]
#[path = "rehearsal_tests.rs"]
mod tests;
