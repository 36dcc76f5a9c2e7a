//! The test environment with an agent: Envoy and agent run as the operator renders them, with the account that it
//! renders.

#![expect(
    clippy::disallowed_methods,
    reason = "a test writes to the cluster as people and the operator do"
)]

use std::path::PathBuf;
use std::time::Duration;

use e2e::agent::Agent;
use e2e::api_server::ApiServer;
use e2e::dns::Dns;
use e2e::envoy::Envoy;
use e2e::wait::eventually;
use firebolt_api::{FireboltEngine, FireboltInstance};
use firebolt_core::render::instance::{
    gateway_config_map, gateway_deployment, gateway_role, gateway_role_binding, gateway_service_account,
};
use firebolt_core::resolve::Defaults;
use firebolt_core::resolve::instance::{EffectiveInstance, resolve};
use futures::StreamExt;
use futures::stream::iter;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stand_ins::engine::Engine;

use crate::testenv::client::ask;
use crate::testenv::{DOMAIN, METRICS_PORT, address, pod};

/// The instance of the gateway.
const INSTANCE: &str = "main";
const WAKE_ANNOTATION: &str = "firebolt.io/wake-requested";

/// A running gateway with its agent.
pub(crate) struct WakingEnv {
    pub api: ApiServer,
    pub envoy: Envoy,
    pub agent: Agent,
    pub dns: Dns,
    client: Client,
    namespace: String,
}

/// Options of a gateway.
pub(crate) struct Options {
    /// How long queries are held.
    pub wake_timeout: Duration,
    /// The memory limit of held queries, in place of the one of the operator.
    pub hold_memory: Option<u64>,
    /// The verbs of its Role, in place of those of the operator.
    pub verbs: Option<&'static [&'static str]>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // Longer than any test.
            wake_timeout: Duration::from_mins(10),
            hold_memory: None,
            verbs: None,
        }
    }
}

impl WakingEnv {
    /// Starts a gateway as the operator renders it, but with a long timeout.
    pub(crate) async fn start() -> Self {
        Self::with(Options::default()).await
    }

    /// Starts a gateway.
    pub(crate) async fn with(options: Options) -> Self {
        Self::begin(options).await.after_first_list().await
    }

    async fn begin(options: Options) -> Self {
        let api = ApiServer::reach().await;
        let client = api.cluster().client().await.expect("connect to the API server");
        let namespace = testkit::cluster::namespace(&client, "wake").await;
        let instance = instance(&client, &namespace, &options).await;
        let account = account(&api, &client, &instance, options.verbs).await;
        let config = gateway_config_map(&instance);
        let config = config.data.and_then(|data| data.into_values().next());
        let mut arguments = agent_arguments(&instance);
        if let Some(memory) = options.hold_memory {
            let given = arguments
                .iter_mut()
                .find(|argument| argument.starts_with("--hold-memory="));
            *given.expect("a gateway says what may be held") = format!("--hold-memory={memory}");
        }
        Self {
            dns: Dns::start(&format!("{namespace}.svc.{DOMAIN}")).await,
            agent: Agent::start(&arguments, &account).await,
            envoy: Envoy::start(&config.expect("a gateway has a configuration")).await,
            api,
            client,
            namespace,
        }
    }

    /// Starts a gateway whose account has no rights.
    pub(crate) async fn without_rights() -> Self {
        Self::begin(Options {
            verbs: Some(&["watch"]),
            ..Options::default()
        })
        .await
    }

    /// The namespace of the instance.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Waits until the agent has listed the engines: before that, it fails open.
    async fn after_first_list(self) -> Self {
        eventually("the agent has listed engines", async || {
            self.agent.metric("synced", "").await == 1
        })
        .await;
        self
    }

    /// Creates an engine that auto-stop has stopped.
    pub(crate) async fn stopped(&self, name: &str) {
        self.create(name, INSTANCE, 0).await;
        self.report(name, "stopped", "Stopped").await;
    }

    /// Creates an engine that a user has stopped.
    pub(crate) async fn stopped_for_good(&self, name: &str) {
        self.create(name, INSTANCE, 0).await;
        self.report(name, "stopped", "Disabled").await;
    }

    /// Creates a stopped engine of another instance of the same namespace.
    pub(crate) async fn stopped_elsewhere(&self, name: &str) {
        self.create(name, "other", 0).await;
        self.report(name, "stopped", "Stopped").await;
    }

    /// Creates an engine that runs, with one pod.
    pub(crate) async fn running(&mut self, name: &str, last: u8) -> Engine {
        self.create(name, INSTANCE, 1).await;
        self.starts(name, last).await
    }

    /// Does what the operator and the kubelet do for a wake: the engine gets a pod, and then its status says so.
    pub(crate) async fn starts(&mut self, name: &str, last: u8) -> Engine {
        self.set_replicas(name, 1).await;
        let engine = self.becomes_reachable(name, last).await;
        self.report(name, "stable", "WakeRequested").await;
        engine
    }

    /// Starts a pod of the engine, without a change at the API server.
    pub(crate) async fn becomes_reachable(&mut self, name: &str, last: u8) -> Engine {
        let engine = pod(name, last).await;
        self.dns.set(&format!("{name}-service"), [address(last)]).await;
        engine
    }

    /// Sets the replicas, as the operator does when it wakes an engine.
    pub(crate) async fn set_replicas(&self, name: &str, replicas: i32) {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let engines = self.api_of::<FireboltEngine>();
        engines
            .patch(name, &PatchParams::default(), &patch)
            .await
            .expect("set the replicas");
    }

