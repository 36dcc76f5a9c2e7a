//! The wake agent beside Envoy: it holds queries for stopped engines, requests their wake, and ends Envoy when the pod
//! stops. It is the only container of the pod with a token for the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use firebolt_api::quantity::Quantity;
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath, ObjectFieldSelector,
    ProjectedVolumeSource, ResourceRequirements, ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use super::envoy::authority_suffix;
use super::{GRACE_PERIOD, TOKEN_VOLUME, settings};
use crate::render::instance::pod::read_only;
use crate::resolve::instance::EffectiveInstance;
use crate::resolve::{hardened, pull_policy};

/// The name of the container.
pub(super) const NAME: &str = "wake-agent";

/// The user and group that the image runs as.
const USER: i64 = 65532;

/// The directory where clients of the API server expect the files of a ServiceAccount.
const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The lifetime of a token in seconds, as Kubernetes sets it for its own. The kubelet renews it in time.
const TOKEN_LIFE: i64 = 3607;

/// Readable by everyone, but only the agent's container has it: the containers of the pod run as different users, so the
/// kubelet cannot give the file to one of them, and leaves it to root.
const TOKEN_MODE: i32 = 0o444;

/// The container. It has no ports, since it serves only inside of the pod, and no probes: if one failed, the kubelet
/// would send the same signal as on termination of the pod, and the agent would drain Envoy. Envoy itself checks the
/// health of the agent, and bypasses it if it is unhealthy.
pub(super) fn container(instance: &EffectiveInstance) -> Container {
    let image = &instance.gateway.wake_agent_image;
    Container {
        name: NAME.to_owned(),
        image: Some(image.clone()),
        image_pull_policy: Some(pull_policy(image).to_owned()),
        args: Some(arguments(instance)),
        resources: Some(resources()),
        volume_mounts: Some(vec![read_only(TOKEN_VOLUME, TOKEN_FOLDER)]),
        security_context: Some(hardened(USER)),
        ..Container::default()
    }
}

/// The order is fixed: another one would restart every gateway. Each flag includes its value, which may begin with a dash.
fn arguments(instance: &EffectiveInstance) -> Vec<String> {
    let gateway = &instance.gateway;
    vec![
        format!("--namespace={}", instance.namespace),
        format!("--instance={}", instance.name),
        format!("--engine-suffix={}", authority_suffix(&settings(instance))),
        format!("--hold-timeout={}", spelled(gateway.hold_timeout)),
        format!("--hold-memory={}", gateway.hold_memory),
        format!("--grace-period={GRACE_PERIOD}s"),
    ]
}

/// The canonical text of a duration, so that another spelling of it does not restart gateways.
fn spelled(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ns", duration.as_nanos()),
    }
}

fn resources() -> ResourceRequirements {
    let quantity = |name: &str, value: &str| (name.to_owned(), Quantity(value.to_owned()));
    ResourceRequirements {
        requests: Some(BTreeMap::from([quantity("cpu", "10m"), quantity("memory", "32Mi")])),
        limits: Some(BTreeMap::from([quantity("memory", "128Mi")])),
        claims: None,
    }
}

/// The volume with the token, the certificate of the CA and the namespace.
pub(super) fn token() -> Volume {
    let token = VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            path: "token".to_owned(),
            expiration_seconds: Some(TOKEN_LIFE),
            audience: None,
        }),
        ..VolumeProjection::default()
    };
    let authority = VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: "kube-root-ca.crt".to_owned(),
            items: Some(vec![KeyToPath {
                key: "ca.crt".to_owned(),
                path: "ca.crt".to_owned(),
                mode: None,
            }]),
            optional: None,
        }),
        ..VolumeProjection::default()
    };
    let namespace = VolumeProjection {
        downward_api: Some(DownwardAPIProjection {
            items: Some(vec![DownwardAPIVolumeFile {
                path: "namespace".to_owned(),
                field_ref: Some(ObjectFieldSelector {
                    api_version: Some("v1".to_owned()),
                    field_path: "metadata.namespace".to_owned(),
                }),
                ..DownwardAPIVolumeFile::default()
            }]),
        }),
        ..VolumeProjection::default()
    };
    Volume {
        name: TOKEN_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(TOKEN_MODE),
            sources: Some(vec![token, authority, namespace]),
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::render::instance::gateway::gateway_deployment;
    use crate::render::instance::tests::effective;

    #[rstest]
    #[case(Duration::from_mins(2), "120s")]
    #[case(Duration::from_millis(1500), "1500000000ns")]
    fn durations_are_spelled_in_one_way_that_is_read_back(#[case] duration: Duration, #[case] text: &str) {
        assert_eq!(spelled(duration), text);
        let read: firebolt_api::Duration = text.parse().expect("a duration");
        assert_eq!(read.get(), duration);
    }

    #[rstest]
    #[case::own_account(json!({}))]
    #[case::account_of_a_user(json!({ "serviceAccountName": "edge" }))]
    fn only_the_agent_has_the_token(#[case] pod: serde_json::Value) {
        let sidecar = json!({ "name": "proxy", "image": "proxy:1" });
        let mut pod = pod;
        pod["containers"] = json!([sidecar]);
        let instance = effective(&json!({ "gateway": { "template": { "spec": pod } } }));
        let pod = gateway_deployment(&instance).spec.and_then(|spec| spec.template.spec);
        let containers = pod.expect("a pod").containers;
        let holders: Vec<(&str, bool)> = containers
            .iter()
            .map(|container| {
                let mounts = container.volume_mounts.iter().flatten();
                (
                    container.name.as_str(),
                    mounts.clone().any(|mount| mount.name == TOKEN_VOLUME),
                )
            })
            .collect();
        assert_eq!(holders, [("envoy", false), ("wake-agent", true), ("proxy", false)]);
    }
}
