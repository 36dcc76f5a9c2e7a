//! Fields that are no longer rendered are removed, and no others.

use firebolt_api::FireboltInstance;
use firebolt_api::key::FIELD_MANAGER;
use firebolt_runtime::ReconcileError;
use firebolt_runtime::leader::{ElectionStatus, Leadership};
use firebolt_runtime::write::{Child, Expectations, FieldOwnership, WriteAccess, WriteMetrics, Writer};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use localkube::Cluster;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::components::operator_client;
use crate::support::namespace;

/// Writes as the operator does when it reconciles an instance.
struct WriterEnv {
    cluster: Cluster,
    client: Client,
    namespace: String,
    access: WriteAccess,
    expectations: Expectations<FireboltInstance>,
}

impl WriterEnv {
    async fn new() -> Self {
        let cluster = Cluster::attach();
        let (_, reports) = watch::channel(ElectionStatus::LEADER);
        let client = operator_client(&cluster).await;
        Self {
            access: WriteAccess {
                client: client.clone(),
                leadership: Leadership::new(reports),
                field_manager: FIELD_MANAGER,
                metrics: WriteMetrics::default(),
            },
            client,
            namespace: namespace(&cluster).await,
            cluster,
            expectations: Expectations::default(),
        }
    }

    fn writer(&mut self) -> Writer<'_, FireboltInstance> {
        let mut root = FireboltInstance::default();
        root.metadata.namespace = Some(self.namespace.clone());
        Writer::new(&self.access, root, &mut self.expectations)
    }

    /// An object of this kind in the namespace of the test.
    fn object<K: Child>(&self, name: &str, mut body: Value) -> K {
        body["metadata"]["name"] = json!(name);
        body["metadata"]["namespace"] = json!(self.namespace);
        serde_json::from_value(body).unwrap()
    }

    async fn live<K: Child>(&self, name: &str) -> K {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        api.get(name).await.unwrap()
    }

    /// Another field manager sets fields of an object.
    async fn meddle(&self, name: &str, fields: Value) {
        let admin = self.cluster.client().await.unwrap();
        let api: Api<Deployment> = Api::namespaced(admin, &self.namespace);
        let another = PatchParams {
            field_manager: Some("another-manager".to_owned()),
            ..PatchParams::default()
        };
        api.patch(name, &another, &Patch::Strategic(fields)).await.unwrap();
    }

    /// Creates the object, applies the same once more with everything handed over, and returns what was stored before and
    /// after.
    async fn hand_over<K: Child>(&mut self, name: &str, body: Value) -> [K; 2] {
        let rendered: K = self.object(name, body);
        let created = self.writer().create(&rendered).await.unwrap();
        let uid = created.uid().unwrap();
        let before = self.live::<K>(name).await;
        assert_eq!(
            FieldOwnership::of(before.meta(), FIELD_MANAGER),
            FieldOwnership::Created
        );
        let applied = self
            .writer()
            .apply(rendered, &uid, FieldOwnership::Created)
            .await
            .unwrap();
        assert_eq!(
            FieldOwnership::of(applied.meta(), FIELD_MANAGER),
            FieldOwnership::Applied,
            "{:?}",
            applied.managed_fields()
        );
        [before, applied]
    }

    async fn assert_unchanged<K: Child>(&mut self, name: &str, body: Value) {
        let stored = Box::pin(self.hand_over::<K>(name, body)).await.map(|mut object| {
            object.managed_fields_mut().clear();
            object.meta_mut().resource_version = None;
            let mut object = serde_json::to_value(object).unwrap();
            // Here the controllers of Kubernetes write while the test runs.
            (object["status"], object["metadata"]["annotations"]) = (Value::Null, Value::Null);
            object
        });
        assert_eq!(stored[0], stored[1]);
    }
}

impl Drop for WriterEnv {
    fn drop(&mut self) {
        let _best_effort = self
            .cluster
            .kubectl(&["delete", "namespace", &self.namespace, "--wait=false"]);
    }
}

