//! The pods of the metadata service and of the gateway: the operator's part around the user's.

use std::collections::BTreeMap;

use firebolt_api::key::{Annotation, Component};
use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, PodTemplateSpec, Volume, VolumeMount};

use crate::resolve::instance::{EffectiveInstance, component_labels};

/// The progress deadline of a rollout, in seconds.
pub(super) const PROGRESS_DEADLINE: i32 = 120;

/// The operator's part of the pods of a component.
pub(super) struct Own<Build> {
    pub component: Component,
    pub annotations: Vec<(Annotation, String)>,
    /// Builds the component's own container around the user's part of it.
    pub container: Build,
    /// Sidecar containers of the operator.
    pub beside: Vec<Container>,
    pub volumes: Vec<Volume>,
    /// The termination grace period of a pod, in seconds.
    pub grace_period: i64,
}

/// The pod template: the user's, with the operator's part around it.
pub(super) fn template<Build: FnOnce(Container) -> Container>(
    instance: &EffectiveInstance,
    user: &PodTemplateSpec,
    own: Own<Build>,
) -> PodTemplateSpec {
    let PodTemplateSpec { metadata, spec } = user.clone();
    let (mut metadata, mut spec) = (metadata.unwrap_or_default(), spec.unwrap_or_default());
    // Set last, so that labels and annotations of a user cannot move a pod to another component or hide a change.
    let labels = metadata.labels.get_or_insert_default();
    labels.extend(component_labels(&instance.name, own.component));
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.extend(texts(own.annotations));

    let mut containers = spec.containers.into_iter();
    let first = containers.next().map(own.container);
    let own_containers: Vec<Container> = first.into_iter().chain(own.beside).collect();
    let users = containers.filter(|container| own_containers.iter().all(|own| own.name != container.name));
    let users: Vec<Container> = users.collect();
    spec.containers = own_containers.into_iter().chain(users).collect();
    let users = spec.volumes.unwrap_or_default().into_iter();
    let users = users.filter(|volume| own.volumes.iter().all(|own| own.name != volume.name));
    let users: Vec<Volume> = users.collect();
    spec.volumes = Some(own.volumes.into_iter().chain(users).collect());
    spec.termination_grace_period_seconds = Some(own.grace_period);
    // Variables for every Service of the namespace could collide with settings of the component.
    spec.enable_service_links = Some(false);
    PodTemplateSpec {
        metadata: Some(metadata),
        spec: Some(spec),
    }
}

/// Annotations as they stand in object metadata.
pub(super) fn texts(annotations: Vec<(Annotation, String)>) -> BTreeMap<String, String> {
    let entries = annotations.into_iter();
    entries
        .map(|(annotation, value)| (annotation.key().to_owned(), value))
        .collect()
}

/// An `emptyDir` volume.
pub(super) fn scratch(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}

/// A mount of a volume.
pub(super) fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    }
}

/// A read-only mount of a volume.
pub(super) fn read_only(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..mount(name, path)
    }
}
