//! Pods whose StatefulSet was deleted without them, as `kubectl delete --cascade=orphan` does. They keep running, and nothing
//! in Kubernetes deletes them.

use firebolt_api::key::Label;
use firebolt_api::name::EngineNames;
use k8s_openapi::api::core::v1::Pod;

/// The generation of the engine of this name that the pod was created for, if it is a pod of an engine without a controller.
///
/// Labels alone prove nothing. Name, labels and subdomain together are those that only the StatefulSet controller gives a pod.
/// The caller has to know that the StatefulSet does not exist any more: otherwise it adopts the pod.
#[must_use]
pub fn generation(pod: &Pod, engine: &str) -> Option<i64> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    if owners.any(|owner| owner.controller == Some(true)) {
        return None;
    }
    let label = |label: Label| Some(pod.metadata.labels.as_ref()?.get(label.key())?.as_str());
    let text = label(Label::Generation)?;
    let number: i64 = text.parse().ok().filter(|&number| number >= 0)?;
    let names = EngineNames(engine);
    let name = pod.metadata.name.as_deref()?;
    let ordinal = name.strip_prefix(&names.stateful_set(number))?.strip_prefix('-')?;
    let is_named = name == names.pod(number, ordinal.parse().ok()?);
    let subdomain = pod.spec.as_ref()?.subdomain.as_deref()?;
    let is_theirs = label(Label::Engine)? == engine && text == number.to_string();
    (is_named && is_theirs && subdomain == names.headless_service(number)).then_some(number)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn orphan() -> Value {
        json!({
            "metadata": { "name": "a-g3-0", "labels": { Label::Engine.key(): "a", Label::Generation.key(): "3" } },
            "spec": { "subdomain": "a-g3-hl", "containers": [] },
        })
    }

    fn with(change: impl FnOnce(&mut Value)) -> Value {
        let mut pod = orphan();
        change(&mut pod);
        pod
    }

    fn owner(controller: bool) -> Value {
        json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "a-g3", "uid": "u", "controller": controller }])
    }

    fn labelled(label: Label, value: &str) -> Value {
        with(|pod| pod["metadata"]["labels"][label.key()] = json!(value))
    }

    #[rstest]
    #[case::left_behind(orphan(), Some(3))]
    #[case::with_an_owner_that_controls_nothing(with(|pod| pod["metadata"]["ownerReferences"] = owner(false)), Some(3))]
    #[case::controlled(with(|pod| pod["metadata"]["ownerReferences"] = owner(true)), None)]
    #[case::of_another_engine(labelled(Label::Engine, "b"), None)]
    #[case::of_another_generation(labelled(Label::Generation, "4"), None)]
    #[case::of_no_generation(labelled(Label::Generation, "03"), None)]
    #[case::of_an_impossible_generation(labelled(Label::Generation, "-3"), None)]
    #[case::without_labels(with(|pod| pod["metadata"]["labels"] = json!({})), None)]
    #[case::of_another_name(with(|pod| pod["metadata"]["name"] = json!("debug")), None)]
    #[case::without_an_ordinal(with(|pod| pod["metadata"]["name"] = json!("a-g3-x")), None)]
    #[case::of_another_ordinal(with(|pod| pod["metadata"]["name"] = json!("a-g3-00")), None)]
    #[case::of_another_set(with(|pod| pod["metadata"]["name"] = json!("a-g3-0-0")), None)]
    #[case::of_another_service(with(|pod| pod["spec"]["subdomain"] = json!("a-g4-hl")), None)]
    #[case::of_no_service(with(|pod| drop(pod["spec"].as_object_mut().unwrap().remove("subdomain"))), None)]
    fn only_what_a_stateful_set_left_behind_is_an_orphan(#[case] pod: Value, #[case] number: Option<i64>) {
        assert_eq!(generation(&serde_json::from_value(pod).unwrap(), "a"), number);
    }
}
