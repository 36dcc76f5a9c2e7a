//! The container in which the server runs.

use std::collections::BTreeMap;

use firebolt_api::quantity::Quantity;
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ExecAction, Probe, ResourceRequirements, SecretKeySelector, VolumeMount,
};

use super::{PORT, PORT_NAME, POSTGRES_CLAIM, POSTGRES_DATABASE, POSTGRES_USER};
use crate::render::instance::pod::mount;
use crate::render::instance::{DATABASE_KEY, PASSWORD_KEY, USERNAME_KEY, container_port};
use crate::resolve::{hardened, pull_policy};

/// The user and group that the image runs as.
pub(super) const USER: i64 = 70;
pub(super) const SOCKET_VOLUME: &str = "run-postgresql";
pub(super) const TEMPORARY_VOLUME: &str = "tmp";

const DATA_FOLDER: &str = "/var/lib/postgresql/data";
/// The root of a volume belongs to the node. The server wants a folder that it may close to all others.
const DATA: &str = "/var/lib/postgresql/data/pgdata";

/// The container, with its credentials from this Secret.
pub(super) fn container(credentials: &str, image: &str) -> Container {
    Container {
        name: "postgresql".to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some(pull_policy(image).to_owned()),
        ports: Some(vec![container_port(PORT_NAME, PORT)]),
        env: Some(vec![
            from_secret("POSTGRES_USER", credentials, USERNAME_KEY),
            from_secret("POSTGRES_PASSWORD", credentials, PASSWORD_KEY),
            from_secret("POSTGRES_DB", credentials, DATABASE_KEY),
            EnvVar {
                name: "PGDATA".to_owned(),
                value: Some(DATA.to_owned()),
                value_from: None,
            },
        ]),
        resources: Some(resources()),
        security_context: Some(hardened(USER)),
        volume_mounts: Some(mounts()),
        // Ten minutes: the first start writes a whole database, and one after a crash replays what was not yet in it.
        startup_probe: Some(probe(0, 2, 300)),
        readiness_probe: Some(probe(1, 5, 3)),
        liveness_probe: Some(probe(5, 10, 3)),
        ..Container::default()
    }
}

fn from_secret(variable: &str, secret: &str, key: &str) -> EnvVar {
    EnvVar {
        name: variable.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.to_owned(),
                key: key.to_owned(),
                optional: None,
            }),
            ..EnvVarSource::default()
        }),
    }
}

fn resources() -> ResourceRequirements {
    let quantities = |cpu: &str, memory: &str| {
        let quantity = |name: &str, value: &str| (name.to_owned(), Quantity(value.to_owned()));
        Some(BTreeMap::from([quantity("cpu", cpu), quantity("memory", memory)]))
    };
    ResourceRequirements {
        requests: quantities("25m", "64Mi"),
        limits: quantities("250m", "256Mi"),
        claims: None,
    }
}

fn mounts() -> Vec<VolumeMount> {
    vec![
        mount(POSTGRES_CLAIM, DATA_FOLDER),
        mount(SOCKET_VOLUME, "/var/run/postgresql"),
        mount(TEMPORARY_VOLUME, "/tmp"),
    ]
}

/// Probes over TCP: while the image prepares a new database, its temporary server answers on the socket, and only there.
fn probe(initial_delay: i32, period: i32, failures: i32) -> Probe {
    let command = [
        "pg_isready",
        "-h",
        "127.0.0.1",
        "-U",
        POSTGRES_USER,
        "-d",
        POSTGRES_DATABASE,
    ];
    Probe {
        exec: Some(ExecAction {
            command: Some(command.map(str::to_owned).into()),
        }),
        initial_delay_seconds: Some(initial_delay),
        period_seconds: Some(period),
        timeout_seconds: Some(5),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}
