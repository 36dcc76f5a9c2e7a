//! The settings of the gateway: the user's pod template, and the operator's defaults for unset fields.

use std::collections::BTreeMap;
use std::time::Duration;

use firebolt_api::GatewaySpec;
use firebolt_api::key::Component;
use firebolt_api::name::InstanceNames;
use firebolt_api::quantity::{Amount, Quantity};
use k8s_openapi::api::core::v1::{
    Affinity, Container, PodSpec, PodTemplateSpec, ResourceRequirements, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{component_labels, template};
use crate::resolve::Defaults;
use crate::resolve::defaults::{fill_image, runtime_default};

/// The container that is the gateway itself. Any other container of a template is a sidecar.
pub(crate) const ENVOY_CONTAINER: &str = "envoy";

const REPLICAS: i32 = 2;

const MEBIBYTE: u64 = 1 << 20;
/// The memory for held queries if Envoy has no memory limit.
const HOLD_MEMORY: u64 = 128 * MEBIBYTE;
/// The minimum of that memory: enough for a few queries.
const LEAST_HOLD_MEMORY: u64 = 8 * MEBIBYTE;
/// The maximum of that memory: the agent also keeps a part of each query, and its memory limit does not grow with Envoy's.
const MOST_HOLD_MEMORY: u64 = 512 * MEBIBYTE;

/// The topology keys over which pods are spread if possible.
const SPREAD_OVER: [&str; 2] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];

/// The gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// The number of pods.
    pub replicas: i32,
    /// The port on which pods serve metrics.
    pub metrics_port: u16,
    /// The merged pod template of the user and the defaults, without the operator's own fields. The first container is
    /// Envoy.
    pub template: PodTemplateSpec,
    /// The pod template of the user alone.
    pub user_template: PodTemplateSpec,
    /// Whether the pods of the cluster have IPv6 addresses.
    pub ipv6: bool,
    /// The ServiceAccount that the operator creates for the gateway. `None`: the template names one.
    pub service_account: Option<String>,
    /// The image of the agent that wakes engines.
    pub wake_agent_image: String,
    /// How long a query is held for an engine that wakes.
    pub hold_timeout: Duration,
    /// The memory for held queries in one pod, in bytes.
    pub hold_memory: u64,
}

/// Merges the user's settings with the operator's defaults.
pub(super) fn resolve(instance: &str, spec: &GatewaySpec, defaults: &Defaults, ipv6: bool) -> Gateway {
    let user_template = template::forward(spec.template.as_ref(), ENVOY_CONTAINER);
    let mut template = user_template.clone();
    let pod = template.spec.get_or_insert_default();
    let own = InstanceNames(instance).gateway();
    // A user may name the account of the operator.
    let service_account = pod
        .service_account_name
        .as_ref()
        .is_none_or(|name| *name == own)
        .then_some(own);
    fill(pod, instance, service_account.as_ref(), defaults);
    Gateway {
        replicas: spec.replicas.unwrap_or(REPLICAS),
        metrics_port: metrics_port(spec),
        hold_memory: hold_memory(pod),
        template,
        user_template,
        ipv6,
        service_account,
        wake_agent_image: defaults.wake_agent_image.clone(),
        hold_timeout: spec.wake_timeout.get(),
    }
}

/// A quarter of what Envoy may use: it is Envoy that keeps the queries, and it needs the rest for those that run. By
/// value: another spelling of the same limit changes nothing.
fn hold_memory(pod: &PodSpec) -> u64 {
    let envoy = pod.containers.first().and_then(|envoy| envoy.resources.as_ref());
    let limit = envoy.and_then(|resources| resources.limits.as_ref()?.get("memory"));
    let limit = limit.and_then(|limit| Amount::try_from(limit).ok()).map(Amount::whole);
    match limit {
        // Kubernetes treats a limit of zero as no limit.
        None | Some(0) => HOLD_MEMORY,
        Some(limit) => (limit / 4).clamp(LEAST_HOLD_MEMORY, MOST_HOLD_MEMORY),
    }
}

/// The schema accepts valid port numbers only.
fn metrics_port(spec: &GatewaySpec) -> u16 {
    let port = |spec: &GatewaySpec| u16::try_from(spec.metrics_port).ok().filter(|port| *port > 0);
    port(spec)
        .or_else(|| port(&GatewaySpec::default()))
        .expect("the default is a port")
}

fn fill(pod: &mut PodSpec, instance: &str, service_account: Option<&String>, defaults: &Defaults) {
    defaults.fill_pull_secrets(pod);
    let security = pod.security_context.get_or_insert_default();
    security.run_as_non_root.get_or_insert(true);
    security.seccomp_profile.get_or_insert_with(runtime_default);
    // The account may wake engines, which Envoy, the only container that clients reach, must not be able to do. A user
    // with an own account may still want its token everywhere.
    match service_account {
        Some(account) => {
            pod.service_account_name = Some(account.clone());
            pod.automount_service_account_token = Some(false);
        }
        None => {
            pod.automount_service_account_token.get_or_insert(false);
        }
    }
    if has_no_placement(pod) {
        pod.topology_spread_constraints = Some(SPREAD_OVER.map(|key| spread(instance, key)).into());
    }
    if let Some(own) = pod.containers.first_mut() {
        fill_container(own, defaults);
    }
}

fn fill_container(own: &mut Container, defaults: &Defaults) {
    let quantity = |name: &str, value: &str| (name.to_owned(), Quantity(value.to_owned()));
    fill_image(own, &defaults.envoy_image);
    own.resources.get_or_insert_with(|| ResourceRequirements {
        requests: Some(BTreeMap::from([quantity("cpu", "100m"), quantity("memory", "128Mi")])),
        limits: Some(BTreeMap::from([quantity("memory", "512Mi")])),
        claims: None,
    });
}

/// Whether the user has set nothing that affects where the pods run.
fn has_no_placement(pod: &PodSpec) -> bool {
    let affinity = pod.affinity.as_ref();
    pod.topology_spread_constraints.is_none() && affinity.is_none_or(|affinity| *affinity == Affinity::default())
}

fn spread(instance: &str, over: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: over.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some(component_labels(instance, Component::Gateway)),
            match_expressions: None,
        }),
        // During a rollout, new pods are spread without regard to the old ones, which are about to be deleted.
        match_label_keys: Some(vec!["pod-template-hash".to_owned()]),
        ..TopologySpreadConstraint::default()
    }
}