/// A Deployment with some parts that come and go.
fn gateway(with: bool) -> Value {
    let labels = |extra: bool| {
        let mut labels = json!({ "app": "gateway" });
        if extra {
            labels["extra"] = json!("label");
        }
        labels
    };
    let tolerations = if with {
        json!([{ "key": "spot", "operator": "Exists" }])
    } else {
        Value::Null
    };
    let annotations = if with {
        json!({ "extra": "annotation" })
    } else {
        Value::Null
    };
    let env = if with {
        json!([{ "name": "EXTRA", "value": "1" }])
    } else {
        Value::Null
    };
    json!({
        "metadata": { "labels": labels(with) },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": "gateway" } },
            "template": {
                "metadata": { "labels": labels(false), "annotations": annotations },
                "spec": { "containers": [{ "name": "envoy", "image": "envoy:1", "env": env }], "tolerations": tolerations },
            },
        },
    })
}

/// Which of the parts that come and go are there.
fn extras(deployment: &Deployment) -> [bool; 4] {
    let template = &deployment.spec.as_ref().unwrap().template;
    let pod = template.spec.as_ref().unwrap();
    let metadata = template.metadata.as_ref().unwrap();
    let has = |container: &str| {
        let found = pod.containers.iter().find(|known| known.name == container);
        found.and_then(|found| found.env.as_ref()).is_some()
    };
    [
        deployment.labels().contains_key("extra"),
        metadata.annotations.iter().flatten().any(|(key, _)| key == "extra"),
        has("envoy"),
        pod.tolerations
            .iter()
            .flatten()
            .any(|toleration| toleration.key.as_deref() == Some("spot")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_no_longer_rendered_are_removed_and_foreign_fields_kept() {
    let mut env = WriterEnv::new().await;
    let with: Deployment = env.object("gateway", gateway(true));
    let created = env.writer().create(&with).await.unwrap();
    assert_eq!(extras(&created), [true; 4]);
    let theirs = json!({
        "metadata": { "annotations": { "owner": "another" } },
        "spec": { "template": { "spec": { "containers": [{ "name": "sidecar", "image": "sidecar:1" }] } } },
    });
    env.meddle("gateway", theirs).await;
    let seen: Deployment = env.live("gateway").await;
    let without: Deployment = env.object("gateway", gateway(false));
    let fields = FieldOwnership::of(&seen.metadata, FIELD_MANAGER);
    let uid = seen.uid().unwrap();
    let applied = env.writer().apply(without, &uid, fields).await.unwrap();
    assert_eq!(extras(&applied), [false; 4]);
    let pod = applied.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    let mut names: Vec<_> = pod.containers.iter().map(|container| container.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["envoy", "sidecar"]);
    assert_eq!(applied.annotations().get("owner").map(String::as_str), Some("another"));
    // From here on, applying alone is enough.
    assert_eq!(
        FieldOwnership::of(&applied.metadata, FIELD_MANAGER),
        FieldOwnership::Applied
    );
    let with: Deployment = env.object("gateway", gateway(true));
    let again = env.writer().apply(with, &uid, FieldOwnership::Applied).await.unwrap();
    assert_eq!(extras(&again), [true; 4]);
    let without: Deployment = env.object("gateway", gateway(false));
    let last = env
        .writer()
        .apply(without, &uid, FieldOwnership::Applied)
        .await
        .unwrap();
    assert_eq!(extras(&last), [false; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_merging_managed_fields_removed_fields_stay() {
    let mut env = WriterEnv::new().await;
    let with: Deployment = env.object("gateway", gateway(true));
    let uid = env.writer().create(&with).await.unwrap().uid().unwrap();
    let without: Deployment = env.object("gateway", gateway(false));
    let applied = env
        .writer()
        .apply(without, &uid, FieldOwnership::Applied)
        .await
        .unwrap();
    assert_eq!(extras(&applied), [true; 4]);
    assert_eq!(
        FieldOwnership::of(&applied.metadata, FIELD_MANAGER),
        FieldOwnership::Created,
        "and it shows"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn merging_managed_fields_changes_nothing_else() {
    let mut env = WriterEnv::new().await;
    env.assert_unchanged::<Deployment>("deployment", gateway(true)).await;
    let claim = json!({ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "10Gi" } },
    } });
    let mut set = gateway(true);
    set["spec"]["serviceName"] = json!("set");
    set["spec"]["volumeClaimTemplates"] = json!([claim]);
    env.assert_unchanged::<StatefulSet>("set", set).await;
    let service = json!({ "spec": { "selector": { "app": "a" }, "ports": [{ "name": "http", "port": 80 }] } });
    env.assert_unchanged::<Service>("service", service).await;
    let headless = json!({ "spec": { "clusterIP": "None", "selector": { "app": "a" }, "ports": [{ "port": 80 }] } });
    env.assert_unchanged::<Service>("headless", headless).await;
    env.assert_unchanged::<ConfigMap>("config", json!({ "data": { "a": "b" } }))
        .await;
    env.assert_unchanged::<ServiceAccount>("account", json!({ "automountServiceAccountToken": false }))
        .await;
    let rule = json!({ "apiGroups": [firebolt_api::GROUP], "resources": ["fireboltengines"], "verbs": ["get", "list", "patch"] });
    env.assert_unchanged::<Role>("role", json!({ "rules": [rule] })).await;
    let account = json!({ "kind": "ServiceAccount", "name": "account", "namespace": env.namespace });
    let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "role" });
    env.assert_unchanged::<RoleBinding>("binding", json!({ "subjects": [account], "roleRef": reference }))
        .await;
    let budget = json!({ "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "a" } } } });
    env.assert_unchanged::<PodDisruptionBudget>("budget", budget).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_object_of_the_same_name_is_neither_taken_over_nor_changed() {
    let mut env = WriterEnv::new().await;
    let rendered: ConfigMap = env.object("config", json!({ "data": { "a": "b" } }));
    env.writer().create(&rendered).await.unwrap();
    let before: ConfigMap = env.live("config").await;
    let mut other = rendered.clone();
    other.data = Some([("a".to_owned(), "c".to_owned())].into());
    for fields in [FieldOwnership::Created, FieldOwnership::Applied] {
        let error = env.writer().apply(other.clone(), "another", fields).await.unwrap_err();
        assert_eq!(error.class(), firebolt_runtime::ErrorClass::Conflict, "{error}");
    }
    assert_eq!(env.live::<ConfigMap>("config").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_with_a_resource_version_fails_on_any_other_version() {
    let mut env = WriterEnv::new().await;
    let rendered: ConfigMap = env.object("config", json!({ "data": { "a": "b" } }));
    let created = env.writer().create(&rendered).await.unwrap();
    let uid = created.uid().unwrap();
    let mut guarded = rendered.clone();
    guarded.data = Some([("a".to_owned(), "c".to_owned())].into());
    guarded.metadata.resource_version = Some("1".to_owned());
    let error = env
        .writer()
        .apply(guarded.clone(), &uid, FieldOwnership::Created)
        .await
        .unwrap_err();
    assert!(matches!(error, ReconcileError::Conflict { .. }), "{error}");
    // Handing over makes a new version, which must not count as a change by another client.
    guarded.metadata.resource_version = created.resource_version();
    let applied = env
        .writer()
        .apply(guarded, &uid, FieldOwnership::Created)
        .await
        .unwrap();
    assert_eq!(applied.data.unwrap()["a"], "c");
    let managers: Vec<_> = applied.metadata.managed_fields.iter().flatten().collect();
    assert_eq!(managers.len(), 1);
    assert_eq!(managers[0].manager.as_deref(), Some(FIELD_MANAGER));
}
