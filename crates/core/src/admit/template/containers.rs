//! Rules for containers: their names, and the fields of the main container that the operator manages.
//!
//! Sidecars and init containers of engines are restricted only in their names. They may also mount volumes of the
//! operator, none of which contains a secret.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use super::Template;
use super::owned::{Owned, filled, listed, owned, refuse};
use crate::admit::violation::{Violation, ViolationKind};

/// Placeholder for the name of the component in messages.
const COMPONENT: &str = "{component}";

/// Fields that identify the component: how it is started, addressed and monitored.
pub(super) const IDENTITY: [Owned<Container>; 11] = [
    owned("command", |own| listed(own.command.as_ref()), START),
    owned("args", |own| listed(own.args.as_ref()), START),
    owned(
        "ports",
        |own| listed(own.ports.as_ref()),
        "The operator manages the ports of the {component}.",
    ),
    owned("readinessProbe", |own| own.readiness_probe.is_some(), PROBES),
    owned("livenessProbe", |own| own.liveness_probe.is_some(), PROBES),
    owned("startupProbe", |own| own.startup_probe.is_some(), PROBES),
    owned("restartPolicy", |own| own.restart_policy.is_some(), RESTARTS),
    owned(
        "restartPolicyRules",
        |own| listed(own.restart_policy_rules.as_ref()),
        RESTARTS,
    ),
    owned("stdin", |own| own.stdin == Some(true), TERMINAL),
    owned("stdinOnce", |own| own.stdin_once == Some(true), TERMINAL),
    owned("tty", |own| own.tty == Some(true), TERMINAL),
];
const START: &str = "The operator manages how the {component} is started.";
const PROBES: &str = "The operator manages the probes of the {component}.";
const RESTARTS: &str = "The {component} is always restarted.";
const TERMINAL: &str = "The {component} does not use stdin or a terminal.";

/// All other fields except the image and the resources, for components that users do not extend.
pub(super) const SETTINGS: [Owned<Container>; 10] = [
    owned("env", |own| listed(own.env.as_ref()), ONLY),
    owned("envFrom", |own| listed(own.env_from.as_ref()), ONLY),
    owned("volumeMounts", |own| listed(own.volume_mounts.as_ref()), ONLY),
    owned("volumeDevices", |own| listed(own.volume_devices.as_ref()), ONLY),
    owned("resizePolicy", |own| listed(own.resize_policy.as_ref()), ONLY),
    owned("securityContext", |own| own.security_context.is_some(), ONLY),
    owned("lifecycle", |own| own.lifecycle.is_some(), ONLY),
    owned("workingDir", |own| filled(own.working_dir.as_ref()), ONLY),
    owned(
        "terminationMessagePath",
        |own| filled(own.termination_message_path.as_ref()),
        ONLY,
    ),
    owned(
        "terminationMessagePolicy",
        |own| filled(own.termination_message_policy.as_ref()),
        ONLY,
    ),
];
const ONLY: &str = "In the container of the {component}, only image, imagePullPolicy and resources can be set.";

/// Rejects a second main container, and containers with names of the operator.
pub(super) fn names(template: &Template) -> Vec<Violation> {
    let (component, containers) = (template.component, template.containers());
    let (mut refused, mut own) = (Vec::new(), 0);
    for (path, container) in addressed("spec.containers", containers) {
        let name = container.name.as_str();
        own += usize::from(name == component.container);
        let (kind, message) = if name == component.container && own > 1 {
            (
                ViolationKind::Duplicate,
                format!("There can be only one container named {name}. Merge the entries."),
            )
        } else if component.containers.contains(&name) {
            let instead = component.instead;
            (
                ViolationKind::Forbidden,
                format!("The container name {name} is reserved for the operator. Choose another name{instead}."),
            )
        } else {
            continue;
        };
        refused.push(Violation::new(format!("{path}.name"), kind, message));
    }
    refused
}

/// Rejects init containers with names of the operator.
pub(super) fn init_names(template: &Template) -> Vec<Violation> {
    let (component, containers) = (template.component, template.init_containers());
    let reserved = addressed("spec.initContainers", containers).filter(|(_, container)| {
        container.name == component.container || component.containers.contains(&container.name.as_str())
    });
    let refused = reserved.map(|(path, container)| {
        Violation::new(
            format!("{path}.name"),
            ViolationKind::Forbidden,
            format!(
                "The container name {} is reserved for the operator. Choose another name.",
                container.name
            ),
        )
    });
    refused.collect()
}

