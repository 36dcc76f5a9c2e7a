//! Rules for containers: their names, and for the one that is the engine its identity.
//!
//! Sidecars and init containers are free in everything but their names. They may mount volumes of the operator too:
//! none of those holds a secret.

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use super::owned::{Owned, listed, owned, refuse};
use super::violation::{Kind, Violation};
use crate::render::engine::{RESERVED_ENV, RESERVED_VOLUMES, UI_CONTAINER};
use crate::resolve::engine::ENGINE_CONTAINER;

const ENGINE_FIELDS: [Owned<Container>; 11] = [
    owned("command", |engine| listed(engine.command.as_ref()), START),
    owned("args", |engine| listed(engine.args.as_ref()), START),
    owned(
        "ports",
        |engine| listed(engine.ports.as_ref()),
        "The operator decides about the ports of the engine.",
    ),
    owned("readinessProbe", |engine| engine.readiness_probe.is_some(), PROBES),
    owned("livenessProbe", |engine| engine.liveness_probe.is_some(), PROBES),
    owned("startupProbe", |engine| engine.startup_probe.is_some(), PROBES),
    owned("restartPolicy", |engine| engine.restart_policy.is_some(), RESTARTS),
    owned(
        "restartPolicyRules",
        |engine| listed(engine.restart_policy_rules.as_ref()),
        RESTARTS,
    ),
    owned("stdin", |engine| engine.stdin == Some(true), TERMINAL),
    owned("stdinOnce", |engine| engine.stdin_once == Some(true), TERMINAL),
    owned("tty", |engine| engine.tty == Some(true), TERMINAL),
];
const START: &str = "The operator decides how the engine is started.";
const PROBES: &str = "The operator decides when the engine is healthy.";
const RESTARTS: &str = "The engine is always restarted.";
const TERMINAL: &str = "The engine reads nothing from a terminal.";

/// Refuses a second engine container, and containers under names of the operator.
pub(super) fn names(template: &PodTemplateSpec) -> Vec<Violation> {
    let containers = containers(template);
    let mut refused = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let (kind, message) = match container.name.as_str() {
            ENGINE_CONTAINER if !is_first(containers, index) => (
                Kind::Duplicate,
                format!("There is one container named {ENGINE_CONTAINER}. Put its settings together."),
            ),
            UI_CONTAINER => (
                Kind::Forbidden,
                format!(
                    "The container {UI_CONTAINER} belongs to the operator. Choose another name; for the web UI, set \
                     uiSidecar."
                ),
            ),
            _ => continue,
        };
        let path = format!("{}.name", address("spec.containers", containers, index));
        refused.push(Violation::new(path, kind, message));
    }
    refused
}

/// Refuses init containers under names of the operator.
pub(super) fn init_names(template: &PodTemplateSpec) -> Vec<Violation> {
    let spec = template.spec.as_ref();
    let containers = spec
        .and_then(|spec| spec.init_containers.as_deref())
        .unwrap_or_default();
    let reserved = containers
        .iter()
        .enumerate()
        .filter(|(_, container)| [ENGINE_CONTAINER, UI_CONTAINER].contains(&container.name.as_str()));
    let refused = reserved.map(|(index, container)| {
        Violation::new(
            format!("{}.name", address("spec.initContainers", containers, index)),
            Kind::Forbidden,
            format!(
                "The name {} belongs to a container of the operator. Choose another name.",
                container.name
            ),
        )
    });
    refused.collect()
}

/// Refuses what makes the engine container the engine: how it is started, reached and watched.
pub(super) fn engine_fields(template: &PodTemplateSpec) -> Vec<Violation> {
    let engine = engine(template).into_iter();
    engine
        .flat_map(|engine| refuse(&ENGINE_FIELDS, engine, &engine_path()))
        .collect()
}

/// Refuses variables that the operator sets for the engine.
pub(super) fn engine_env(template: &PodTemplateSpec) -> Vec<Violation> {
    let variables = engine(template)
        .into_iter()
        .flat_map(|engine| engine.env.iter().flatten());
    let reserved = variables
        .enumerate()
        .filter(|(_, variable)| RESERVED_ENV.contains(&variable.name.as_str()));
    let refused = reserved.map(|(index, variable)| {
        Violation::new(
            format!("{}.env[{index}].name", engine_path()),
            Kind::Forbidden,
            format!("The operator sets the variable {}. Remove this entry.", variable.name),
        )
    });
    refused.collect()
}

/// Refuses mounts of volumes of the operator in the engine, which would be left out in favour of its own.
pub(super) fn engine_mounts(template: &PodTemplateSpec) -> Vec<Violation> {
    let mounts = engine(template)
        .into_iter()
        .flat_map(|engine| engine.volume_mounts.iter().flatten());
    let reserved = mounts
        .enumerate()
        .filter(|(_, mount)| RESERVED_VOLUMES.contains(&mount.name.as_str()));
    let refused = reserved.map(|(index, mount)| {
        Violation::new(
            format!("{}.volumeMounts[{index}].name", engine_path()),
            Kind::Forbidden,
            format!(
                "The volume {} belongs to the operator, which mounts it where the engine needs it. Remove this entry.",
                mount.name
            ),
        )
    });
    refused.collect()
}

/// The container that is the engine: the first of its name, as in the merge.
pub(super) fn engine(template: &PodTemplateSpec) -> Option<&Container> {
    containers(template)
        .iter()
        .find(|container| container.name == ENGINE_CONTAINER)
}

/// Where the engine container stands in a template.
pub(super) fn engine_path() -> String {
    format!("spec.containers[{ENGINE_CONTAINER}]")
}

fn containers(template: &PodTemplateSpec) -> &[Container] {
    template.spec.as_ref().map_or(&[], |spec| &spec.containers)
}

