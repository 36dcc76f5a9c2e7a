//! The engine container: the settings of users, and its identity, which the operator sets.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, Probe, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{CONFIG_FILE, CONFIG_VOLUME, DATA_VOLUME, HEALTH_PORT, PORTS, RESERVED_VOLUMES, RUNTIME_VOLUME};

const DATA_FOLDER: &str = "/var/lib/firebolt";
const RUNTIME_FOLDER: &str = "/run/firebolt";

/// Environment variables that the operator sets. Admission refuses them in templates.
pub(crate) const RESERVED_ENV: [&str; 3] = [
    NODE_VARIABLE,
    "FB_AWS_EC2_METADATA_CLIENT_ENABLED",
    "FIREBOLT_CORE_MODE",
];
const NODE_VARIABLE: &str = "POD_INDEX";

/// Clusters before 1.28 do not label pods with their index; there the name of the pod ends with it.
const SCRIPT: &str = r#"set -euo pipefail
exec /opt/firebolt/firebolt server --node "${POD_INDEX:-${HOSTNAME##*-}}" --data-dir /var/lib/firebolt
"#;

/// Completes the user's container with the operator's fields.
pub(super) fn engine_container(user: Container) -> Container {
    let user_mounts = user.volume_mounts.unwrap_or_default().into_iter();
    let user_mounts = user_mounts.filter(|mount| !RESERVED_VOLUMES.contains(&mount.name.as_str()));
    Container {
        command: Some(vec!["/bin/bash".to_owned(), "-c".to_owned()]),
        args: Some(vec![SCRIPT.to_owned()]),
        ports: Some(ports()),
        env: Some(env().into_iter().chain(user.env.unwrap_or_default()).collect()),
        volume_mounts: Some(mounts().into_iter().chain(user_mounts).collect()),
        readiness_probe: Some(probe("/health/ready", 1, 3, 6)),
        liveness_probe: Some(probe("/health/live", 2, 5, 6)),
        // Allows two and a half minutes for the start; the liveness probe waits for it.
        startup_probe: Some(probe("/health/live", 0, 5, 30)),
        ..user
    }
}

fn ports() -> Vec<ContainerPort> {
    let ports = PORTS.iter().map(|(name, port)| ContainerPort {
        name: Some((*name).to_owned()),
        container_port: *port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    });
    ports.collect()
}

fn env() -> Vec<EnvVar> {
    let [node, metadata_client, mode] = RESERVED_ENV;
    let value = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    let index = ObjectFieldSelector {
        api_version: Some("v1".to_owned()),
        field_path: "metadata.labels['apps.kubernetes.io/pod-index']".to_owned(),
    };
    let node = EnvVar {
        name: node.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(index),
            ..EnvVarSource::default()
        }),
    };
    vec![node, value(metadata_client, "true"), value(mode, "1")]
}

fn mounts() -> Vec<VolumeMount> {
    let mount = |name: &str, path: String| VolumeMount {
        name: name.to_owned(),
        mount_path: path,
        ..VolumeMount::default()
    };
    vec![
        mount(DATA_VOLUME, DATA_FOLDER.to_owned()),
        VolumeMount {
            sub_path: Some(CONFIG_FILE.to_owned()),
            read_only: Some(true),
            ..mount(CONFIG_VOLUME, format!("{DATA_FOLDER}/{CONFIG_FILE}"))
        },
        mount(RUNTIME_VOLUME, RUNTIME_FOLDER.to_owned()),
    ]
}

/// Where the operator mounts its own volumes. Nothing else can be mounted there.
pub(crate) fn mount_paths() -> impl Iterator<Item = String> {
    mounts().into_iter().map(|mount| mount.mount_path)
}

fn probe(path: &str, initial_delay: i32, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(HEALTH_PORT),
            ..HTTPGetAction::default()
        }),
        initial_delay_seconds: Some(initial_delay),
        period_seconds: Some(period),
        timeout_seconds: Some(3),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}