/// Rejects fields of the main container that the operator manages.
pub(super) fn fields(template: &Template) -> Vec<Violation> {
    let component = template.component;
    let own = own(template.pod, component.container).into_iter();
    let lists = own.flat_map(|own| component.container_fields.iter().map(move |list| (own, *list)));
    let refused = lists.flat_map(|(own, list)| refuse(list, own, &path(component.container)));
    refused
        .map(|violation| Violation {
            message: violation.message.replace(COMPONENT, component.called),
            ..violation
        })
        .collect()
}

/// Rejects environment variables that the operator sets.
pub(super) fn variables(template: &Template) -> Vec<Violation> {
    let component = template.component;
    let variables = own(template.pod, component.container)
        .into_iter()
        .flat_map(|own| own.env.iter().flatten());
    let reserved = variables
        .enumerate()
        .filter(|(_, variable)| component.variables.contains(&variable.name.as_str()));
    let refused = reserved.map(|(index, variable)| {
        Violation::new(
            format!("{}.env[{index}].name", path(component.container)),
            ViolationKind::Forbidden,
            format!(
                "The environment variable {} is set by the operator. Remove this entry.",
                variable.name
            ),
        )
    });
    refused.collect()
}

/// Rejects mounts of volumes of the operator in the main container, which would be replaced by its own.
pub(super) fn mounts(template: &Template) -> Vec<Violation> {
    let component = template.component;
    let mounts = own(template.pod, component.container)
        .into_iter()
        .flat_map(|own| own.volume_mounts.iter().flatten());
    let reserved = mounts
        .enumerate()
        .filter(|(_, mount)| component.volumes.contains(&mount.name.as_str()));
    let refused = reserved.map(|(index, mount)| {
        Violation::new(
            format!("{}.volumeMounts[{index}].name", path(component.container)),
            ViolationKind::Forbidden,
            format!(
                "The volume {} is managed by the operator, which mounts it where the {} needs it. Remove this entry.",
                mount.name, component.called
            ),
        )
    });
    refused.collect()
}

/// Rejects volumes of the operator as block devices, in every container: they are file systems.
pub(super) fn devices(template: &Template) -> Vec<Violation> {
    let devices = template.every_container().flat_map(|(path, container)| {
        let devices = container.volume_devices.iter().flatten().enumerate();
        devices.map(move |(index, device)| (format!("{path}.volumeDevices[{index}].name"), &device.name))
    });
    let reserved = devices.filter(|(_, name)| template.component.volumes.contains(&name.as_str()));
    let refused = reserved.map(|(path, name)| {
        let message =
            format!("The volume {name} is managed by the operator and is not a block device. Remove this entry.");
        Violation::new(path, ViolationKind::Forbidden, message)
    });
    refused.collect()
}

/// The main container: the first with its name, as in the merge.
pub(in crate::admit) fn own<'a>(template: &'a PodTemplateSpec, name: &str) -> Option<&'a Container> {
    let containers = template.spec.iter().flat_map(|spec| &spec.containers);
    containers.into_iter().find(|container| container.name == name)
}

/// Path of the main container in a template.
pub(in crate::admit) fn path(name: &str) -> String {
    format!("spec.containers[{name}]")
}

