//! The gateway.

use firebolt_api::condition::InstanceReason;

use super::component::{ComponentPlan, ComponentReadiness, ensure, foreign, remove};
use super::input::Input;
use super::object::{Component, InstanceObject};
use super::workload::Workload;

/// Written first, because its IP families determine the configuration.
const SERVICE: [InstanceObject; 1] = [InstanceObject::GatewayService];
const ACCOUNT: [InstanceObject; 3] = [
    InstanceObject::GatewayAccount,
    InstanceObject::GatewayRole,
    InstanceObject::GatewayRoleBinding,
];
const REST: [InstanceObject; 3] = [
    InstanceObject::GatewayConfig,
    InstanceObject::GatewayDeployment,
    InstanceObject::GatewayBudget,
];

/// Provisions the gateway once the metadata service was ready, and reconciles it from then on.
pub(super) fn plan(input: &Input, metadata: &ComponentPlan) -> ComponentPlan {
    if let Some(message) = input.desired.rejected.get(&Component::Gateway) {
        return ComponentPlan::blocked(ComponentReadiness::not_ready(
            InstanceReason::TemplateRejected,
            message.clone(),
        ));
    }
    let account = if input.desired.own_account { &ACCOUNT[..] } else { &[] };
    if let Some(foreign) = foreign(input, &[&SERVICE, account, &REST].concat()) {
        return ComponentPlan::blocked(foreign);
    }
    let existed = [InstanceObject::GatewayService, InstanceObject::GatewayDeployment]
        .iter()
        .any(|object| input.observed.objects.contains_key(object));
    if !existed && !metadata.readiness.ready {
        return ComponentPlan::blocked(ComponentReadiness::not_ready(
            InstanceReason::Provisioning,
            "Waiting for the metadata service to become ready before creating the gateway.".to_owned(),
        ));
    }
    if let Some(refusal) = input.limits.rejected.get(&Component::Gateway) {
        let message = format!("Failed to create or update the gateway: {refusal}");
        return ComponentPlan::blocked(ComponentReadiness::not_ready(InstanceReason::EnsureFailed, message));
    }
    let addressed = input.observed.objects.contains_key(&InstanceObject::GatewayService);
    let rest = if addressed { &REST[..] } else { &[] };
    match ensure(input, &[&SERVICE, account, rest].concat()) {
        Ok(mut writes) => {
            // The ServiceAccount of the operator is kept while a pod may still use it.
            let workload = input.observed.workloads.get(&Component::Gateway);
            let left = writes.is_empty() && workload.is_some_and(Workload::is_rolled_out);
            if left && !input.desired.own_account {
                writes = remove(input, &ACCOUNT);
            }
            ComponentPlan {
                writes,
                readiness: readiness(input),
                requeue_after: None,
            }
        }
        Err(foreign) => ComponentPlan::blocked(foreign),
    }
}

fn readiness(input: &Input) -> ComponentReadiness {
    let Some(workload) = input.observed.workloads.get(&Component::Gateway) else {
        return ComponentReadiness::not_ready(InstanceReason::Provisioning, "The gateway is being created.".to_owned());
    };
    if workload.serves(Component::Gateway) {
        return ComponentReadiness::ready("The gateway is ready.".to_owned());
    }
    if workload.desired == 0 {
        let message = "The gateway has no pods because spec.gateway.replicas is 0. Increase it to serve queries.";
        return ComponentReadiness::not_ready(InstanceReason::Provisioning, message.to_owned());
    }
    let message = format!("The gateway is not ready: {}", workload.describe());
    ComponentReadiness::not_ready(InstanceReason::Provisioning, message)
}
