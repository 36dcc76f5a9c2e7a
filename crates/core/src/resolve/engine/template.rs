//! The pod template of an engine, merged with that of its class.
//!
//! Every field of a pod and of the engine container is listed here with its rule, so that a field that a new version of
//! Kubernetes adds is a compile error until it has a rule.

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::merge::{class_then_engine, engine_first, engine_keys_win};

/// The container that is the engine itself. Any other container of a template is a sidecar.
pub(crate) const ENGINE_CONTAINER: &str = "engine";

/// One template from both layers. The first container is the engine's, named or not by either layer; sidecars of the
/// class and then of the engine follow. Neither layer has empty values that mean nothing.
#[must_use]
pub(super) fn merge(class: Option<PodTemplateSpec>, engine: Option<PodTemplateSpec>) -> PodTemplateSpec {
    let layer = |template: Option<PodTemplateSpec>| {
        let template = template.unwrap_or_default();
        (template.metadata.unwrap_or_default(), template.spec.unwrap_or_default())
    };
    let ((class_metadata, class_spec), (engine_metadata, engine_spec)) = (layer(class), layer(engine));
    PodTemplateSpec {
        // Of the metadata of a template only these two may be set; admission refuses the rest.
        metadata: Some(ObjectMeta {
            labels: engine_keys_win(class_metadata.labels, engine_metadata.labels),
            annotations: engine_keys_win(class_metadata.annotations, engine_metadata.annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(pod(class_spec, engine_spec)),
    }
}

fn pod(class: PodSpec, engine: PodSpec) -> PodSpec {
    PodSpec {
        containers: containers(class.containers, engine.containers),

        affinity: engine_first(class.affinity, engine.affinity),
        automount_service_account_token: engine_first(
            class.automount_service_account_token,
            engine.automount_service_account_token,
        ),
        dns_config: engine_first(class.dns_config, engine.dns_config),
        dns_policy: engine_first(class.dns_policy, engine.dns_policy),
        node_name: engine_first(class.node_name, engine.node_name),
        os: engine_first(class.os, engine.os),
        preemption_policy: engine_first(class.preemption_policy, engine.preemption_policy),
        priority: engine_first(class.priority, engine.priority),
        priority_class_name: engine_first(class.priority_class_name, engine.priority_class_name),
        resources: engine_first(class.resources, engine.resources),
        runtime_class_name: engine_first(class.runtime_class_name, engine.runtime_class_name),
        scheduler_name: engine_first(class.scheduler_name, engine.scheduler_name),
        scheduling_group: engine_first(class.scheduling_group, engine.scheduling_group),
        security_context: engine_first(class.security_context, engine.security_context),
        // A deprecated copy of the other, which Kubernetes sets itself. Those of two layers could contradict each other.
        service_account: None,
        service_account_name: engine_first(class.service_account_name, engine.service_account_name),
        set_hostname_as_fqdn: engine_first(class.set_hostname_as_fqdn, engine.set_hostname_as_fqdn),

        node_selector: engine_keys_win(class.node_selector, engine.node_selector),
        overhead: engine_keys_win(class.overhead, engine.overhead),

        host_aliases: class_then_engine(class.host_aliases, engine.host_aliases),
        image_pull_secrets: class_then_engine(class.image_pull_secrets, engine.image_pull_secrets),
        init_containers: class_then_engine(class.init_containers, engine.init_containers),
        readiness_gates: class_then_engine(class.readiness_gates, engine.readiness_gates),
        resource_claims: class_then_engine(class.resource_claims, engine.resource_claims),
        scheduling_gates: class_then_engine(class.scheduling_gates, engine.scheduling_gates),
        tolerations: class_then_engine(class.tolerations, engine.tolerations),
        topology_spread_constraints: class_then_engine(
            class.topology_spread_constraints,
            engine.topology_spread_constraints,
        ),
        volumes: class_then_engine(class.volumes, engine.volumes),

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
        share_process_namespace: None,
        subdomain: None,
        termination_grace_period_seconds: None,
    }
}

fn containers(class: Vec<Container>, engine: Vec<Container>) -> Vec<Container> {
    let split = |containers: Vec<Container>| -> (Vec<Container>, Vec<Container>) {
        containers
            .into_iter()
            .partition(|container| container.name == ENGINE_CONTAINER)
    };
    let ((class_engine, class_sidecars), (engine_engine, engine_sidecars)) = (split(class), split(engine));
    let first = |mut found: Vec<Container>| {
        if found.is_empty() {
            Container::default()
        } else {
            found.swap_remove(0)
        }
    };
    let own = engine_container(first(class_engine), first(engine_engine));
    std::iter::once(own)
        .chain(class_sidecars)
        .chain(engine_sidecars)
        .collect()
}

fn engine_container(class: Container, engine: Container) -> Container {
    Container {
        name: ENGINE_CONTAINER.to_owned(),

        image: engine_first(class.image, engine.image),
        image_pull_policy: engine_first(class.image_pull_policy, engine.image_pull_policy),
        lifecycle: engine_first(class.lifecycle, engine.lifecycle),
        // Never mixed: a request of one layer with a limit of the other may be invalid.
        resources: engine_first(class.resources, engine.resources),
        security_context: engine_first(class.security_context, engine.security_context),
        termination_message_path: engine_first(class.termination_message_path, engine.termination_message_path),
        termination_message_policy: engine_first(class.termination_message_policy, engine.termination_message_policy),
        working_dir: engine_first(class.working_dir, engine.working_dir),

        env: class_then_engine(class.env, engine.env),
        env_from: class_then_engine(class.env_from, engine.env_from),
        resize_policy: class_then_engine(class.resize_policy, engine.resize_policy),
        volume_devices: class_then_engine(class.volume_devices, engine.volume_devices),
        volume_mounts: class_then_engine(class.volume_mounts, engine.volume_mounts),

        // These fields belong to the operator. Admission rejects them in templates; here they are ignored.
        args: None,
        command: None,
        liveness_probe: None,
        ports: None,
        readiness_probe: None,
        restart_policy: None,
        restart_policy_rules: None,
        startup_probe: None,
        stdin: None,
        stdin_once: None,
        tty: None,
    }
}

/// Whether there is any request, limit or claim.
#[must_use]
pub(crate) fn has_resources(resources: &ResourceRequirements) -> bool {
    let named = |map: &Option<std::collections::BTreeMap<String, _>>| map.as_ref().is_some_and(|map| !map.is_empty());
    named(&resources.limits)
        || named(&resources.requests)
        || resources.claims.as_ref().is_some_and(|claims| !claims.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::without_empty_values;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn template(value: &Value) -> PodTemplateSpec {
        let template = serde_json::from_value(value.clone()).expect("a template");
        without_empty_values(&template, ENGINE_CONTAINER)
    }

    fn merged(class: &Value, engine: &Value) -> Value {
        serde_json::to_value(merge(Some(template(class)), Some(template(engine)))).expect("a template is JSON")
    }

    /// One field of the pod in both layers, and what becomes of it.
    fn pod_field(field: &str, class: &Value, engine: &Value) -> Value {
        let layer = |value: &Value| match value {
            Value::Null => json!({}),
            value => json!({ "spec": { field: value } }),
        };
        merged(&layer(class), &layer(engine))["spec"][field].take()
    }

    /// One field of the engine container in both layers, and what becomes of it.
    fn container_field(field: &str, class: &Value, engine: &Value) -> Value {
        let layer = |value: &Value| match value {
            Value::Null => json!({}),
            value => json!({ "spec": { "containers": [{ "name": "engine", field: value }] } }),
        };
        merged(&layer(class), &layer(engine))["spec"]["containers"][0][field].take()
    }

    #[rstest]
    #[case::service_account("serviceAccountName", json!("c"), json!("e"))]
    #[case::affinity("affinity", json!({ "podAffinity": {} }), json!({ "nodeAffinity": {} }))]
    #[case::security_context("securityContext", json!({ "runAsUser": 1, "fsGroup": 1 }), json!({ "runAsUser": 2 }))]
    #[case::priority_class("priorityClassName", json!("c"), json!("e"))]
    #[case::runtime_class("runtimeClassName", json!("c"), json!("e"))]
    #[case::scheduler("schedulerName", json!("c"), json!("e"))]
    #[case::dns_policy("dnsPolicy", json!("Default"), json!("None"))]
    #[case::dns_config("dnsConfig", json!({ "nameservers": ["1.1.1.1"] }), json!({ "searches": ["a"] }))]
    #[case::preemption("preemptionPolicy", json!("Never"), json!("PreemptLowerPriority"))]
    #[case::os("os", json!({ "name": "linux" }), json!({ "name": "windows" }))]
    #[case::automount("automountServiceAccountToken", json!(true), json!(false))]
    #[case::fqdn("setHostnameAsFQDN", json!(true), json!(false))]
    fn for_these_pod_fields_the_engine_wins_whole(#[case] field: &str, #[case] class: Value, #[case] engine: Value) {
        assert_eq!(pod_field(field, &class, &engine), engine);
        assert_eq!(pod_field(field, &class, &Value::Null), class);
        assert_eq!(pod_field(field, &Value::Null, &engine), engine);
        assert_eq!(pod_field(field, &Value::Null, &Value::Null), Value::Null);
    }

    #[rstest]
    #[case::tolerations("tolerations", json!({ "key": "c" }), json!({ "key": "e" }))]
    #[case::volumes("volumes", json!({ "name": "c" }), json!({ "name": "e" }))]
    #[case::pull_secrets("imagePullSecrets", json!({ "name": "c" }), json!({ "name": "e" }))]
    #[case::init_containers("initContainers", json!({ "name": "c" }), json!({ "name": "e" }))]
    #[case::spread("topologySpreadConstraints", json!({ "maxSkew": 1, "topologyKey": "c", "whenUnsatisfiable": "x" }), json!({ "maxSkew": 1, "topologyKey": "e", "whenUnsatisfiable": "x" }))]
    #[case::readiness_gates("readinessGates", json!({ "conditionType": "c" }), json!({ "conditionType": "e" }))]
    #[case::resource_claims("resourceClaims", json!({ "name": "c" }), json!({ "name": "e" }))]
    #[case::host_aliases("hostAliases", json!({ "ip": "1.1.1.1" }), json!({ "ip": "2.2.2.2" }))]
    #[case::scheduling_gates("schedulingGates", json!({ "name": "c" }), json!({ "name": "e" }))]
    fn these_pod_lists_are_the_class_then_the_engine(#[case] field: &str, #[case] class: Value, #[case] engine: Value) {
        assert_eq!(
            pod_field(field, &json!([class]), &json!([engine])),
            json!([class, engine])
        );
    }

    #[rstest]
    #[case::node_selector("nodeSelector")]
    #[case::overhead("overhead")]
    fn in_these_pod_maps_keys_of_the_engine_win(#[case] field: &str) {
        let both = pod_field(field, &json!({ "a": "1", "b": "1" }), &json!({ "b": "2" }));
        assert_eq!(both, json!({ "a": "1", "b": "2" }));
    }

    #[rstest]
    #[case::labels("labels")]
    #[case::annotations("annotations")]
    fn in_metadata_keys_of_the_engine_win(#[case] field: &str) {
        let layer = |map: Value| json!({ "metadata": { field: map } });
        let both = merged(&layer(json!({ "a": "1", "b": "1" })), &layer(json!({ "b": "2" })));
        assert_eq!(both["metadata"][field], json!({ "a": "1", "b": "2" }));
    }

    #[rstest]
    #[case::image("image", json!("c"), json!("e"))]
    #[case::pull_policy("imagePullPolicy", json!("Always"), json!("Never"))]
    #[case::security_context("securityContext", json!({ "runAsUser": 1, "privileged": false }), json!({ "runAsUser": 2 }))]
    #[case::lifecycle("lifecycle", json!({ "preStop": { "sleep": { "seconds": 1 } } }), json!({ "postStart": { "exec": { "command": ["a"] } } }))]
    #[case::working_dir("workingDir", json!("/c"), json!("/e"))]
    #[case::message_path("terminationMessagePath", json!("/c"), json!("/e"))]
    #[case::message_policy("terminationMessagePolicy", json!("File"), json!("FallbackToLogsOnError"))]
    fn for_these_container_fields_the_engine_wins_whole(
        #[case] field: &str,
        #[case] class: Value,
        #[case] engine: Value,
    ) {
        assert_eq!(container_field(field, &class, &engine), engine);
        assert_eq!(container_field(field, &class, &Value::Null), class);
        assert_eq!(container_field(field, &Value::Null, &engine), engine);
    }

    #[rstest]
    #[case::env("env", json!({ "name": "A", "value": "c" }), json!({ "name": "A", "value": "e" }))]
    #[case::env_from("envFrom", json!({ "prefix": "c" }), json!({ "prefix": "e" }))]
    #[case::mounts("volumeMounts", json!({ "name": "c", "mountPath": "/c" }), json!({ "name": "e", "mountPath": "/e" }))]
    #[case::devices("volumeDevices", json!({ "name": "c", "devicePath": "/c" }), json!({ "name": "e", "devicePath": "/e" }))]
    #[case::resize("resizePolicy", json!({ "resourceName": "cpu", "restartPolicy": "c" }), json!({ "resourceName": "cpu", "restartPolicy": "e" }))]
    fn these_container_lists_are_the_class_then_the_engine(
        #[case] field: &str,
        #[case] class: Value,
        #[case] engine: Value,
    ) {
        assert_eq!(
            container_field(field, &json!([class]), &json!([engine])),
            json!([class, engine])
        );
    }

    #[rstest]
    #[case::limits(json!({ "limits": { "cpu": "1" } }), true)]
    #[case::requests(json!({ "requests": { "cpu": "1" } }), true)]
    #[case::claims(json!({ "claims": [{ "name": "gpu" }] }), true)]
    #[case::nothing(json!({}), false)]
    #[case::empty_maps(json!({ "limits": {}, "requests": {}, "claims": [] }), false)]
    fn resources_of_the_engine_replace_those_of_the_class_if_any_are_set(#[case] engine: Value, #[case] wins: bool) {
        let class = json!({ "limits": { "cpu": "9", "memory": "9" } });
        let expected = if wins { engine.clone() } else { class.clone() };
        assert_eq!(container_field("resources", &class, &engine), expected);
    }

    #[test]
    fn sidecars_follow_the_engine_container_class_first() {
        let class = json!({ "spec": { "containers": [{ "name": "c1" }, { "name": "engine", "image": "i" }, { "name": "c2" }] } });
        let engine = json!({ "spec": { "containers": [{ "name": "e1" }] } });
        let names = |template: &Value| -> Vec<String> {
            let containers = template["spec"]["containers"].as_array().into_iter().flatten();
            containers
                .map(|container| container["name"].as_str().expect("a name").to_owned())
                .collect()
        };
        assert_eq!(names(&merged(&class, &engine)), ["engine", "c1", "c2", "e1"]);
        assert_eq!(names(&merged(&json!({}), &json!({}))), ["engine"]);
    }

    #[test]
    fn fields_of_the_operator_are_ignored() {
        let layer = json!({
            "metadata": { "name": "n", "finalizers": ["f"] },
            "spec": {
                "terminationGracePeriodSeconds": 1, "subdomain": "s", "hostname": "h", "restartPolicy": "Never",
                "activeDeadlineSeconds": 1, "hostNetwork": true, "hostPID": true, "hostIPC": true, "hostUsers": true,
                "shareProcessNamespace": true, "enableServiceLinks": true,
                "containers": [{
                    "name": "engine", "command": ["c"], "args": ["a"], "ports": [{ "containerPort": 1 }], "stdin": true,
                    "livenessProbe": {}, "readinessProbe": {}, "startupProbe": {}, "restartPolicy": "Always", "tty": true,
                }],
            },
        });
        for result in [merged(&layer, &json!({})), merged(&json!({}), &layer)] {
            assert_eq!(
                result,
                json!({ "metadata": {}, "spec": { "containers": [{ "name": "engine" }] } })
            );
        }
    }
}
