//! The state of the workloads of an instance: what their status and their pods say.

use std::collections::BTreeMap;

use firebolt_api::key::{Component as ComponentLabel, Label};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, StatefulSet};
use k8s_openapi::api::core::v1::Pod;

use super::InstanceObjects;
use crate::compare::named;
use crate::plan::instance::{Component, InstanceObject, Workload};
use crate::pods;
use crate::text::shortened;

/// The longest message of Kubernetes that is reported.
const LONGEST_MESSAGE: usize = 300;

/// The workload of each component of the instance of this name.
pub(super) fn workloads(instance: &str, objects: &InstanceObjects) -> BTreeMap<Component, Workload> {
    let name = |object: InstanceObject| object.name(instance);
    let set = named(&objects.stateful_sets, &name(InstanceObject::PostgresSet)).map(of_stateful_set);
    let metadata = named(&objects.deployments, &name(InstanceObject::MetadataDeployment)).map(of_deployment);
    let gateway = named(&objects.deployments, &name(InstanceObject::GatewayDeployment)).map(of_deployment);
    let workloads = [
        (Component::Postgres, ComponentLabel::Postgres, set),
        (Component::Metadata, ComponentLabel::Metadata, metadata),
        (Component::Gateway, ComponentLabel::Gateway, gateway),
    ];
    let with_causes = workloads.into_iter().filter_map(|(component, label, workload)| {
        let mut workload = workload?;
        let placed = pods_of(&objects.pods, label).filter(|pod| has_node(pod));
        workload.broken = !pods::causes(placed).is_empty();
        workload.causes.extend(pods::causes(pods_of(&objects.pods, label)));
        Some((component, workload))
    });
    with_causes.collect()
}

fn pods_of(pods: &[Pod], component: ComponentLabel) -> impl Iterator<Item = &Pod> {
    pods.iter()
        .filter(move |pod| component_of(pod) == Some(component.key()))
        .filter(|pod| !pods::is_terminating(pod))
}

fn has_node(pod: &Pod) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    node.is_some_and(|node| !node.is_empty())
}

fn component_of(pod: &Pod) -> Option<&str> {
    let labels = pod.metadata.labels.as_ref()?;
    labels.get(Label::Component.key()).map(String::as_str)
}

fn of_deployment(live: &Deployment) -> Workload {
    let status = live.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let progress = conditions.iter().find(|condition| condition.type_ == "Progressing");
    Workload {
        desired: live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        observed: status.observed_generation >= live.metadata.generation,
        updated: status.updated_replicas.unwrap_or(0),
        total: status.replicas.unwrap_or(0),
        ready: status.ready_replicas.unwrap_or(0),
        overdue: progress.is_some_and(|progress| progress.reason.as_deref() == Some("ProgressDeadlineExceeded")),
        broken: false,
        causes: refused_pods(&conditions).into_iter().collect(),
    }
}

/// Why pods could not even be created, as with a quota.
fn refused_pods(conditions: &[DeploymentCondition]) -> Option<String> {
    let mut failures = conditions
        .iter()
        .filter(|condition| condition.type_ == "ReplicaFailure");
    let failure = failures.find(|condition| condition.status == "True")?;
    let message = failure.message.as_deref().unwrap_or("no reason given");
    let message = shortened(message.trim_end_matches('.'), LONGEST_MESSAGE);
    Some(format!("Pods cannot be created: {message}."))
}

fn of_stateful_set(live: &StatefulSet) -> Workload {
    let status = live.status.clone().unwrap_or_default();
    Workload {
        desired: live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        observed: status.observed_generation >= live.metadata.generation,
        updated: status.updated_replicas.unwrap_or(0),
        total: status.replicas,
        ready: status.ready_replicas.unwrap_or(0),
        overdue: false,
        broken: false,
        causes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_progress_of_a_deployment_is_reported() {
        let deployment = |status: Value| -> Deployment {
            let spec = json!({ "replicas": 2, "selector": {}, "template": { "spec": { "containers": [] } } });
            serde_json::from_value(json!({ "metadata": { "generation": 2 }, "spec": spec, "status": status })).unwrap()
        };
        let stuck = json!([{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" }]);
        let status = json!({
            "observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 2, "conditions": stuck,
        });
        let expected = Workload {
            desired: 2,
            observed: true,
            updated: 1,
            total: 3,
            ready: 2,
            overdue: true,
            broken: false,
            causes: Vec::new(),
        };
        assert_eq!(of_deployment(&deployment(status)), expected);
        let unseen = of_deployment(&deployment(json!({ "observedGeneration": 1 })));
        assert!(!unseen.observed);
        assert!(!of_deployment(&deployment(json!({}))).observed, "never seen");
    }
}
