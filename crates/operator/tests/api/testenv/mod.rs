//! What each test runs in: a namespace of its own with an instance for engines to refer to, the played node, and an
//! operator.

pub(crate) mod namespace;
#[cfg(test)]
mod tests;
mod wait;

use std::fmt::{Debug, Write as _};
use std::path::{Path, PathBuf};

use firebolt_api::condition::Condition;
use firebolt_api::key::Label;
use firebolt_api::name::EngineNames;
use firebolt_api::{FireboltEngine, FireboltEngineStatus};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use localkube::Cluster;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::audit::Mark;
use crate::fixtures::{Engine, INSTANCE, instance};
use crate::kubelet::Node;
use crate::support::cleanup::finish;
use crate::support::{OPERATOR_NAMESPACE, Operator, prepare, unique};

/// Everything that engines and instances consist of, but for passwords.
const EVERYTHING: &str = "fireboltengines,fireboltengineclasses,fireboltinstances,statefulsets,deployments,replicasets,pods,\
                          services,configmaps,serviceaccounts,roles,rolebindings,poddisruptionbudgets,\
                          persistentvolumeclaims,controllerrevisions";

/// A kind of object that lives in a namespace.
pub(crate) trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + 'static
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + 'static
{
}

/// One event of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventSummary {
    pub severity: String,
    pub reason: String,
    pub message: String,
}

pub(crate) struct TestEnv {
    pub cluster: Cluster,
    pub client: Client,
    pub namespace: String,
    pub node: &'static Node,
    kubeconfig: PathBuf,
    lease: String,
    operator: Option<Operator>,
}

impl TestEnv {
    /// An environment with a running operator.
    pub(crate) async fn start() -> Self {
        let mut env = Self::without_operator().await;
        env.start_operator();
        env
    }

    /// An environment for a test that starts the operator later, or never.
    pub(crate) async fn without_operator() -> Self {
        let env = Self::without_instance().await;
        env.create(&instance(INSTANCE)).await;
        env
    }

    /// An environment without an operator and without an instance.
    pub(crate) async fn without_instance() -> Self {
        static CLEARED: OnceCell<()> = OnceCell::const_new();
        let cluster = Cluster::attach();
        let client = cluster.client().await.unwrap();
        let kubeconfig = prepare(&cluster).await;
        CLEARED.get_or_init(|| namespace::clear_earlier(&client)).await;
        Self {
            namespace: namespace::create(&client).await,
            node: Node::get(),
            kubeconfig,
            lease: unique("test"),
            operator: None,
            client,
            cluster,
        }
    }

    /// An environment with an operator that is started with these flags as well.
    pub(crate) async fn start_with(more: &[&str]) -> Self {
        let mut env = Self::without_operator().await;
        env.start_operator_with(more);
        env
    }

    /// Starts the operator, or another one if it was stopped.
    pub(crate) fn start_operator(&mut self) {
        self.start_operator_with(&[]);
    }

    /// Starts the operator with more flags than usual.
    pub(crate) fn start_operator_with(&mut self, more: &[&str]) {
        let flags = ["--namespaces", &self.namespace, "--lease-name", &self.lease];
        let flags = [&flags, more].concat();
        self.operator = Some(Operator::start(&self.cluster, &self.kubeconfig, &flags));
    }

    /// The operator, which has to run.
    pub(crate) fn operator(&self) -> &Operator {
        self.operator.as_ref().expect("the operator runs")
    }

    /// The kubeconfig of the operator.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The lease that the operators of this test share.
    pub(crate) fn lease(&self) -> &str {
        &self.lease
    }

    /// Kills the operator.
    pub(crate) fn kill_operator(&mut self) {
        self.operator = None;
    }

    /// Whether the operator has neither been killed nor died.
    pub(crate) fn operator_runs(&mut self) -> bool {
        self.operator.as_mut().is_some_and(Operator::runs)
    }

    pub(crate) fn api<K: Namespaced>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn create<K: Namespaced>(&self, object: &K) -> K {
        let created = self.api::<K>().create(&PostParams::default(), object).await;
        created.unwrap_or_else(|error| panic!("create {}: {error}", object.name_any()))
    }

    /// Edits an object as a person would, with a JSON merge patch.
    pub(crate) async fn edit<K: Namespaced>(&self, name: &str, patch: Value) -> K {
        let edited = self
            .api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        edited.unwrap_or_else(|error| panic!("edit {name} with {patch}: {error}"))
    }

    pub(crate) async fn edit_engine(&self, name: &str, patch: Value) {
        self.edit::<FireboltEngine>(name, patch).await;
    }

    /// Sets the status of an object, as its controller would.
    pub(crate) async fn set_status<K: Namespaced>(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let set = self
            .api::<K>()
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        set.unwrap_or_else(|error| panic!("set the status of {name}: {error}"));
    }

