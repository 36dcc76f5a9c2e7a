//! The fields of a user's pod template that apply to the pods of a component.
//!
//! Every field of a pod and of the component's own container is listed here, so that a field that a new version of
//! Kubernetes adds is a compile error until it has a rule. Fields that are ignored here are rejected by admission.

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::resolve::without_empty_values;

/// The user's part of the template. The first container is the component's own, named by the user or not; sidecars
/// follow.
pub(super) fn forward(user: Option<&PodTemplateSpec>, own: &str) -> PodTemplateSpec {
    let user = user.map(|user| without_empty_values(user, own));
    let PodTemplateSpec { metadata, spec } = user.unwrap_or_default();
    let metadata = metadata.unwrap_or_default();
    PodTemplateSpec {
        // Of the metadata of a template only these two may be set; admission refuses the rest.
        metadata: Some(ObjectMeta {
            labels: metadata.labels,
            annotations: metadata.annotations,
            ..ObjectMeta::default()
        }),
        spec: Some(pod(spec.unwrap_or_default(), own)),
    }
}

fn pod(user: PodSpec, own: &str) -> PodSpec {
    PodSpec {
        containers: containers(user.containers, own),

        affinity: user.affinity,
        automount_service_account_token: user.automount_service_account_token,
        dns_config: user.dns_config,
        dns_policy: user.dns_policy,
        host_aliases: user.host_aliases,
        image_pull_secrets: user.image_pull_secrets,
        init_containers: user.init_containers,
        node_name: user.node_name,
        node_selector: user.node_selector,
        os: user.os,
        overhead: user.overhead,
        preemption_policy: user.preemption_policy,
        priority: user.priority,
        priority_class_name: user.priority_class_name,
        readiness_gates: user.readiness_gates,
        resource_claims: user.resource_claims,
        resources: user.resources,
        runtime_class_name: user.runtime_class_name,
        scheduler_name: user.scheduler_name,
        scheduling_gates: user.scheduling_gates,
        scheduling_group: user.scheduling_group,
        security_context: user.security_context,
        service_account_name: user.service_account_name,
        set_hostname_as_fqdn: user.set_hostname_as_fqdn,
        tolerations: user.tolerations,
        topology_spread_constraints: user.topology_spread_constraints,
        volumes: user.volumes,

        // These fields belong to the operator. Admission rejects them in templates; here they are ignored.
        active_deadline_seconds: None,
        enable_service_links: None,
        ephemeral_containers: None,
        host_ipc: None,
        host_network: None,
        host_pid: None,
        host_users: None,
        hostname: None,
        hostname_override: None,
        restart_policy: None,
        service_account: None,
        share_process_namespace: None,
        subdomain: None,
        termination_grace_period_seconds: None,
    }
}

fn containers(user: Vec<Container>, own: &str) -> Vec<Container> {
    let (mut named, sidecars): (Vec<_>, Vec<_>) = user.into_iter().partition(|container| container.name == own);
    let user = if named.is_empty() {
        Container::default()
    } else {
        named.swap_remove(0)
    };
    std::iter::once(own_container(user, own)).chain(sidecars).collect()
}

fn own_container(user: Container, own: &str) -> Container {
    Container {
        name: own.to_owned(),

        image: user.image,
        image_pull_policy: user.image_pull_policy,
        resources: user.resources,

        // These fields belong to the operator. Admission rejects them in templates; here they are ignored.
        args: None,
        command: None,
        env: None,
        env_from: None,
        lifecycle: None,
        liveness_probe: None,
        ports: None,
        readiness_probe: None,
        resize_policy: None,
        restart_policy: None,
        restart_policy_rules: None,
        security_context: None,
        startup_probe: None,
        stdin: None,
        stdin_once: None,
        termination_message_path: None,
        termination_message_policy: None,
        tty: None,
        volume_devices: None,
        volume_mounts: None,
        working_dir: None,
    }
}
