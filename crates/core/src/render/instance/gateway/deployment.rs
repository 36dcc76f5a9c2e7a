//! The Deployment of the gateway.

use firebolt_api::key::{Annotation, Component};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, KeyToPath, PodTemplateSpec, Volume};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::container::container;
use super::{CONFIG_FILE, CONFIG_VOLUME, TEMPORARY_VOLUME, bootstrap};
use super::{GRACE_PERIOD, wake_agent};
use crate::canonical;
use crate::render::instance::pod::{Own, PROGRESS_DEADLINE, scratch, template};
use crate::render::instance::{object_meta, selector};
use crate::resolve::instance::EffectiveInstance;

/// Renders the Deployment.
#[must_use]
pub fn gateway_deployment(instance: &EffectiveInstance) -> Deployment {
    Deployment {
        metadata: object_meta(instance, instance.names().gateway(), Component::Gateway),
        spec: Some(DeploymentSpec {
            replicas: Some(instance.gateway.replicas),
            selector: selector(instance, Component::Gateway),
            // A pod is deleted only when another has replaced it, so that the number of ready pods never drops.
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_unavailable: Some(IntOrString::Int(0)),
                    max_surge: Some(IntOrString::String("25%".to_owned())),
                }),
            }),
            template: pod_template(instance),
            progress_deadline_seconds: Some(PROGRESS_DEADLINE),
            paused: Some(false),
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn pod_template(instance: &EffectiveInstance) -> PodTemplateSpec {
    let own = Own {
        component: Component::Gateway,
        // A hash of the structure and not of the text, so that a change of the serialization does not restart gateways.
        annotations: vec![(Annotation::ConfigHash, canonical::hash(&bootstrap(instance)))],
        container: |user| container(user, instance.gateway.metrics_port),
        beside: vec![wake_agent::container(instance)],
        volumes: vec![config(instance), scratch(TEMPORARY_VOLUME), wake_agent::token()],
        grace_period: GRACE_PERIOD,
    };
    template(instance, &instance.gateway.template, own)
}

fn config(instance: &EffectiveInstance) -> Volume {
    Volume {
        name: CONFIG_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: instance.names().gateway_config(),
            items: Some(vec![KeyToPath {
                key: CONFIG_FILE.to_owned(),
                path: CONFIG_FILE.to_owned(),
                mode: None,
            }]),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}
