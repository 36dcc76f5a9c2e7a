//! The PodDisruptionBudget of the gateway: nodes are drained one gateway pod at a time.

use firebolt_api::key::Component;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::render::instance::{object_meta, selector};
use crate::resolve::instance::EffectiveInstance;

/// Renders the PodDisruptionBudget.
#[must_use]
pub fn gateway_disruption_budget(instance: &EffectiveInstance) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: object_meta(instance, instance.names().gateway(), Component::Gateway),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(selector(instance, Component::Gateway)),
            // A pod that is not ready must not block the drain of a node.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}
