//! Uniqueness within a pod: names, mount paths in the engine container, and other keys that Kubernetes requires to be
//! unique.
//!
//! The lists of a class and of an engine are merged, so an entry may be valid in each of them but not in both. Not
//! checked is what Kubernetes accepts twice: of two environment variables with the same name the later one is used,
//! which is that of the engine, and image pull secrets, host aliases, readiness gates and tolerations are combined.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use super::{ENGINE, Template};
use crate::admit::violation::{Violation, ViolationKind};
use crate::render::engine::mount_paths;

/// An entry of a list without duplicates.
struct Entry {
    /// Path that starts at the template.
    path: String,
    /// Key that must be unique.
    key: String,
    /// Whether the key may occur again, unless the other entry is not shared.
    shared: bool,
}

/// A list of a pod.
struct List {
    /// Description of an entry, followed by its key.
    what: &'static str,
    entries: fn(&PodTemplateSpec) -> Vec<Entry>,
}

/// Lists that both layers add to, except the containers.
const LISTS: [List; 8] = [
    list("a volume named", volumes),
    list("a mount or device at", places),
    list("a volume device for volume", devices),
    list("a resize policy for", resize_policies),
    list("a container on host port", host_ports),
    list("a resource claim named", resource_claims),
    list("a scheduling gate named", scheduling_gates),
    list("a topology spread constraint for", spread_constraints),
];
const CONTAINERS: List = list("a container named", containers);

const fn list(what: &'static str, entries: fn(&PodTemplateSpec) -> Vec<Entry>) -> List {
    List { what, entries }
}

/// Rejects duplicates in one template. The names of its containers are checked by another rule.
pub(super) fn within(template: &Template) -> Vec<Violation> {
    let mut refused = Vec::new();
    for List { what, entries } in &LISTS {
        let mut earlier = Taken::default();
        for entry in entries(template.pod) {
            if earlier.excludes(&entry) {
                let message = format!(
                    "This template already has {what} {}. Change or remove one of the two.",
                    entry.key
                );
                refused.push(Violation::new(&entry.path, ViolationKind::Duplicate, message));
            }
            earlier.add(entry);
        }
    }
    refused
}

/// Rejects entries of an engine that its class has as well. The paths are those of the template of the engine.
pub(in crate::admit) fn across(class: &PodTemplateSpec, class_name: &str, engine: &PodTemplateSpec) -> Vec<Violation> {
    let mut refused = Vec::new();
    for List { what, entries } in std::iter::once(&CONTAINERS).chain(&LISTS) {
        let mut inherited = Taken::default();
        for entry in entries(class) {
            inherited.add(entry);
        }
        let twice = entries(engine).into_iter().filter(|entry| inherited.excludes(entry));
        refused.extend(twice.map(|Entry { path, key, .. }| {
            let message = format!(
                "FireboltEngineClass {class_name} also has {what} {key}, and the pods get the entries of both. Change \
                 or remove it, here or in the class."
            );
            Violation::new(path, ViolationKind::Duplicate, message)
        }));
    }
    refused
}

/// Rejects mounts and devices at paths where the operator mounts its own volumes.
pub(super) fn beside_the_operator(template: &Template) -> Vec<Violation> {
    let taken: Vec<String> = mount_paths().map(|path| place(&path)).collect();
    let there = places(template.pod)
        .into_iter()
        .filter(|entry| taken.contains(&entry.key));
    let refused = there.map(|Entry { path, key, .. }| {
        let message = format!("The operator mounts its own volume at {key}. Choose another path.");
        Violation::new(path, ViolationKind::Forbidden, message)
    });
    refused.collect()
}

impl Entry {
    fn new(path: String, key: impl Into<String>) -> Self {
        Self {
            path,
            key: key.into(),
            shared: false,
        }
    }
}

/// The keys of other entries, and whether all of them are shared. A map, because users determine the length of the
/// lists.
#[derive(Default)]
struct Taken(HashMap<String, bool>);

impl Taken {
    fn add(&mut self, entry: Entry) {
        let shared = self.0.entry(entry.key).or_insert(true);
        *shared &= entry.shared;
    }

    fn excludes(&self, entry: &Entry) -> bool {
        self.0.get(&entry.key).is_some_and(|shared| !(*shared && entry.shared))
    }
}

/// The entries of a list of the pod, with their indices.
fn each<'a, T: 'a>(
    template: &'a PodTemplateSpec,
    list: fn(&'a PodSpec) -> Option<&'a Vec<T>>,
) -> impl Iterator<Item = (usize, &'a T)> {
    template.spec.iter().filter_map(list).flatten().enumerate()
}

fn of_engines(pod: &PodTemplateSpec) -> Template<'_> {
    Template {
        pod,
        component: &ENGINE,
        secrets: &[],
    }
}

fn is_of_the_operator(volume: &str) -> bool {
    ENGINE.volumes.contains(&volume)
}

