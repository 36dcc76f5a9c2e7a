//! A namespace on the shared cluster with our CRDs, and helpers that create and apply objects there.

use std::sync::atomic::{AtomicU32, Ordering};

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use localkube::Cluster;
use serde_json::{Value, json};
use testkit::cluster::install_crds;
use tokio::sync::OnceCell;

/// The cluster as seen by a test. Each run has its own namespace, so that runs do not interfere.
pub(crate) struct Kube {
    pub cluster: Cluster,
    pub client: Client,
    pub namespace: String,
}

/// The shared cluster with our CRDs installed and a namespace for this process.
pub(crate) async fn kube() -> Kube {
    static NAMESPACE: OnceCell<String> = OnceCell::const_new();
    let cluster = Cluster::attach();
    let client = cluster.client().await.expect("connect as admin");
    let namespace = NAMESPACE.get_or_init(|| async {
        install_crds(&client).await;
        testkit::cluster::namespace(&client, "api").await
    });
    let namespace = namespace.await.clone();
    Kube {
        cluster,
        client,
        namespace,
    }
}

impl Kube {
    /// What the API server would store for a new object, or the message with which it rejects the object.
    pub(crate) async fn try_create(&self, manifest: &Value) -> Result<Value, String> {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        stored(self.api(manifest).create(&dry_run, &object(manifest.clone())).await)
    }

    /// Creates the object.
    pub(crate) async fn create(&self, manifest: &Value) -> Value {
        stored(
            self.api(manifest)
                .create(&PostParams::default(), &object(manifest.clone()))
                .await,
        )
        .expect("create")
    }

    /// Replaces an object that was read or created before with a changed one.
    pub(crate) async fn replace(&self, manifest: &Value) -> Result<Value, String> {
        let name = manifest["metadata"]["name"].as_str().expect("a name");
        stored(
            self.api(manifest)
                .replace(name, &PostParams::default(), &object(manifest.clone()))
                .await,
        )
    }

    /// Applies the object on the server for a field manager.
    pub(crate) async fn apply(&self, manager: &str, manifest: &Value) -> Result<Value, String> {
        let name = manifest["metadata"]["name"].as_str().expect("a name");
        stored(
            self.api(manifest)
                .patch(name, &PatchParams::apply(manager), &Patch::Apply(manifest))
                .await,
        )
    }

    fn api(&self, manifest: &Value) -> Api<DynamicObject> {
        let (group, version) = manifest["apiVersion"]
            .as_str()
            .expect("an apiVersion")
            .split_once('/')
            .unwrap_or(("", manifest["apiVersion"].as_str().expect("an apiVersion")));
        let kind = manifest["kind"].as_str().expect("a kind");
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource(group, version, kind))
    }
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    let gvk = GroupVersionKind::gvk(group, version, kind);
    match kind {
        // The guessed plural is wrong for this kind.
        "FireboltEngineClass" => ApiResource::from_gvk_with_plural(&gvk, "fireboltengineclasses"),
        _ => ApiResource::from_gvk(&gvk),
    }
}

fn object(manifest: Value) -> DynamicObject {
    serde_json::from_value(manifest).expect("a manifest")
}

fn stored(answer: kube::Result<DynamicObject>) -> Result<Value, String> {
    match answer {
        Ok(object) => Ok(serde_json::to_value(object).expect("an object is JSON")),
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(error) => panic!("the API server did not answer: {error}"),
    }
}

/// A name that no other test of this process uses.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A valid object of the kind with a unique name.
pub(crate) fn manifest(kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "compute.firebolt.io/v1alpha1",
        "kind": kind,
        "metadata": { "name": unique("t") },
        "spec": spec,
    })
}

pub(crate) fn engine() -> Value {
    manifest("FireboltEngine", &json!({ "instanceRef": "main", "replicas": 1 }))
}

pub(crate) fn instance() -> Value {
    manifest("FireboltInstance", &json!({ "metadata": {}, "gateway": {} }))
}

pub(crate) fn engine_class() -> Value {
    manifest("FireboltEngineClass", &json!({ "template": {} }))
}

/// Changes a manifest by dotted path. Missing parents are created.
pub(crate) trait Edit {
    fn with(self, path: &str, value: Value) -> Self;
    fn without(self, path: &str) -> Self;
}

impl Edit for Value {
    fn with(mut self, path: &str, value: Value) -> Self {
        let target = path.split('.').fold(&mut self, |at, key| &mut at[key]);
        *target = value;
        self
    }

    fn without(mut self, path: &str) -> Self {
        let (parent, key) = path.rsplit_once('.').expect("a path of several parts");
        let target = parent.split('.').fold(&mut self, |at, key| &mut at[key]);
        target
            .as_object_mut()
            .expect("an object")
            .remove(key)
            .expect("something to remove");
        self
    }
}

/// The value at a dotted path, if any.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |at, key| at.get(key))
}

/// Asserts that the API server rejects the manifest with a message that names the field and the cause.
pub(crate) async fn assert_rejected(manifest: Value, field: &str, message: &str) {
    match kube().await.try_create(&manifest).await {
        Ok(_) => panic!("accepted: {manifest:#}"),
        Err(refusal) => assert_message(&refusal, field, message),
    }
}

pub(crate) fn assert_message(refusal: &str, field: &str, message: &str) {
    assert!(
        refusal.contains(&format!("{field}: ")),
        "{field} is not named in: {refusal}"
    );
    assert!(refusal.contains(message), "{message:?} is not said in: {refusal}");
}
