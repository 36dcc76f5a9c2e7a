//! The gateway: what the user says about its pods, and the operator's word where the user is silent.

use std::collections::BTreeMap;

use firebolt_api::GatewaySpec;
use firebolt_api::key::Component;
use firebolt_api::name::InstanceNames;
use firebolt_api::quantity::Quantity;
use k8s_openapi::api::core::v1::{
    Affinity, Container, PodSpec, PodTemplateSpec, ResourceRequirements, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{component_labels, template};
use crate::resolve::Defaults;
use crate::resolve::defaults::{fill_image, runtime_default};

/// The container that is the gateway itself. Any other container of a template is a sidecar.
pub const ENVOY_CONTAINER: &str = "envoy";

const REPLICAS: i32 = 2;

/// What the pods are spread over, as far as there are enough of it.
const SPREAD_OVER: [&str; 2] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];

/// The gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// How many pods run.
    pub replicas: i32,
    /// The port on which pods offer their metrics.
    pub metrics_port: u16,
    /// The pod template as users see it: their part and the defaults, without what belongs to the operator. The first
    /// container is Envoy.
    pub template: PodTemplateSpec,
    /// Whether the pods of the cluster have IPv6 addresses.
    pub ipv6: bool,
    /// The ServiceAccount that the operator makes for the gateway. None: a user's is used.
    pub service_account: Option<String>,
}

/// Lays the user's settings over the operator's defaults.
pub(super) fn resolve(instance: &str, spec: &GatewaySpec, defaults: &Defaults, ipv6: bool) -> Gateway {
    let mut template = template::forward(spec.template.as_ref(), ENVOY_CONTAINER);
    let pod = template.spec.get_or_insert_default();
    let own = InstanceNames(instance).gateway();
    // Whoever names ours gets ours.
    let service_account = pod
        .service_account_name
        .as_ref()
        .is_none_or(|name| *name == own)
        .then_some(own);
    fill(pod, instance, service_account.as_ref(), defaults);
    Gateway {
        replicas: spec.replicas.unwrap_or(REPLICAS),
        metrics_port: metrics_port(spec),
        template,
        ipv6,
        service_account,
    }
}

/// The schema lets no other number through than those of ports.
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
    if let Some(account) = service_account {
        pod.service_account_name = Some(account.clone());
        // The account may wake engines, which is no business of Envoy, the one container that the world talks to.
        pod.automount_service_account_token = Some(false);
    }
    if says_nothing_of_placement(pod) {
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

/// Whether the user leaves it to the operator where the pods run.
fn says_nothing_of_placement(pod: &PodSpec) -> bool {
    let spreads = pod.topology_spread_constraints.as_ref();
    let affinity = pod.affinity.as_ref();
    spreads.is_none_or(Vec::is_empty) && affinity.is_none_or(|affinity| *affinity == Affinity::default())
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
        // Of a rollout, the new pods are spread among themselves: the old ones are about to go.
        match_label_keys: Some(vec!["pod-template-hash".to_owned()]),
        ..TopologySpreadConstraint::default()
    }
}
