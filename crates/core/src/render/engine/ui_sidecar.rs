//! The sidecar container of the web UI.

use std::collections::BTreeMap;

use firebolt_api::quantity::Quantity;
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, EnvVar, HTTPGetAction, Probe, ResourceRequirements, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::UI_VOLUME;
use crate::resolve::{ENGINE_USER, hardened, pull_policy};

/// The name of the container. Reserved: a user's container of this name is refused.
pub(crate) const UI_CONTAINER: &str = "engine-web";

const PORT: i32 = 9100;
/// The directory that the server of the UI writes to; its root file system is read-only.
const WRITABLE: [&str; 3] = ["/var/tmp", "/var/cache/nginx", "/var/run/nginx"];

/// The container. It has a readiness probe, so that a generation whose UI does not come up is not switched to.
pub(super) fn container(image: &str) -> Container {
    let quantity = |name: &str, value: &str| (name.to_owned(), Quantity(value.to_owned()));
    let mount = |path: &&str| VolumeMount {
        name: UI_VOLUME.to_owned(),
        mount_path: (*path).to_owned(),
        ..VolumeMount::default()
    };
    Container {
        name: UI_CONTAINER.to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some(pull_policy(image).to_owned()),
        env: Some(vec![EnvVar {
            name: "FIREBOLT_CORE_URL".to_owned(),
            value: Some("http://localhost:3473".to_owned()),
            value_from: None,
        }]),
        ports: Some(vec![ContainerPort {
            name: Some("web-ui".to_owned()),
            container_port: PORT,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        readiness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some("/".to_owned()),
                port: IntOrString::Int(PORT),
                ..HTTPGetAction::default()
            }),
            initial_delay_seconds: Some(1),
            period_seconds: Some(3),
            timeout_seconds: Some(2),
            failure_threshold: Some(3),
            ..Probe::default()
        }),
        resources: Some(ResourceRequirements {
            requests: Some(BTreeMap::from([quantity("cpu", "25m"), quantity("memory", "128Mi")])),
            limits: Some(BTreeMap::from([quantity("memory", "128Mi")])),
            claims: None,
        }),
        security_context: Some(hardened(ENGINE_USER)),
        volume_mounts: Some(WRITABLE.iter().map(mount).collect()),
        ..Container::default()
    }
}

/// The volume for the directories that it writes to.
pub(super) fn volume() -> Volume {
    Volume {
        name: UI_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}
