//! The StatefulSet of the server: one pod, and the claim for its data.

use std::collections::BTreeMap;

use firebolt_api::key::Component;
use firebolt_api::quantity::Quantity;
use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PodSecurityContext, PodSpec, PodTemplateSpec,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::POSTGRES_CLAIM;
use super::container::{SOCKET_VOLUME, TEMPORARY_VOLUME, USER, container};
use crate::render::instance::pod::scratch;
use crate::render::instance::{object_meta, selector};
use crate::resolve::instance::{EffectiveInstance, Postgres, component_labels};
use crate::resolve::{pull_secrets, runtime_default};

/// The time in which the server, told to stop, ends its sessions and writes what is in memory to its volume, in seconds.
const GRACE_PERIOD: i64 = 60;
const SIZE: &str = "10Gi";

/// Renders the StatefulSet. An instance with an external database has none; its set names no image, and is refused.
#[must_use]
pub fn postgres_stateful_set(instance: &EffectiveInstance) -> StatefulSet {
    StatefulSet {
        metadata: object_meta(instance, instance.names().postgres(), Component::Postgres),
        spec: Some(StatefulSetSpec {
            replicas: Some(1),
            service_name: Some(instance.names().postgres()),
            selector: selector(instance, Component::Postgres),
            template: pod_template(instance),
            volume_claim_templates: Some(vec![claim(instance)]),
            // With the other policy, a pod that never became ready is not replaced when its template is mended.
            pod_management_policy: Some("Parallel".to_owned()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: None,
            }),
            // The data survives if the set is deleted by mistake and created again.
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some("Retain".to_owned()),
                when_scaled: Some("Retain".to_owned()),
            }),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

fn pod_template(instance: &EffectiveInstance) -> PodTemplateSpec {
    let (image, secrets) = match &instance.postgres {
        Postgres::Internal {
            image,
            image_pull_secrets,
        } => (image.as_str(), image_pull_secrets.as_slice()),
        Postgres::External(_) => ("", &[][..]),
    };
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(component_labels(&instance.name, Component::Postgres)),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: vec![container(&instance.names().postgres_credentials(), image)],
            image_pull_secrets: pull_secrets(secrets),
            volumes: Some(vec![scratch(SOCKET_VOLUME), scratch(TEMPORARY_VOLUME)]),
            security_context: Some(security()),
            termination_grace_period_seconds: Some(GRACE_PERIOD),
            // The server does not use the API server, and variables for other Services could change its settings.
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            ..PodSpec::default()
        }),
    }
}

fn security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        fs_group: Some(USER),
        // The data may be large: its files are not all visited at each start.
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(runtime_default()),
        ..PodSecurityContext::default()
    }
}

fn claim(instance: &EffectiveInstance) -> PersistentVolumeClaim {
    let size = ("storage".to_owned(), Quantity(SIZE.to_owned()));
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(POSTGRES_CLAIM.to_owned()),
            // The claim is found by these labels when the instance is deleted.
            labels: Some(component_labels(&instance.name, Component::Postgres)),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([size])),
                limits: None,
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}