    pub(crate) async fn delete<K: Namespaced>(&self, name: &str) {
        let deleted = self.api::<K>().delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("delete {name}: {error}"));
    }

    pub(crate) async fn get<K: Namespaced>(&self, name: &str) -> Option<K> {
        let found = self.api::<K>().get_opt(name).await;
        found.unwrap_or_else(|error| panic!("get {name}: {error}"))
    }

    /// The object, which has to be there.
    pub(crate) async fn the<K: Namespaced>(&self, name: &str) -> K {
        let found = self.get(name).await;
        found.unwrap_or_else(|| panic!("there is no {} {name}\n{}", K::kind(&()), self.dump()))
    }

    pub(crate) async fn list<K: Namespaced>(&self) -> Vec<K> {
        let listed = self.api::<K>().list(&ListParams::default()).await;
        listed
            .unwrap_or_else(|error| panic!("list {}: {error}", K::kind(&())))
            .items
    }

    pub(crate) async fn status(&self, engine: &str) -> FireboltEngineStatus {
        let status = self.the::<FireboltEngine>(engine).await.status;
        status.unwrap_or_else(|| panic!("engine {engine} has no status\n{}", self.dump()))
    }

    /// The generations of which there is a StatefulSet, in order.
    pub(crate) async fn generations(&self, engine: &str) -> Vec<i64> {
        let sets = self.list::<StatefulSet>().await;
        let of_engine = sets
            .iter()
            .filter(|set| set.labels().get(Label::Engine.key()).is_some_and(|it| it == engine));
        let number = |set: &StatefulSet| set.labels()[Label::Generation.key()].parse().expect("a number");
        let mut generations: Vec<i64> = of_engine.map(number).collect();
        generations.sort_unstable();
        generations
    }

    /// The events of the engine, oldest first.
    pub(crate) async fn events(&self, engine: &str) -> Vec<EventSummary> {
        self.events_about::<FireboltEngine>(engine).await
    }

    /// The events of the object, oldest first.
    pub(crate) async fn events_about<K: Namespaced>(&self, name: &str) -> Vec<EventSummary> {
        let mut events = self.list::<Event>().await;
        events.retain(|event| {
            let about = event.regarding.clone().unwrap_or_default();
            about.kind.as_deref() == Some(&*K::kind(&())) && about.name.as_deref() == Some(name)
        });
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        let reported = |event: Event| EventSummary {
            severity: event.type_.unwrap_or_default(),
            reason: event.reason.unwrap_or_default(),
            message: event.note.unwrap_or_default(),
        };
        events.into_iter().map(reported).collect()
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark::now(&self.cluster)
    }

    /// Creates the engine and waits until its first generation is stable.
    pub(crate) async fn deploy(&self, engine: &Engine) -> FireboltEngine {
        let name = self.create(&engine.0).await.name_any();
        self.wait_for_generation(&name, 0).await;
        self.the(&name).await
    }

    /// Makes the operator reconcile a stable engine, and waits until it has repaired the ConfigMap.
    pub(crate) async fn force_reconcile(&self, engine: &str, generation: i64) {
        let touch = json!({ "metadata": { "annotations": { "example.com/touched": unique("at") } } });
        self.edit_engine(engine, touch).await;
        let name = EngineNames(engine).config_map(generation);
        let old = self.the::<ConfigMap>(&name).await.uid();
        self.delete::<ConfigMap>(&name).await;
        let repaired = async || self.get::<ConfigMap>(&name).await.filter(|new| new.uid() != old);
        self.eventually(&format!("ConfigMap {name} is repaired"), repaired)
            .await;
    }

    /// The generation that queries go to.
    pub(crate) async fn routed_to(&self, engine: &str) -> Option<i64> {
        let service: Service = self.get(&EngineNames(engine).routing_service()).await?;
        let selector = service.spec?.selector?;
        selector.get(Label::Generation.key())?.parse().ok()
    }

    /// Everything that there is to see, for the failure of a test. The log of the operator follows when it is dropped.
    fn dump(&self) -> String {
        let mut text = String::new();
        let columns = [
            "get",
            "events.v1.events.k8s.io",
            "--sort-by=.eventTime",
            "-o",
            EVENT_COLUMNS,
        ];
        for arguments in [&["get", EVERYTHING, "-o", "yaml"][..], &columns] {
            let shown = self.kubectl(arguments);
            let _infallible = write!(text, "{}", shown.unwrap_or_else(|error| format!("{error}\n")));
        }
        let _infallible = write!(text, "errors of the node: {}", self.node.errors());
        text
    }

    /// The output of kubectl for the namespace.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> localkube::Result<String> {
        self.cluster.kubectl(&[arguments, &["-n", &self.namespace]].concat())
    }
}

const EVENT_COLUMNS: &str = "custom-columns=ABOUT:.regarding.name,TYPE:.type,REASON:.reason,NOTE:.note";

impl Drop for TestEnv {
    fn drop(&mut self) {
        // The namespace stays: to delete all of them would be a quarter of the work of the cluster. A later process
        // does it, should the cluster outlive this one.
        self.kill_operator();
        self.node.abandon(&self.namespace);
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        finish(async {
            let _best_effort = leases.delete(&self.lease, &DeleteParams::default()).await;
        });
    }
}

/// The `Ready` condition of the engine.
pub(crate) fn ready(engine: &FireboltEngine) -> Option<Condition> {
    let mut conditions = engine.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.type_ == "Ready").cloned()
}
