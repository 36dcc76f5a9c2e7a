//! The test environment: a namespace of its own, which enforces the `restricted` pod security standard.

use std::fmt::Debug;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use localkube::{Cluster, Node};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stand_ins::load::Ledger;

use super::fixture::{Engine, Instance};
use super::report;

/// The timeout for anything that should happen soon, on a small and busy machine.
const PATIENCE: Duration = Duration::from_mins(4);
const POLL: Duration = Duration::from_millis(100);
/// The address of the node, where pods reach what this process serves.
const NODE: &str = Node::First.address();
/// The field manager of tests.
const FIELD_MANAGER: &str = "a-person";

/// A kind of object that lives in a namespace.
pub trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned
{
}

/// A namespace with what a test needs to act in it. It is deleted in the background when the test succeeds; when it
/// fails, its objects, events and logs are printed, and the namespace stays.
pub struct TestEnv {
    cluster: Cluster,
    client: Client,
    namespace: String,
    ledger: Ledger,
}

impl TestEnv {
    /// An empty namespace.
    pub async fn empty() -> Self {
        let cluster = Cluster::attach();
        let client = cluster.client().await.expect("connect to the API server");
        Self {
            namespace: create_namespace(&client).await,
            ledger: Ledger::bind((NODE.parse::<IpAddr>().expect("an address"), 0).into())
                .await
                .expect("serve a ledger on the address of the node"),
            cluster,
            client,
        }
    }

    /// A namespace with an instance that is ready.
    pub async fn with_instance() -> Self {
        Self::with(&Instance::new()).await
    }

    /// A namespace with this instance, which is ready.
    pub async fn with(instance: &Instance) -> Self {
        let env = Self::empty().await;
        env.apply(instance).await;
        env.instance_is_ready().await;
        env
    }

    /// The cluster of the tests.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The name of the namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The queries that the engines of this environment executed.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The pods that executed a query, in order. More than one is an error.
    #[must_use]
    pub fn executed_by(&self, id: &str) -> Vec<String> {
        self.ledger.executions().remove(id).unwrap_or_default()
    }

    /// An engine with one replica for this environment, to be changed and applied.
    #[must_use]
    pub fn engine(&self, name: &str) -> Engine {
        Engine::new(name, &self.ledger.url())
    }

    /// Writes a manifest as `kubectl apply --server-side` does.
    pub async fn apply<K: Namespaced>(&self, object: &impl AsRef<K>) -> K {
        let object = object.as_ref();
        let (name, api) = (object.name_any(), self.api::<K>());
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let what = format!("apply {} {name}", K::kind(&()));
        self.patiently(&what, async || {
            api.patch(&name, &parameters, &Patch::Apply(object)).await
        })
        .await
    }

    /// Edits an object as a user would, with a JSON merge patch.
    pub async fn edit<K: Namespaced>(&self, name: &str, patch: Value) -> K {
        let api = self.api::<K>();
        let what = format!("edit {} {name} with {patch}", K::kind(&()));
        let parameters = PatchParams::default();
        self.patiently(&what, async || {
            api.patch(name, &parameters, &Patch::Merge(&patch)).await
        })
        .await
    }

    /// Deletes an object, without waiting until it is gone.
    pub async fn delete<K: Namespaced>(&self, name: &str) {
        let api = self.api::<K>();
        let what = format!("delete {} {name}", K::kind(&()));
        self.patiently(&what, async || match api.delete(name, &DeleteParams::default()).await {
            // It was deleted, and the response was lost.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            deleted => deleted.map(drop),
        })
        .await;
    }

    /// The object, if it exists.
    pub async fn find<K: Namespaced>(&self, name: &str) -> Option<K> {
        let api = self.api::<K>();
        let what = format!("get {} {name}", K::kind(&()));
        self.patiently(&what, async || api.get_opt(name).await).await
    }

    /// The object, which has to exist.
    pub async fn get<K: Namespaced>(&self, name: &str) -> K {
        let found = self.find(name).await;
        found.unwrap_or_else(|| panic!("there is no {} {name}", K::kind(&())))
    }

    /// The objects of a kind whose labels match.
    pub async fn list<K: Namespaced>(&self, labels: &str) -> Vec<K> {
        let (api, parameters) = (self.api::<K>(), ListParams::default().labels(labels));
        let what = format!("list {}", K::plural(&()));
        self.patiently(&what, async || api.list(&parameters).await).await.items
    }

    /// The API of a kind in this namespace, for what has no method here.
    #[must_use]
    pub fn api<K: Namespaced>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The output of kubectl for the namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> localkube::Result<String> {
        self.cluster.kubectl(&[arguments, &["-n", &self.namespace]].concat())
    }

    /// A client with the rights of the administrator.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Polls until there is a value. The description is for the failure.
    pub async fn eventually<T>(&self, sentence: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {sentence}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the object satisfies the condition.
    pub async fn becomes<K: Namespaced>(&self, name: &str, sentence: &str, is: impl Fn(&K) -> bool) -> K {
        let sentence = format!("{} {name} {sentence}", K::kind(&()));
        let found = async || self.find::<K>(name).await.filter(&is);
        self.eventually(&sentence, found).await
    }

    /// Waits until the object is gone.
    pub async fn vanishes<K: Namespaced>(&self, name: &str) {
        let sentence = format!("{} {name} is gone", K::kind(&()));
        let gone = async || self.find::<K>(name).await.is_none().then_some(());
        self.eventually(&sentence, gone).await;
    }

    /// Retries a request that may fail temporarily, because the API server or a webhook is not available.
    async fn patiently<T>(&self, what: &str, mut attempt: impl AsyncFnMut() -> kube::Result<T>) -> T {
        let start = Instant::now();
        loop {
            match attempt().await {
                Ok(done) => return done,
                Err(error) if passes(&error) && start.elapsed() < PATIENCE => tokio::time::sleep(POLL).await,
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        if thread::panicking() {
            report::print(&self.cluster, &self.namespace);
        } else if let Err(error) = self
            .cluster
            .kubectl(&["delete", "namespace", &self.namespace, "--wait=false"])
        {
            eprintln!("delete namespace {}: {error}", self.namespace);
        }
    }
}

/// Whether the request may succeed if it is retried.
fn passes(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        // The connection could not be made, or broke.
        _ => true,
    }
}

async fn create_namespace(client: &Client) -> String {
    let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    // A generated name: a cluster that is kept for days sees many runs.
    let namespace = json!({ "metadata": { "generateName": "e2e-", "labels": labels } });
    let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
    let created = Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await;
    created.expect("create a namespace").name_any()
}