/// The path of a container: by its name if it is the first that has it, else by its index.
fn address(list: &str, containers: &[Container], index: usize) -> String {
    if is_first(containers, index) {
        format!("{list}[{}]", containers[index].name)
    } else {
        format!("{list}[{index}]")
    }
}

/// Whether no earlier container has the same name.
fn is_first(containers: &[Container], index: usize) -> bool {
    let name = &containers[index].name;
    containers[..index].iter().all(|earlier| earlier.name != *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::fixture::{accepts, refuses};
    use rstest::rstest;
    use serde_json::{Value, json};

    /// A template in which a sidecar stands before the engine container.
    fn with_engine(field: &str, value: &Value) -> Value {
        json!({ "spec": { "containers": [{ "name": "proxy" }, { "name": "engine", field: value }] } })
    }

    #[rstest]
    #[case::command("command", json!(["c"]), json!([]))]
    #[case::args("args", json!(["a"]), json!([]))]
    #[case::ports("ports", json!([{ "containerPort": 1 }]), json!([]))]
    #[case::readiness("readinessProbe", json!({}), json!(null))]
    #[case::liveness("livenessProbe", json!({}), json!(null))]
    #[case::startup("startupProbe", json!({}), json!(null))]
    #[case::restart_policy("restartPolicy", json!(""), json!(null))]
    #[case::restart_rules("restartPolicyRules", json!([{ "action": "Restart" }]), json!([]))]
    #[case::stdin("stdin", json!(true), json!(false))]
    #[case::stdin_once("stdinOnce", json!(true), json!(false))]
    #[case::tty("tty", json!(true), json!(false))]
    fn the_identity_of_the_engine_is_refused(#[case] field: &str, #[case] bad: Value, #[case] good: Value) {
        let path = format!("spec.containers[engine].{field}");
        refuses(
            &with_engine(field, &bad),
            &[(&path, Kind::Forbidden, "Remove this field.")],
        );
        accepts(&with_engine(field, &good));
        accepts(&json!({ "spec": { "containers": [{ "name": "proxy", field: bad }] } }));
        accepts(&json!({ "spec": { "initContainers": [{ "name": "warm", field: bad }] } }));
    }

    #[rstest]
    fn variables_of_the_operator_are_refused_in_the_engine(
        #[values("POD_INDEX", "FB_AWS_EC2_METADATA_CLIENT_ENABLED", "FIREBOLT_CORE_MODE")] name: &str,
    ) {
        let env = |name: &str| json!([{ "name": "A", "value": "1" }, { "name": name, "value": "1" }]);
        let path = "spec.containers[engine].env[1].name";
        refuses(&with_engine("env", &env(name)), &[(path, Kind::Forbidden, name)]);
        accepts(&with_engine("env", &env(&name.to_lowercase())));
        accepts(&json!({ "spec": { "containers": [{ "name": "proxy", "env": env(name) }] } }));
    }

    #[rstest]
    fn volumes_of_the_operator_are_for_sidecars_to_mount(
        #[values("nodes-config", "engine-config", "data", "runtime", "nginx-writable-dir")] name: &str,
    ) {
        let mounts = |name: &str| json!([{ "name": "c", "mountPath": "/c" }, { "name": name, "mountPath": "/x" }]);
        let path = "spec.containers[engine].volumeMounts[1].name";
        refuses(
            &with_engine("volumeMounts", &mounts(name)),
            &[(path, Kind::Forbidden, name)],
        );
        accepts(&with_engine("volumeMounts", &mounts("cache")));
        accepts(&json!({ "spec": {
            "containers": [{ "name": "proxy", "volumeMounts": mounts(name) }],
            "initContainers": [{ "name": "warm", "volumeMounts": mounts(name) }],
        } }));
    }

    #[test]
    fn there_is_one_engine_container() {
        let names = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            json!({ "spec": { "containers": containers } })
        };
        refuses(
            &names(&["engine", "proxy", "engine", "engine"]),
            &[
                ("spec.containers[2].name", Kind::Duplicate, "one container named engine"),
                ("spec.containers[3].name", Kind::Duplicate, "one container named engine"),
            ],
        );
        accepts(&names(&["engine", "proxy", "engine-2"]));
    }

    #[test]
    fn of_a_second_engine_container_only_the_name_is_refused() {
        let template =
            json!({ "spec": { "containers": [{ "name": "engine" }, { "name": "engine", "command": ["c"] }] } });
        refuses(
            &template,
            &[("spec.containers[1].name", Kind::Duplicate, "one container named engine")],
        );
    }

    #[test]
    fn the_name_of_the_web_ui_is_refused() {
        refuses(
            &json!({ "spec": { "containers": [{ "name": "a" }, { "name": "engine-web" }, { "name": "engine-web" }] } }),
            &[
                ("spec.containers[engine-web].name", Kind::Forbidden, "uiSidecar"),
                ("spec.containers[2].name", Kind::Forbidden, "uiSidecar"),
            ],
        );
        accepts(&json!({ "spec": { "containers": [{ "name": "engine-webs" }] } }));
    }

    #[rstest]
    #[case("engine", true)]
    #[case("engine-web", true)]
    #[case("engine-warm", false)]
    fn names_of_the_operator_are_refused_for_init_containers(#[case] name: &str, #[case] refused: bool) {
        let template = json!({ "spec": { "initContainers": [{ "name": "a" }, { "name": name, "command": ["c"] }] } });
        if refused {
            let path = format!("spec.initContainers[{name}].name");
            refuses(&template, &[(&path, Kind::Forbidden, "Choose another name.")]);
        } else {
            accepts(&template);
        }
    }
}
