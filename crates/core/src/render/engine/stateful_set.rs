//! The StatefulSet of one generation: its pods, and the claims for their data.

use std::collections::BTreeMap;

use firebolt_api::key::Annotation;
use firebolt_api::{EmptyDirStorage, HostPathStorage, HostPathType, PersistentVolumeClaimStorage, StorageMedium};
use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PodTemplateSpec, Volume, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::engine_container::engine_container;
use super::{CONFIG_VOLUME, DATA_VOLUME, RESERVED_VOLUMES, RUNTIME_VOLUME, ui_sidecar};
use super::{fingerprint, generation_labels, metadata, names};
use crate::canonical;
use crate::resolve::engine::{Backend, EffectiveEngine};

/// The time that a pod has between SIGTERM and SIGKILL, in seconds.
pub(super) const TERMINATION_GRACE_PERIOD: i64 = 60;

/// Renders the StatefulSet of `generation`.
#[must_use]
pub fn stateful_set(engine: &EffectiveEngine, generation: i64) -> StatefulSet {
    StatefulSet {
        metadata: ObjectMeta {
            annotations: Some(annotations(engine)),
            ..metadata(engine, names(engine).stateful_set(generation), Some(generation))
        },
        spec: Some(StatefulSetSpec {
            replicas: Some(engine.replicas),
            service_name: Some(names(engine).headless_service(generation)),
            selector: LabelSelector {
                match_labels: Some(generation_labels(engine, generation)),
                match_expressions: None,
            },
            template: pod_template(engine, generation),
            volume_claim_templates: claims(engine, generation),
            pod_management_policy: Some("Parallel".to_owned()),
            // A generation never changes; only the operator replaces it, by another.
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".to_owned()),
                rolling_update: None,
            }),
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some("Delete".to_owned()),
                when_scaled: Some("Retain".to_owned()),
            }),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

/// The fingerprint decides whether a generation is still the wanted one; the other two say why it no longer is. None of
/// them is on the pods, where a change would mean nothing.
fn annotations(engine: &EffectiveEngine) -> BTreeMap<String, String> {
    let entry = |annotation: Annotation, value: String| (annotation.key().to_owned(), value);
    let config = engine.sources.custom_config.as_ref().map(canonical::hash);
    let class = engine.sources.class_template.as_ref().map(canonical::hash);
    [
        Some(entry(Annotation::Fingerprint, fingerprint(engine))),
        config.map(|hash| entry(Annotation::CustomEngineConfigHash, hash)),
        class.map(|hash| entry(Annotation::EngineClassHash, hash)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The pods: what users decide about, with the operator's part around it.
pub(super) fn pod_template(engine: &EffectiveEngine, generation: i64) -> PodTemplateSpec {
    let PodTemplateSpec { metadata, spec } = engine.template.clone();
    let (mut metadata, mut spec) = (metadata.unwrap_or_default(), spec.unwrap_or_default());
    // Last, so that nothing a user writes can move a pod into another engine or generation.
    metadata
        .labels
        .get_or_insert_default()
        .extend(generation_labels(engine, generation));
    let mut containers = spec.containers.into_iter();
    let own = containers.next().map(engine_container);
    let ui = engine.ui_image.as_deref().map(ui_sidecar::container);
    spec.containers = own.into_iter().chain(containers).chain(ui).collect();
    spec.volumes = Some(volumes(engine, generation, spec.volumes.unwrap_or_default()));
    spec.termination_grace_period_seconds = Some(TERMINATION_GRACE_PERIOD);
    // Variables for every Service of the namespace could collide with settings of the engine.
    spec.enable_service_links = Some(false);
    PodTemplateSpec {
        metadata: Some(metadata),
        spec: Some(spec),
    }
}

fn volumes(engine: &EffectiveEngine, generation: i64, user: Vec<Volume>) -> Vec<Volume> {
    let named = |name: &str| Volume {
        name: name.to_owned(),
        ..Volume::default()
    };
    let config = Volume {
        config_map: Some(ConfigMapVolumeSource {
            name: names(engine).config_map(generation),
            ..ConfigMapVolumeSource::default()
        }),
        ..named(CONFIG_VOLUME)
    };
    let runtime = Volume {
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..named(RUNTIME_VOLUME)
    };
    let data = match &engine.storage {
        Backend::PersistentVolumeClaim(_) => None,
        Backend::EmptyDir(storage) => Some(Volume {
            empty_dir: Some(empty_dir(storage)),
            ..named(DATA_VOLUME)
        }),
        Backend::HostPath(storage) => Some(Volume {
            host_path: Some(host_path(storage)),
            ..named(DATA_VOLUME)
        }),
    };
    let user = user
        .into_iter()
        .filter(|volume| !RESERVED_VOLUMES.contains(&volume.name.as_str()));
    let ui = engine.ui_image.as_ref().map(|_| ui_sidecar::volume());
    [config, runtime]
        .into_iter()
        .chain(data)
        .chain(user)
        .chain(ui)
        .collect()
}

fn empty_dir(storage: &EmptyDirStorage) -> EmptyDirVolumeSource {
    let medium = match storage.medium {
        Some(StorageMedium::Memory) => Some("Memory".to_owned()),
        Some(StorageMedium::Default) | None => None,
    };
    EmptyDirVolumeSource {
        medium,
        size_limit: storage.size_limit.clone(),
    }
}

fn host_path(storage: &HostPathStorage) -> HostPathVolumeSource {
    let type_ = storage.type_.filter(|kind| *kind != HostPathType::Unset);
    HostPathVolumeSource {
        path: storage.path.clone(),
        type_: type_.map(|kind| <&str>::from(kind).to_owned()),
    }
}

pub(super) fn claims(engine: &EffectiveEngine, generation: i64) -> Option<Vec<PersistentVolumeClaim>> {
    match &engine.storage {
        Backend::PersistentVolumeClaim(storage) => Some(vec![claim(engine, generation, storage)]),
        Backend::EmptyDir(_) | Backend::HostPath(_) => None,
    }
}

fn claim(engine: &EffectiveEngine, generation: i64, storage: &PersistentVolumeClaimStorage) -> PersistentVolumeClaim {
    let modes = storage.access_modes.iter().map(|mode| <&str>::from(mode).to_owned());
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(DATA_VOLUME.to_owned()),
            labels: Some(generation_labels(engine, generation)),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(modes.collect()),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), storage.size.clone())])),
                limits: None,
            }),
            storage_class_name: storage.storage_class_name.clone(),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}
