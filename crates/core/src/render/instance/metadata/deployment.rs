//! The Deployment of the metadata service.

use firebolt_api::key::{Annotation, Component};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, KeyToPath, PodTemplateSpec, SecretVolumeSource, Volume};

use super::config::config;
use super::container::container;
use super::{CONFIG_VOLUME, CREDENTIALS_VOLUME, TEMPORARY_VOLUME};
use crate::render::instance::pod::{Own, PROGRESS_DEADLINE, scratch, template};
use crate::render::instance::{PASSWORD_KEY, USERNAME_KEY, object_meta, selector};
use crate::resolve::instance::EffectiveInstance;

const GRACE_PERIOD: i64 = 30;

/// Renders the Deployment. The service reads its credentials at start; another hash of them restarts it.
#[must_use]
pub fn metadata_deployment(instance: &EffectiveInstance, credentials_hash: &str) -> Deployment {
    Deployment {
        metadata: object_meta(instance, instance.names().metadata(), Component::Metadata),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            selector: selector(instance, Component::Metadata),
            // The service is the single writer of its database: the next one starts when the last one is gone.
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                rolling_update: None,
            }),
            template: pod_template(instance, credentials_hash),
            progress_deadline_seconds: Some(PROGRESS_DEADLINE),
            paused: Some(false),
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn pod_template(instance: &EffectiveInstance, credentials_hash: &str) -> PodTemplateSpec {
    let format = instance.metadata.config_format;
    let own = Own {
        component: Component::Metadata,
        annotations: vec![
            (Annotation::ConfigHash, config(instance).hash(format)),
            (Annotation::CredentialsHash, credentials_hash.to_owned()),
        ],
        container: |user| container(user, format),
        beside: Vec::new(),
        volumes: volumes(instance),
        grace_period: GRACE_PERIOD,
    };
    template(instance, &instance.metadata.template, own)
}

fn volumes(instance: &EffectiveInstance) -> Vec<Volume> {
    let config = Volume {
        name: CONFIG_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: instance.names().metadata_config(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    // Only the keys that the service reads: a Secret of a user may have more.
    let keys = [USERNAME_KEY, PASSWORD_KEY].map(|key| KeyToPath {
        key: key.to_owned(),
        path: key.to_owned(),
        mode: None,
    });
    let credentials = Volume {
        name: CREDENTIALS_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(instance.credentials_secret()),
            items: Some(keys.into()),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    };
    vec![config, credentials, scratch(TEMPORARY_VOLUME)]
}
