//! The container of the metadata service: the settings of users, and its identity, which the operator sets.

use firebolt_api::ConfigFormat;
use k8s_openapi::api::core::v1::{Container, EnvVar, GRPCAction, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{CONFIG_VOLUME, CREDENTIALS_VOLUME, PORT_NAME, TEMPORARY_VOLUME, config_file};
use crate::render::instance::pod::{mount, read_only};
use crate::render::instance::{PASSWORD_KEY, USERNAME_KEY, container_port};
use crate::resolve::hardened;
use crate::resolve::instance::{METADATA_PORT, METADATA_USER};

const CONFIG_FOLDER: &str = "/configs";
const CREDENTIALS_FOLDER: &str = "/secrets/postgres";

/// Completes the user's container with the operator's fields.
pub(super) fn container(user: Container, format: ConfigFormat) -> Container {
    let config = format!("{CONFIG_FOLDER}/{}", config_file(format));
    Container {
        command: Some(vec!["/dedicated-pensieve".to_owned()]),
        args: Some(vec!["--config".to_owned(), config]),
        ports: Some(vec![container_port(PORT_NAME, METADATA_PORT)]),
        env: Some(vec![
            file("POSTGRES_USERNAME_FILE", USERNAME_KEY),
            file("POSTGRES_PASSWORD_FILE", PASSWORD_KEY),
        ]),
        volume_mounts: Some(vec![
            read_only(CONFIG_VOLUME, CONFIG_FOLDER),
            read_only(CREDENTIALS_VOLUME, CREDENTIALS_FOLDER),
            mount(TEMPORARY_VOLUME, "/tmp"),
        ]),
        security_context: Some(hardened(METADATA_USER)),
        // Two minutes: the database may be starting for the first time, and the service waits for it.
        startup_probe: Some(Probe {
            tcp_socket: Some(port()),
            ..probe(0, 1, 120)
        }),
        liveness_probe: Some(Probe {
            tcp_socket: Some(port()),
            ..probe(2, 10, 3)
        }),
        readiness_probe: Some(Probe {
            grpc: Some(GRPCAction {
                port: METADATA_PORT.into(),
                service: Some(String::new()),
            }),
            ..probe(2, 5, 3)
        }),
        ..user
    }
}

fn file(variable: &str, key: &str) -> EnvVar {
    EnvVar {
        name: variable.to_owned(),
        value: Some(format!("{CREDENTIALS_FOLDER}/{key}")),
        value_from: None,
    }
}

fn port() -> TCPSocketAction {
    TCPSocketAction {
        port: IntOrString::Int(METADATA_PORT.into()),
        host: None,
    }
}

fn probe(initial_delay: i32, period: i32, failures: i32) -> Probe {
    Probe {
        initial_delay_seconds: Some(initial_delay),
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}
