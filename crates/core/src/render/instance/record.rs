//! What a Deployment or StatefulSet of an instance records about its rendering, in annotations of the object itself: an
//! annotation of its pods would restart them.

use std::collections::BTreeMap;

use firebolt_api::key::Annotation;
use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use crate::canonical;
use crate::render::with_template_hash;

/// The hash of the object is one of them: it covers the others.
const RECORDS: [Annotation; 5] = [
    Annotation::TemplateHash,
    Annotation::InputsHash,
    Annotation::RenderingHash,
    Annotation::PodTemplate,
    Annotation::ConfigHash,
];

/// An object with a pod template, a change of which restarts pods.
pub(crate) trait Workload: Metadata<Ty = ObjectMeta> + Serialize + Clone {
    /// Its pod template. An object of the API server always has one.
    fn pod_template(&self) -> Option<&PodTemplateSpec>;
    /// Replaces its pod template.
    fn set_pod_template(&mut self, template: PodTemplateSpec);
}

macro_rules! workload {
    ($kind:ty) => {
        impl Workload for $kind {
            fn pod_template(&self) -> Option<&PodTemplateSpec> {
                self.spec.as_ref().map(|spec| &spec.template)
            }

            fn set_pod_template(&mut self, template: PodTemplateSpec) {
                self.spec.get_or_insert_default().template = template;
            }
        }
    };
}

workload!(Deployment);
workload!(StatefulSet);

/// What is recorded beside the pod template.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    /// The inputs hash.
    pub hash: String,
    /// The hash of the data of the ConfigMap that the pods mount, if they mount one.
    pub config: Option<String>,
}

/// The workload with the records of this rendering, instead of any other.
#[must_use]
pub(crate) fn with_records<W: Workload>(workload: W, inputs: Inputs) -> W {
    let mut workload = without_records(workload);
    let template = workload.pod_template().map(canonical::to_json).unwrap_or_default();
    let mut records = vec![
        (Annotation::InputsHash, inputs.hash),
        (Annotation::RenderingHash, canonical::hash(&template)),
        (Annotation::PodTemplate, template.to_string()),
    ];
    records.extend(inputs.config.map(|hash| (Annotation::ConfigHash, hash)));
    let annotations = workload.metadata_mut().annotations.get_or_insert_default();
    annotations.extend(records.into_iter().map(|(key, value)| (key.key().to_owned(), value)));
    with_template_hash(workload)
}

/// The workload as earlier builds rendered it.
#[must_use]
pub(crate) fn without_records<W: Workload>(mut workload: W) -> W {
    let metadata = workload.metadata_mut();
    let annotations = metadata.annotations.take().unwrap_or_default().into_iter();
    let is_record = |key: &str| RECORDS.iter().any(|record| record.key() == key);
    let rest: BTreeMap<String, String> = annotations.filter(|(key, _)| !is_record(key)).collect();
    metadata.annotations = (!rest.is_empty()).then_some(rest);
    workload
}

/// The pod template that is recorded, unless the record is missing or was changed.
#[must_use]
pub(crate) fn recorded_pods<W: Workload>(workload: &W) -> Option<PodTemplateSpec> {
    let template: PodTemplateSpec = serde_json::from_str(recorded(workload, Annotation::PodTemplate)?).ok()?;
    let hash = recorded(workload, Annotation::RenderingHash)?;
    (canonical::hash(&template) == hash).then_some(template)
}

/// One record.
#[must_use]
pub(crate) fn recorded<W: Workload>(workload: &W, annotation: Annotation) -> Option<&str> {
    let annotations = workload.metadata().annotations.as_ref()?;
    annotations.get(annotation.key()).map(String::as_str)
}
