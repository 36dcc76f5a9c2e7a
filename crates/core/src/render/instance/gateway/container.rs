//! The Envoy container: the settings of users, and its identity, which the operator sets.

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::envoy::{CLIENT_PORT, HEALTH_PATH};
use super::{CLIENT_PORT_NAME, CONFIG_FILE, CONFIG_VOLUME, GRACE_PERIOD, METRICS_PORT_NAME, TEMPORARY_VOLUME};
use crate::render::instance::container_port;
use crate::render::instance::pod::{mount, read_only};
use crate::resolve::{hardened, withdrawal};

/// The user and group that the image runs as.
const USER: i64 = 101;
const CONFIG_FOLDER: &str = "/etc/envoy";

/// How long Envoy keeps serving at most when its pod is terminated, in seconds. The agent in the same pod ends it as
/// soon as its clients have left; without the agent, they have the grace period except for what Envoy needs to exit.
const WITHDRAWAL: i64 = GRACE_PERIOD - 1;

/// Completes the user's container with the operator's fields.
pub(super) fn container(user: Container, metrics_port: u16) -> Container {
    Container {
        // The entry point of the image takes these, be it the binary or a script; not all images have a shell.
        args: Some(vec![
            "-c".to_owned(),
            format!("{CONFIG_FOLDER}/{CONFIG_FILE}"),
            // Log lines are flushed after one second instead of ten.
            "--file-flush-interval-msec".to_owned(),
            "1000".to_owned(),
        ]),
        ports: Some(vec![
            container_port(CLIENT_PORT_NAME, CLIENT_PORT),
            container_port(METRICS_PORT_NAME, metrics_port),
        ]),
        volume_mounts: Some(vec![
            read_only(CONFIG_VOLUME, CONFIG_FOLDER),
            mount(TEMPORARY_VOLUME, "/tmp"),
        ]),
        security_context: Some(hardened(USER)),
        lifecycle: Some(withdrawal(WITHDRAWAL)),
        // Allows a minute for the start; the other probes wait for it.
        startup_probe: Some(probe(0, 1, 2, 60)),
        readiness_probe: Some(probe(1, 2, 2, 2)),
        liveness_probe: Some(probe(1, 15, 3, 3)),
        ..user
    }
}

/// Probes the metrics port, which responds even if clients overload their own port.
fn probe(initial_delay: i32, period: i32, timeout: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(HEALTH_PATH.to_owned()),
            port: IntOrString::String(METRICS_PORT_NAME.to_owned()),
            ..HTTPGetAction::default()
        }),
        initial_delay_seconds: Some(initial_delay),
        period_seconds: Some(period),
        timeout_seconds: Some(timeout),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::instance::gateway::envoy::CONNECTION_LIFE;

    #[test]
    fn clients_leave_a_pod_that_is_to_stop_before_it_ends() {
        // The other half is for those that connect before everybody has heard that the pod is to stop.
        let life = i64::try_from(CONNECTION_LIFE).unwrap();
        assert!(2 * life <= WITHDRAWAL);
    }

    #[test]
    fn envoy_is_terminated_before_it_is_killed() {
        let container = container(Container::default(), 9090);
        let sleep = container.lifecycle.and_then(|hooks| hooks.pre_stop?.sleep);
        assert_eq!(sleep.map(|sleep| sleep.seconds), Some(GRACE_PERIOD - 1));
    }
}
