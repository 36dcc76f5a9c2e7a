//! The gateway.

use firebolt_api::condition::InstanceReason;

use super::input::Input;
use super::output::{Component, Object};
use super::step::{Step, Verdict, ensure, foreign, remove};
use super::workload::Workload;

/// Comes first: its addresses decide what the others say.
const SERVICE: [Object; 1] = [Object::GatewayService];
const ACCOUNT: [Object; 3] = [Object::GatewayAccount, Object::GatewayRole, Object::GatewayRoleBinding];
const REST: [Object; 3] = [Object::GatewayConfig, Object::GatewayDeployment, Object::GatewayBudget];

/// Sets the gateway up once the metadata service was ready, and looks after it from then on.
pub(super) fn step(input: &Input, metadata: &Step) -> Step {
    if let Some(message) = input.wanted.rejected.get(&Component::Gateway) {
        return Step::held_up(Verdict::not_ready(InstanceReason::TemplateRejected, message.clone()));
    }
    let account = if input.wanted.own_account { &ACCOUNT[..] } else { &[] };
    if let Some(foreign) = foreign(input, &[&SERVICE, account, &REST].concat()) {
        return Step::held_up(foreign);
    }
    let existed = [Object::GatewayService, Object::GatewayDeployment]
        .iter()
        .any(|object| input.observed.objects.contains_key(object));
    if !existed && !metadata.verdict.ready {
        return Step::held_up(Verdict::not_ready(
            InstanceReason::Provisioning,
            "The gateway is created once the metadata service is ready.".to_owned(),
        ));
    }
    if let Some(refusal) = input.observed.refused.get(&Component::Gateway) {
        let message = format!("The gateway cannot be set up: {refusal}");
        return Step::held_up(Verdict::not_ready(InstanceReason::EnsureFailed, message));
    }
    let addressed = input.observed.objects.contains_key(&Object::GatewayService);
    let rest = if addressed { &REST[..] } else { &[] };
    match ensure(input, &[&SERVICE, account, rest].concat()) {
        Ok(mut writes) => {
            // As long as a pod may still run under our account, it stays.
            let workload = input.observed.workloads.get(&Component::Gateway);
            let left = writes.is_empty() && workload.is_some_and(Workload::is_rolled_out);
            if left && !input.wanted.own_account {
                writes = remove(input, &ACCOUNT);
            }
            Step {
                writes,
                verdict: verdict(input),
                look_again: None,
            }
        }
        Err(foreign) => Step::held_up(foreign),
    }
}

fn verdict(input: &Input) -> Verdict {
    let Some(workload) = input.observed.workloads.get(&Component::Gateway) else {
        return Verdict::not_ready(InstanceReason::Provisioning, "The gateway is being created.".to_owned());
    };
    if workload.serves(Component::Gateway) {
        return Verdict::ready("The gateway answers.".to_owned());
    }
    if workload.wanted == 0 {
        let message = "The gateway has no pods, because spec.gateway.replicas is 0. Raise it to serve queries.";
        return Verdict::not_ready(InstanceReason::Provisioning, message.to_owned());
    }
    let message = format!("The gateway is not ready: {}", workload.describe());
    Verdict::not_ready(InstanceReason::Provisioning, message)
}