    /// Writes the status of an engine, as the operator does.
    pub(crate) async fn report(&self, name: &str, phase: &str, auto_stop: &str) {
        let ready = if phase == "stable" { "True" } else { "False" };
        let condition = json!({
            "type": "Ready", "status": ready, "reason": "Test", "message": "", "lastTransitionTime": "2026-11-01T00:00:00Z",
        });
        let status = json!({
            "currentGeneration": 1, "activeGeneration": 1, "phase": phase, "autoStopReason": auto_stop,
            "conditions": [condition],
        });
        let engines = self.api_of::<FireboltEngine>();
        engines
            .patch_status(
                name,
                &PatchParams::default(),
                &Patch::Merge(json!({ "status": status })),
            )
            .await
            .expect("write a status");
    }

    /// The time in the wake annotation.
    pub(crate) async fn wake_requested(&self, name: &str) -> Option<String> {
        let engine = self.api_of::<FireboltEngine>().get(name).await.expect("read an engine");
        engine.metadata.annotations?.remove(WAKE_ANNOTATION)
    }

    /// Waits until a wake of the engine is requested.
    pub(crate) async fn until_wake_requested(&self, name: &str) -> String {
        let mut found = None;
        eventually("the gateway requests a wake", async || {
            found = self.wake_requested(name).await;
            found.is_some()
        })
        .await;
        found.expect("it was just found")
    }

    /// Waits until Envoy calls the agent again: from then on, unknown engines are refused by the agent.
    pub(crate) async fn until_asked(&self) {
        eventually("Envoy asks the agent", async || ask("unknown").await.status == 404).await;
    }

    /// Waits until this many queries are held.
    pub(crate) async fn until_waiting(&self, count: u64) {
        eventually(&format!("{count} queries wait"), async || {
            self.agent.metric("waiting", "").await == count
        })
        .await;
    }

    /// Creates many engines that auto-stop has stopped.
    pub(crate) async fn stopped_crowd(&self, names: &[String]) {
        let create = |name: &String| {
            let name = name.clone();
            async move { self.stopped(&name).await }
        };
        iter(names).map(create).buffer_unordered(32).collect::<()>().await;
    }

    /// The number of engines with a wake request.
    pub(crate) async fn asked_for(&self) -> usize {
        let engines = self.api_of::<FireboltEngine>().list(&ListParams::default()).await;
        let engines = engines.expect("list the engines").items.into_iter();
        let asked = |engine: &FireboltEngine| engine.annotations().contains_key(WAKE_ANNOTATION);
        engines.filter(asked).count()
    }

    async fn create(&self, name: &str, instance: &str, replicas: i32) {
        let engine = object(json!({
            "apiVersion": "compute.firebolt.io/v1alpha1",
            "kind": "FireboltEngine",
            "metadata": { "name": name },
            "spec": {
                "instanceRef": instance, "replicas": replicas,
                "autoStop": { "enabled": true, "activeReplicas": 1 },
            },
        }));
        create(&self.api_of::<FireboltEngine>(), &engine).await;
    }

    fn api_of<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object of its kind")
}

async fn create<K>(api: &Api<K>, object: &K) -> K
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), object)
        .await
        .expect("create an object")
}

/// The instance, as created in the cluster: it owns its objects.
async fn instance(client: &Client, namespace: &str, options: &Options) -> EffectiveInstance {
    let desired: FireboltInstance = object(json!({
        "apiVersion": "compute.firebolt.io/v1alpha1",
        "kind": "FireboltInstance",
        "metadata": { "name": INSTANCE },
        "spec": {
            "metadata": {},
            "gateway": { "metricsPort": METRICS_PORT, "wakeTimeout": format!("{}ms", options.wake_timeout.as_millis()) },
        },
    }));
    let created = create(&Api::namespaced(client.clone(), namespace), &desired).await;
    let defaults = Defaults {
        cluster_domain: DOMAIN.to_owned(),
        ..testkit::defaults!()
    };
    resolve(&created, &defaults, false)
}

/// The kubeconfig of the account of the gateway.
async fn account(api: &ApiServer, client: &Client, instance: &EffectiveInstance, verbs: Option<&[&str]>) -> PathBuf {
    let namespace = &instance.namespace;
    let mut role: Role = gateway_role(instance);
    if let Some(verbs) = verbs {
        let rules = role.rules.as_mut().expect("a role has rules");
        rules[0].verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
    }
    let binding: RoleBinding = gateway_role_binding(instance);
    let account: ServiceAccount = gateway_service_account(instance);
    create(&Api::namespaced(client.clone(), namespace), &role).await;
    create(&Api::namespaced(client.clone(), namespace), &binding).await;
    let account = create(&Api::namespaced(client.clone(), namespace), &account).await;
    let name = account.metadata.name.expect("an account has a name");
    let kubeconfig = api.cluster().service_account_kubeconfig(namespace, &name).await;
    kubeconfig.expect("get a token")
}

fn agent_arguments(instance: &EffectiveInstance) -> Vec<String> {
    let template = gateway_deployment(instance)
        .spec
        .expect("a Deployment has a spec")
        .template;
    let containers = template.spec.expect("a template has a spec").containers;
    let agent = containers.into_iter().find(|container| container.name == "wake-agent");
    agent.and_then(|agent| agent.args).expect("the agent has arguments")
}