/// The containers with their paths, identified by name, or by index if an earlier one has the same name.
pub(in crate::admit) fn addressed<'a>(
    list: &str,
    containers: &'a [Container],
) -> impl Iterator<Item = (String, &'a Container)> {
    let mut seen = HashSet::new();
    containers.iter().enumerate().map(move |(index, container)| {
        let path = if seen.insert(&container.name) {
            format!("{list}[{}]", container.name)
        } else {
            format!("{list}[{index}]")
        };
        (path, container)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::fixture::{Target, accepts, assert_rejected, rejects};
    use rstest::rstest;
    use serde_json::{Value, json};

    /// A template in which a sidecar precedes the main container.
    fn with_own(of: Target, field: &str, value: &Value) -> Value {
        json!({ "spec": { "containers": [{ "name": "proxy" }, { "name": of.container(), field: value }] } })
    }

    fn with_engine(field: &str, value: &Value) -> Value {
        with_own(Target::Engine, field, value)
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
    fn the_identity_of_a_component_is_refused(#[case] field: &str, #[case] bad: Value, #[case] good: Value) {
        for (of, called) in [
            (Target::Engine, "engine"),
            (Target::Metadata, "metadata service"),
            (Target::Gateway, "gateway"),
        ] {
            let path = format!("spec.containers[{}].{field}", of.container());
            let violations = of.violations(&with_own(of, field, &bad));
            assert_rejected(
                &violations,
                of.path(),
                &[(&path, ViolationKind::Forbidden, "Remove this field.")],
                &bad,
            );
            assert!(
                violations[0].message.contains(&format!("he {called} "))
                    || violations[0].message.contains(&format!("he {called}.")),
                "{}",
                violations[0]
            );
            of.accepts(&with_own(of, field, &good));
            of.accepts(&json!({ "spec": { "containers": [{ "name": "proxy", field: bad }] } }));
            of.accepts(&json!({ "spec": { "initContainers": [{ "name": "warm", field: bad }] } }));
        }
    }

    #[rstest]
    #[case::env("env", json!([{ "name": "A", "value": "1" }]), json!([]))]
    #[case::env_from("envFrom", json!([{ "prefix": "A" }]), json!([]))]
    #[case::mounts("volumeMounts", json!([{ "name": "v", "mountPath": "/v" }]), json!([]))]
    #[case::devices("volumeDevices", json!([{ "name": "v", "devicePath": "/v" }]), json!([]))]
    #[case::resize("resizePolicy", json!([{ "resourceName": "cpu", "restartPolicy": "r" }]), json!([]))]
    #[case::security("securityContext", json!({}), json!(null))]
    #[case::lifecycle("lifecycle", json!({}), json!(null))]
    #[case::working_dir("workingDir", json!("/w"), json!(""))]
    #[case::message_path("terminationMessagePath", json!("/m"), json!(""))]
    #[case::message_policy("terminationMessagePolicy", json!("File"), json!(""))]
    fn of_instance_components_only_image_and_resources_can_be_set(
        #[case] field: &str,
        #[case] bad: Value,
        #[case] good: Value,
        #[values(Target::Metadata, Target::Gateway)] of: Target,
    ) {
        let path = format!("spec.containers[{}].{field}", of.container());
        let expected = [(
            path.as_str(),
            ViolationKind::Forbidden,
            "only image, imagePullPolicy and resources",
        )];
        of.rejects(&with_own(of, field, &bad), &expected);
        of.accepts(&with_own(of, field, &good));
        of.accepts(&json!({ "spec": { "containers": [{ "name": "proxy", field: bad }] } }));
        Target::Engine.accepts(&with_own(Target::Engine, field, &bad));
    }

    #[rstest]
    #[case::image("image", json!("mine:1"))]
    #[case::pull_policy("imagePullPolicy", json!("Always"))]
    #[case::resources("resources", json!({ "limits": { "cpu": 4 } }))]
    fn image_and_resources_can_be_set_everywhere(#[case] field: &str, #[case] value: Value) {
        for of in Target::ALL {
            of.accepts(&with_own(of, field, &value));
        }
    }

    #[rstest]
    fn variables_of_the_operator_are_refused_in_the_engine(
        #[values("POD_INDEX", "FB_AWS_EC2_METADATA_CLIENT_ENABLED", "FIREBOLT_CORE_MODE")] name: &str,
    ) {
        let env = |name: &str| json!([{ "name": "A", "value": "1" }, { "name": name, "value": "1" }]);
        let path = "spec.containers[engine].env[1].name";
        rejects(
            &with_engine("env", &env(name)),
            &[(path, ViolationKind::Forbidden, name)],
        );
        accepts(&with_engine("env", &env(&name.to_lowercase())));
        accepts(&json!({ "spec": { "containers": [{ "name": "proxy", "env": env(name) }] } }));
    }

    #[rstest]
    fn volumes_of_the_operator_are_for_sidecars_to_mount(
        #[values("nodes-config", "engine-config", "data", "runtime", "nginx-writable-dir")] name: &str,
    ) {
        let mounts = |name: &str| json!([{ "name": "c", "mountPath": "/c" }, { "name": name, "mountPath": "/x" }]);
        let path = "spec.containers[engine].volumeMounts[1].name";
        rejects(
            &with_engine("volumeMounts", &mounts(name)),
            &[(path, ViolationKind::Forbidden, name)],
        );
        accepts(&with_engine("volumeMounts", &mounts("cache")));
        accepts(&json!({ "spec": {
            "containers": [{ "name": "proxy", "volumeMounts": mounts(name) }],
            "initContainers": [{ "name": "warm", "volumeMounts": mounts(name) }],
        } }));
    }

    #[rstest]
    fn volumes_of_the_operator_are_no_devices(#[values("containers", "initContainers")] list: &str) {
        let template = |name: &str| json!({ "spec": { list: [{ "name": "proxy", "volumeDevices": [{ "name": name, "devicePath": "/d" }] }] } });
        let path = format!("spec.{list}[proxy].volumeDevices[0].name");
        rejects(&template("data"), &[(&path, ViolationKind::Forbidden, "volume data")]);
        accepts(&template("disk"));
    }

    #[test]
    fn a_component_is_one_container() {
        let names = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            json!({ "spec": { "containers": containers } })
        };
        for of in Target::ALL {
            let own = of.container();
            let message = format!("only one container named {own}");
            of.rejects(
                &names(&[own, "proxy", own, own]),
                &[
                    ("spec.containers[2].name", ViolationKind::Duplicate, &message),
                    ("spec.containers[3].name", ViolationKind::Duplicate, &message),
                ],
            );
            of.accepts(&names(&[own, "proxy", &format!("{own}-2")]));
        }
    }

    #[test]
    fn of_a_second_engine_container_only_the_name_is_refused() {
        let template =
            json!({ "spec": { "containers": [{ "name": "engine" }, { "name": "engine", "command": ["c"] }] } });
        rejects(
            &template,
            &[(
                "spec.containers[1].name",
                ViolationKind::Duplicate,
                "only one container named engine",
            )],
        );
    }

    #[test]
    fn the_name_of_the_web_ui_is_refused() {
        rejects(
            &json!({ "spec": { "containers": [{ "name": "a" }, { "name": "engine-web" }, { "name": "engine-web" }] } }),
            &[
                (
                    "spec.containers[engine-web].name",
                    ViolationKind::Forbidden,
                    "uiSidecar",
                ),
                ("spec.containers[2].name", ViolationKind::Forbidden, "uiSidecar"),
            ],
        );
        accepts(&json!({ "spec": { "containers": [{ "name": "engine-webs" }] } }));
    }

    #[test]
    fn the_name_of_the_wake_agent_is_refused_in_the_gateway() {
        let template = json!({ "spec": { "containers": [{ "name": "wake-agent" }] } });
        let path = "spec.containers[wake-agent].name";
        Target::Gateway.rejects(&template, &[(path, ViolationKind::Forbidden, "Choose another name.")]);
        Target::Metadata.accepts(&template);
        Target::Engine.accepts(&template);
    }

    #[rstest]
    #[case(Target::Engine, "engine", true)]
    #[case(Target::Engine, "engine-web", true)]
    #[case(Target::Engine, "engine-warm", false)]
    #[case(Target::Metadata, "metadata", true)]
    #[case(Target::Metadata, "engine", false)]
    #[case(Target::Gateway, "envoy", true)]
    #[case(Target::Gateway, "wake-agent", true)]
    #[case(Target::Gateway, "metadata", false)]
    fn names_of_the_operator_are_refused_for_init_containers(
        #[case] of: Target,
        #[case] name: &str,
        #[case] refused: bool,
    ) {
        let template = json!({ "spec": { "initContainers": [{ "name": "a" }, { "name": name, "command": ["c"] }] } });
        if refused {
            let path = format!("spec.initContainers[{name}].name");
            of.rejects(&template, &[(&path, ViolationKind::Forbidden, "Choose another name.")]);
        } else {
            of.accepts(&template);
        }
    }
}
