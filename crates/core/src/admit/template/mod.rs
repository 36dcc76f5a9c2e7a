//! The kinds of pod templates, each with its reserved names and its ordered list of rules.

pub(super) mod containers;
mod metadata;
mod owned;
mod pod;
pub(super) mod secrets;
mod sidecars;
pub(super) mod unique;
mod volumes;

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use crate::admit::violation::Violation;
use crate::render::engine::{RESERVED_ENV, RESERVED_VOLUMES, UI_CONTAINER};
use crate::render::instance::gateway::{GATEWAY_CONTAINERS, GATEWAY_VOLUMES, TOKEN_VOLUME};
use crate::render::instance::{CREDENTIALS_VOLUME, METADATA_VOLUMES};
use crate::resolve::engine::ENGINE_CONTAINER;
use crate::resolve::instance::{ENVOY_CONTAINER, METADATA_CONTAINER};
use owned::Owned;

/// A rule for a pod template. The paths of its violations start at the template.
type Rule = fn(&Template) -> Vec<Violation>;

/// A kind of pod template.
pub(super) struct TemplateKind {
    /// Path of the template in its object.
    pub path: &'static str,
    /// Name of the main container, which is the component itself. All others are sidecars.
    pub container: &'static str,
    /// Name of the component in messages.
    pub called: &'static str,
    /// Fields of the main container that the operator manages.
    container_fields: &'static [&'static [Owned<Container>]],
    /// Sidecar containers of the operator.
    pub containers: &'static [&'static str],
    /// How to enable these sidecars, as an addition to a message.
    pub(crate) instead: &'static str,
    /// Environment variables that the operator sets in the main container.
    pub variables: &'static [&'static str],
    /// Volumes of the operator.
    pub volumes: &'static [&'static str],
    /// Volumes of the operator that contain secrets.
    pub(crate) secret_volumes: &'static [&'static str],
    rules: &'static [Rule],
}

/// Templates of engines and of engine classes, which have the same rules.
pub(super) static ENGINE: TemplateKind = TemplateKind {
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
pub(super) static METADATA: TemplateKind = TemplateKind {
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
pub(super) static GATEWAY: TemplateKind = TemplateKind {
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

/// A pod template to validate.
pub(super) struct Template<'a> {
    pub pod: &'a PodTemplateSpec,
    pub component: &'static TemplateKind,
    /// Secrets that containers of users may not read.
    pub secrets: &'a [String],
}

impl Template<'_> {
    /// The violations of the template, in the order of the rules.
    pub(super) fn violations(&self) -> Vec<Violation> {
        let violations = self.component.rules.iter().flat_map(|rule| rule(self));
        violations
            .map(|violation| violation.below(self.component.path))
            .collect()
    }

    /// The containers, without init containers.
    pub(super) fn containers(&self) -> &[Container] {
        self.pod.spec.as_ref().map_or(&[], |spec| &spec.containers)
    }

    /// The init containers.
    pub(super) fn init_containers(&self) -> &[Container] {
        let spec = self.pod.spec.as_ref();
        spec.and_then(|spec| spec.init_containers.as_deref())
            .unwrap_or_default()
    }

    /// Every container except the main container, with its path.
    pub(super) fn sidecars(&self) -> impl Iterator<Item = (String, &Container)> {
        self.every_container()
            .filter(|(_, container)| container.name != self.component.container)
    }

    /// The main container, with its path.
    pub(super) fn own_container(&self) -> Option<(String, &Container)> {
        let own = containers::own(self.pod, self.component.container)?;
        Some((containers::path(self.component.container), own))
    }

    /// Every container, with its path.
    pub(super) fn every_container(&self) -> impl Iterator<Item = (String, &Container)> {
        let lists = [
            ("spec.containers", self.containers()),
            ("spec.initContainers", self.init_containers()),
        ];
        lists
            .into_iter()
            .flat_map(|(list, containers)| containers::addressed(list, containers))
    }
}