/// Names of the operator are rejected by another rule.
fn containers(template: &PodTemplateSpec) -> Vec<Entry> {
    let template = of_engines(template);
    let named = template
        .sidecars()
        .filter(|(_, container)| !ENGINE.containers.contains(&container.name.as_str()));
    named
        .map(|(path, container)| Entry::new(format!("{path}.name"), &container.name))
        .collect()
}

/// Volumes of the operator replace others with the same name.
fn volumes(template: &PodTemplateSpec) -> Vec<Entry> {
    each(template, |spec| spec.volumes.as_ref())
        .filter(|(_, volume)| !is_of_the_operator(&volume.name))
        .map(|(index, volume)| Entry::new(format!("spec.volumes[{index}].name"), &volume.name))
        .collect()
}

/// Mounts of volumes of the operator are rejected by another rule.
fn places(template: &PodTemplateSpec) -> Vec<Entry> {
    let mut places = Vec::new();
    if let Some((path, own)) = of_engines(template).own_container() {
        for (index, mount) in own.volume_mounts.iter().flatten().enumerate() {
            if !is_of_the_operator(&mount.name) {
                let path = format!("{path}.volumeMounts[{index}].mountPath");
                places.push(Entry::new(path, place(&mount.mount_path)));
            }
        }
        for (index, device) in own.volume_devices.iter().flatten().enumerate() {
            let path = format!("{path}.volumeDevices[{index}].devicePath");
            places.push(Entry::new(path, place(&device.device_path)));
        }
    }
    places
}

/// The normalized path: a mount hides an earlier one at the same path, however it is written.
fn place(path: &str) -> String {
    let steps = path.split('/').filter(|step| !matches!(*step, "" | "."));
    steps.fold(String::new(), |place, step| place + "/" + step)
}

/// A volume can be mounted any number of times, or used as a block device once.
fn devices(template: &PodTemplateSpec) -> Vec<Entry> {
    let mut uses = Vec::new();
    if let Some((path, own)) = of_engines(template).own_container() {
        for (index, mount) in own.volume_mounts.iter().flatten().enumerate() {
            if !is_of_the_operator(&mount.name) {
                uses.push(Entry {
                    shared: true,
                    ..Entry::new(format!("{path}.volumeMounts[{index}].name"), &mount.name)
                });
            }
        }
        for (index, device) in own.volume_devices.iter().flatten().enumerate() {
            if !is_of_the_operator(&device.name) {
                uses.push(Entry::new(format!("{path}.volumeDevices[{index}].name"), &device.name));
            }
        }
    }
    uses
}

fn resize_policies(template: &PodTemplateSpec) -> Vec<Entry> {
    let template = of_engines(template);
    let own = template.own_container();
    let policies = own.iter().flat_map(|(path, own)| {
        let policies = own.resize_policy.iter().flatten().enumerate();
        policies.map(move |(index, policy)| (format!("{path}.resizePolicy[{index}].resourceName"), policy))
    });
    policies
        .map(|(path, policy)| Entry::new(path, &policy.resource_name))
        .collect()
}

/// Host ports of containers. Kubernetes allows init containers to use the same ports, one after the other.
fn host_ports(template: &PodTemplateSpec) -> Vec<Entry> {
    let template = of_engines(template);
    let containers = super::containers::addressed("spec.containers", template.containers());
    let ports = containers.flat_map(|(path, container)| {
        let ports = container.ports.iter().flatten().enumerate();
        ports.map(move |(index, port)| (format!("{path}.ports[{index}].hostPort"), port))
    });
    let claimed = ports.filter_map(|(path, port)| {
        let number = port.host_port.filter(|number| *number != 0)?;
        let protocol = port.protocol.as_deref().filter(|protocol| !protocol.is_empty());
        let address = port.host_ip.as_deref().filter(|address| !address.is_empty());
        let address = address.map(|address| format!(" of {address}")).unwrap_or_default();
        let key = format!("{number}/{}{address}", protocol.unwrap_or("TCP"));
        Some(Entry::new(path, key))
    });
    claimed.collect()
}

fn resource_claims(template: &PodTemplateSpec) -> Vec<Entry> {
    each(template, |spec| spec.resource_claims.as_ref())
        .map(|(index, claim)| Entry::new(format!("spec.resourceClaims[{index}].name"), &claim.name))
        .collect()
}

fn scheduling_gates(template: &PodTemplateSpec) -> Vec<Entry> {
    each(template, |spec| spec.scheduling_gates.as_ref())
        .map(|(index, gate)| Entry::new(format!("spec.schedulingGates[{index}].name"), &gate.name))
        .collect()
}

fn spread_constraints(template: &PodTemplateSpec) -> Vec<Entry> {
    each(template, |spec| spec.topology_spread_constraints.as_ref())
        .map(|(index, constraint)| {
            let path = format!("spec.topologySpreadConstraints[{index}].topologyKey");
            let key = format!("{} with {}", constraint.topology_key, constraint.when_unsatisfiable);
            Entry::new(path, key)
        })
        .collect()
}

#[cfg(test)]
mod tests;
