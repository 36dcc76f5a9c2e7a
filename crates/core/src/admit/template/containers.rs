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
#[path = "containers_tests.rs"]
mod tests;
