//! The kinds of pod templates, each with its names and its ordered list of rules.

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use super::owned::Owned;
use super::violation::Violation;
use super::{containers, metadata, pod, secrets, sidecars, unique, volumes};
use crate::render::engine::{RESERVED_ENV, RESERVED_VOLUMES, UI_CONTAINER};
use crate::render::instance::gateway::{GATEWAY_CONTAINERS, GATEWAY_VOLUMES, TOKEN_VOLUME};
use crate::render::instance::{CREDENTIALS_VOLUME, METADATA_VOLUMES};
use crate::resolve::engine::ENGINE_CONTAINER;
use crate::resolve::instance::{ENVOY_CONTAINER, METADATA_CONTAINER};

/// Something that must hold of a pod template. Paths in the answer start at the template.
type Rule = fn(&Template) -> Vec<Violation>;

/// What the pod templates of one kind have in common.
pub(super) struct Component {
    /// Where the template stands in its object.
    pub path: &'static str,
    /// The container that is the component itself. Any other is a sidecar.
    pub container: &'static str,
    /// What the component is called in sentences.
    pub called: &'static str,
    /// Fields of that container that belong to the operator.
    pub container_fields: &'static [&'static [Owned<Container>]],
    /// Containers that the operator puts beside it.
    pub containers: &'static [&'static str],
    /// How to get what those containers are for, as an addition to a sentence.
    pub instead: &'static str,
    /// Variables that the operator sets in the container.
    pub variables: &'static [&'static str],
    /// Volumes that the operator puts into the pods.
    pub volumes: &'static [&'static str],
    /// Those of them that hold secrets.
    pub secret_volumes: &'static [&'static str],
    rules: &'static [Rule],
}

/// Templates of engines and of engine classes: what is accepted in one is accepted in the other.
pub(super) static ENGINE: Component = Component {
    path: "spec.template",
    container: ENGINE_CONTAINER,
    called: "engine",
    container_fields: &[&containers::IDENTITY],
    containers: &[UI_CONTAINER],
    instead: "; for the web UI, set uiSidecar",
    variables: &RESERVED_ENV,
    volumes: &RESERVED_VOLUMES,
    secret_volumes: &[],
    rules: &[
        metadata::fields,
        metadata::keys,
        pod::fields,
        pod::service_account,
        secrets::volumes,
        containers::names,
        containers::fields,
        containers::variables,
        containers::mounts,
        containers::devices,
        containers::init_names,
        sidecars::names,
        unique::within,
        unique::beside_the_operator,
        secrets::own_variables,
        secrets::variables,
    ],
};

/// Templates of the metadata service.
pub(super) static METADATA: Component = Component {
    path: "spec.metadata.template",
    container: METADATA_CONTAINER,
    called: "metadata service",
    container_fields: &[&containers::IDENTITY, &containers::SETTINGS],
    containers: &[],
    instead: "",
    variables: &[],
    volumes: &METADATA_VOLUMES,
    secret_volumes: &[CREDENTIALS_VOLUME],
    rules: &[
        metadata::fields,
        metadata::keys,
        pod::fields,
        pod::service_account,
        pod::no_token,
        pod::user,
        volumes::names,
        secrets::volumes,
        containers::names,
        containers::fields,
        containers::init_names,
        sidecars::names,
        sidecars::mounts,
        secrets::variables,
    ],
};

/// Templates of the gateway.
pub(super) static GATEWAY: Component = Component {
    path: "spec.gateway.template",
    container: ENVOY_CONTAINER,
    called: "gateway",
    container_fields: &[&containers::IDENTITY, &containers::SETTINGS],
    containers: &GATEWAY_CONTAINERS,
    instead: "",
    variables: &[],
    volumes: &GATEWAY_VOLUMES,
    secret_volumes: &[TOKEN_VOLUME],
    rules: &[
        metadata::fields,
        metadata::keys,
        pod::fields,
        pod::service_account,
        pod::token_of_own_account,
        volumes::names,
        secrets::volumes,
        containers::names,
        containers::fields,
        containers::init_names,
        sidecars::names,
        sidecars::mounts,
        secrets::variables,
    ],
};

/// A pod template that is to be judged.
pub(super) struct Template<'a> {
    pub pod: &'a PodTemplateSpec,
    pub component: &'static Component,
    /// Secrets that no container of a user may read.
    pub secrets: &'a [String],
}

impl Template<'_> {
    /// What is wrong with the template, in the order of the rules.
    pub fn violations(&self) -> Vec<Violation> {
        let violations = self.component.rules.iter().flat_map(|rule| rule(self));
        violations
            .map(|violation| violation.below(self.component.path))
            .collect()
    }

    /// The containers, without those that run before them.
    pub fn containers(&self) -> &[Container] {
        self.pod.spec.as_ref().map_or(&[], |spec| &spec.containers)
    }

    /// The containers that run before the others, or beside them.
    pub fn init_containers(&self) -> &[Container] {
        let spec = self.pod.spec.as_ref();
        spec.and_then(|spec| spec.init_containers.as_deref())
            .unwrap_or_default()
    }

    /// Every container that is not the component itself, with its path.
    pub fn sidecars(&self) -> impl Iterator<Item = (String, &Container)> {
        self.every_container()
            .filter(|(_, container)| container.name != self.component.container)
    }

    /// The container that is the component itself, with its path.
    pub fn own_container(&self) -> Option<(String, &Container)> {
        let own = containers::own(self.pod, self.component.container)?;
        Some((containers::path(self.component.container), own))
    }

    /// Every container, with its path.
    pub fn every_container(&self) -> impl Iterator<Item = (String, &Container)> {
        let lists = [
            ("spec.containers", self.containers()),
            ("spec.initContainers", self.init_containers()),
        ];
        lists
            .into_iter()
            .flat_map(|(list, containers)| containers::addressed(list, containers))
    }
}
