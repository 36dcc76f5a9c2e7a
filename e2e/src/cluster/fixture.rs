//! The manifests of the tests, each as short as what it is about: `engine.clone().replicas(3).image(NEXT_ENGINE_IMAGE)`.
//!
//! Pods ask for next to nothing, so that many scenes fit on one small node.

use firebolt_api::{
    ConfigFormat, FireboltEngine, FireboltEngineClass, FireboltEngineClassSpec, FireboltEngineSpec, FireboltInstance,
    FireboltInstanceSpec, GatewaySpec, MetadataSpec,
};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use serde_json::{Value, json};

use super::scene::INSTANCE;

/// Another image of the engine, with the same content.
pub const NEXT_ENGINE_IMAGE: &str = "ghcr.io/firebolt-db/engine:next";
/// Where an engine reports what it executes.
const LEDGER_VARIABLE: &str = "STAND_IN_LEDGER";

/// An engine to be. Every change gives the whole manifest, as in a file that a person edits and applies again.
#[derive(Clone, Debug)]
pub struct Engine(pub(super) FireboltEngine);

impl Engine {
    /// An engine of one replica that is drained quickly, and reports to a ledger what it executes.
    pub(super) fn new(name: &str, ledger: &str) -> Self {
        let spec = FireboltEngineSpec {
            instance_ref: INSTANCE.to_owned(),
            replicas: 1,
            drain_check_interval: Some(seconds(1)),
            template: Some(template("engine")),
            ..FireboltEngineSpec::default()
        };
        Self(FireboltEngine::new(name, spec)).env(LEDGER_VARIABLE, ledger)
    }

    /// With so many pods.
    #[must_use]
    pub fn replicas(self, replicas: i32) -> Self {
        self.but(|spec| spec.replicas = replicas)
    }

    /// With what a class of this name says.
    #[must_use]
    pub fn class(self, name: &str) -> Self {
        self.but(|spec| spec.engine_class_ref = Some(name.to_owned()))
    }

    /// With an image of its own.
    #[must_use]
    pub fn image(self, image: &str) -> Self {
        self.but(|spec| container(spec.template.get_or_insert_default()).image = Some(image.to_owned()))
    }

    /// With one more variable in the environment of the engine. Those called `STAND_IN_…` make it misbehave.
    #[must_use]
    pub fn env(self, name: &str, value: &str) -> Self {
        let variable = from_json(json!({ "name": name, "value": value }));
        self.but(|spec| {
            let env = container(spec.template.get_or_insert_default())
                .env
                .get_or_insert_default();
            env.retain(|other: &k8s_openapi::api::core::v1::EnvVar| other.name != name);
            env.push(variable);
        })
    }

    /// With this in its configuration file.
    #[must_use]
    pub fn config(self, config: Value) -> Self {
        self.but(|spec| spec.custom_engine_config = Some(from_json(config)))
    }

    /// Stops when nobody has used it for so many seconds, and has one pod otherwise.
    #[must_use]
    pub fn idle_timeout(self, seconds: u64) -> Self {
        let policy = json!({
            "enabled": true, "activeReplicas": 1, "idleTimeout": format!("{seconds}s"), "pollInterval": "1s",
        });
        self.but(|spec| spec.auto_stop = Some(from_json(policy)))
    }

    /// With any other change.
    #[must_use]
    pub fn but(mut self, change: impl FnOnce(&mut FireboltEngineSpec)) -> Self {
        change(&mut self.0.spec);
        self
    }
}

impl AsRef<FireboltEngine> for Engine {
    fn as_ref(&self) -> &FireboltEngine {
        &self.0
    }
}

/// A class to be.
#[derive(Clone, Debug)]
pub struct Class(FireboltEngineClass);

impl Class {
    /// A class that decides nothing yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(FireboltEngineClass::new(name, FireboltEngineClassSpec::default()))
    }

    /// With an image for its engines.
    #[must_use]
    pub fn image(mut self, image: &str) -> Self {
        container(&mut self.0.spec.template).image = Some(image.to_owned());
        self
    }
}

impl AsRef<FireboltEngineClass> for Class {
    fn as_ref(&self) -> &FireboltEngineClass {
        &self.0
    }
}

/// An instance to be.
#[derive(Clone, Debug)]
pub struct Instance(FireboltInstance);

impl Instance {
    /// An instance with a PostgreSQL of its own and one gateway pod.
    #[must_use]
    pub fn new() -> Self {
        Self::named(INSTANCE)
    }

    /// The same under another name. Engines of tests do not belong to it.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let spec = FireboltInstanceSpec {
            metadata: MetadataSpec {
                config_format: ConfigFormat::Yaml,
                template: Some(template("metadata")),
                ..MetadataSpec::default()
            },
            gateway: GatewaySpec {
                replicas: Some(1),
                template: Some(template("envoy")),
                ..GatewaySpec::default()
            },
            ..FireboltInstanceSpec::default()
        };
        Self(FireboltInstance::new(name, spec))
    }

    /// Holds queries for engines that are not ready for so many seconds.
    #[must_use]
    pub fn wake_timeout(self, timeout: u64) -> Self {
        self.but(|spec| spec.gateway.wake_timeout = seconds(timeout))
    }

    /// With so many gateway pods.
    #[must_use]
    pub fn gateways(self, replicas: i32) -> Self {
        self.but(|spec| spec.gateway.replicas = Some(replicas))
    }

    /// With any other change.
    #[must_use]
    pub fn but(mut self, change: impl FnOnce(&mut FireboltInstanceSpec)) -> Self {
        change(&mut self.0.spec);
        self
    }
}

impl Default for Instance {
    fn default() -> Self {
        Self::new()
    }
}

impl AsRef<FireboltInstance> for Instance {
    fn as_ref(&self) -> &FireboltInstance {
        &self.0
    }
}

/// A pod template that says of one container only that it is content with little.
fn template(container: &str) -> PodTemplateSpec {
    let requests = json!({ "cpu": "1m", "memory": "8Mi" });
    from_json(json!({ "spec": { "containers": [{ "name": container, "resources": { "requests": requests } }] } }))
}

/// The container that is the engine.
fn container(template: &mut PodTemplateSpec) -> &mut Container {
    let containers = &mut template.spec.get_or_insert_default().containers;
    if containers.is_empty() {
        containers.push(from_json(json!({ "name": "engine" })));
    }
    &mut containers[0]
}

fn seconds(seconds: u64) -> firebolt_api::Duration {
    firebolt_api::Duration::from_secs(seconds)
}

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a manifest as Kubernetes knows it")
}
