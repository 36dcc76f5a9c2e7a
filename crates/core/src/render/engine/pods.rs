//! The pods of one generation, and the claims for their data.

use std::collections::BTreeMap;

use firebolt_api::{EmptyDirStorage, HostPathStorage, PersistentVolumeClaimStorage, StorageMedium};
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PodTemplateSpec, Volume, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::engine_container::engine_container;
use super::{CONFIG_VOLUME, DATA_VOLUME, RESERVED_VOLUMES, RUNTIME_VOLUME, TERMINATION_GRACE_PERIOD, ui_sidecar};
use super::{generation_labels, names};
use crate::resolve::engine::{Backend, EffectiveEngine};

/// The pod template: the settings of the user, completed by the operator.
pub(super) fn pod_template(engine: &EffectiveEngine, generation: i64) -> PodTemplateSpec {
    let PodTemplateSpec { metadata, spec } = engine.template.clone();
    let (mut metadata, mut spec) = (metadata.unwrap_or_default(), spec.unwrap_or_default());
    // Set last, so that labels of a user cannot move a pod to another engine or generation.
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
    HostPathVolumeSource {
        path: storage.path.clone(),
        type_: storage.type_.map(|kind| <&str>::from(kind).to_owned()),
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
