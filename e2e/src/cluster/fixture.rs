//! Builders for the manifests of tests: `engine.clone().replicas(3).image(NEXT_ENGINE_IMAGE)`.
//!
//! Pods have very small resource requests, so that many test environments fit on one small node.

use firebolt_api::{
    ConfigFormat, FireboltEngine, FireboltEngineClass, FireboltEngineClassSpec, FireboltEngineSpec, FireboltInstance,
    FireboltInstanceSpec, GatewaySpec, MetadataSpec,
};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use serde_json::{Value, json};

/// The name of the instance that engines of tests belong to.
pub const INSTANCE: &str = "main";
/// Another image of the engine, with the same content.
pub const NEXT_ENGINE_IMAGE: &str = "ghcr.io/firebolt-db/engine:next";
/// Where an engine reports what it executes.
const LEDGER_VARIABLE: &str = "STAND_IN_LEDGER";

/// The manifest of an engine. A change results in a whole manifest, like a file that is edited and applied again.
#[derive(Clone, Debug)]
pub struct Engine(pub(super) FireboltEngine);

impl Engine {
    /// An engine with one replica that is drained quickly, and reports the queries that it executes to a ledger.
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

    /// With this many replicas.
    #[must_use]
    pub fn replicas(self, replicas: i32) -> Self {
        self.but(|spec| spec.replicas = replicas)
    }

    /// With a reference to this class.
    #[must_use]
    pub fn class(self, name: &str) -> Self {
        self.but(|spec| spec.engine_class_ref = Some(name.to_owned()))
    }

    /// With this image.
    #[must_use]
    pub fn image(self, image: &str) -> Self {
        self.but(|spec| container(spec.template.get_or_insert_default()).image = Some(image.to_owned()))
    }

    /// With one more environment variable. Those named `STAND_IN_…` make the stand-in misbehave.
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

    /// With auto-stop after this many idle seconds, and one replica otherwise.
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

/// The manifest of a class.
#[derive(Clone, Debug)]
pub struct Class(FireboltEngineClass);

impl Class {
    /// An empty class.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(FireboltEngineClass::new(name, FireboltEngineClassSpec::default()))
    }

    /// With this image for its engines.
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

/// The manifest of an instance.
#[derive(Clone, Debug)]
pub struct Instance(FireboltInstance);

impl Instance {
    /// An instance with a managed PostgreSQL and one gateway pod.
    #[must_use]
    pub fn new() -> Self {
        Self::named(INSTANCE)
    }

    /// The same with another name. Engines of tests do not belong to it.
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

    /// With this `wakeTimeout`, in seconds.
    #[must_use]
    pub fn wake_timeout(self, timeout: u64) -> Self {
        self.but(|spec| spec.gateway.wake_timeout = seconds(timeout))
    }

    /// With this many gateway pods.
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

/// A pod template with small resource requests for one container.
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
