//! What others do to the objects of an instance: deleted ones are created again, changed fields are corrected, added
//! fields stay, and objects that are no longer desired are deleted.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::fixtures::sparse_sidecar;
use crate::instance::children::{CHILDREN, at};
use crate::instance::fixtures::{MAIN, instance, minimal};
use crate::instance::status_history::StatusHistory;
use crate::instance::testenv::{InstanceEnv, condition};

impl InstanceEnv {
    /// Waits until what has the name is another object than the one of that UID.
    pub(crate) async fn wait_for_another(&self, kind: &str, name: &str, uid: &str) {
        let another = async || {
            self.find(kind, name)
                .await
                .filter(|new| new.uid().as_deref() != Some(uid))
        };
        self.eventually(&format!("{kind} {name} is back"), another).await;
    }

    async fn wait_for_value(&self, kind: &str, name: &str, path: &str, value: &Value) {
        let repaired = async || (at(&self.known(kind, name).await, path) == *value).then_some(());
        self.eventually(&format!("{path} of {kind} {name} is {value}"), repaired)
            .await;
    }
}

/// Everything that is made for an instance, but for the password, which cannot be made again.
fn replaceable() -> impl Iterator<Item = (&'static str, String)> {
    let children = CHILDREN.into_iter().filter(|(kind, _, _)| *kind != "Secret");
    children.map(|(kind, rest, _)| (kind, format!("{MAIN}-{rest}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_objects_are_recreated() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    for (kind, name) in replaceable() {
        let old = env.remove(kind, &name).await;
        env.wait_for_another(kind, &name, &old).await;
    }
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_objects_are_recreated_if_all_are_deleted_at_once() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let mut all = Vec::new();
    for (kind, name) in replaceable() {
        all.push((kind, name.clone(), env.remove(kind, &name).await));
    }
    for (kind, name, old) in all {
        env.wait_for_another(kind, &name, &old).await;
    }
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

/// A value of another owner for a field of ours, in each object.
fn foreign_values() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let image = "/spec/template/spec/containers/0/image";
    let theirs = || json!("registry.example/theirs:1");
    vec![
        ("StatefulSet", "metadata-pg", image, theirs()),
        ("Service", "metadata-pg", "/spec/ports/0/port", json!(9999)),
        ("ConfigMap", "metadata-config", "/data/config.xml", json!("theirs")),
        ("Deployment", "metadata", image, theirs()),
        (
            "Deployment",
            "metadata",
            "/spec/template/metadata/annotations/firebolt.io~1credentials-hash",
            json!("theirs"),
        ),
        ("Service", "metadata", "/spec/ports/0/targetPort", json!(9999)),
        ("Service", "gateway", "/spec/ports/0/port", json!(8888)),
        (
            "Service",
            "gateway",
            "/spec/selector/firebolt.io~1component",
            json!("theirs"),
        ),
        (
            "ServiceAccount",
            "gateway",
            "/automountServiceAccountToken",
            json!(true),
        ),
        ("Role", "gateway-wake", "/rules/0/verbs", json!(["*"])),
        ("RoleBinding", "gateway-wake", "/subjects/0/name", json!("theirs")),
        ("ConfigMap", "gateway-config", "/data/envoy.yaml", json!("theirs")),
        ("Deployment", "gateway", image, theirs()),
        ("PodDisruptionBudget", "gateway", "/spec/maxUnavailable", json!(2)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_objects_are_repaired() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    for (kind, rest, path, theirs) in foreign_values() {
        let name = format!("{MAIN}-{rest}");
        let ours = at(&env.known(kind, &name).await, path);
        assert!(ours != theirs && !ours.is_null(), "{kind} {name} {path}: {ours}");
        env.change(kind, &name, path, &theirs).await;
        env.wait_for_value(kind, &name, path, &ours).await;
    }
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

/// Without labels, nothing tells the operator that an object is ours; it finds out when it makes another.
#[tokio::test(flavor = "multi_thread")]
async fn removed_labels_are_restored() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    for (kind, name) in replaceable() {
        let before = env.known(kind, &name).await;
        let none = json!({ "metadata": { "labels": null } });
        env.merge(kind, &name, none).await;
        let labels = json!(before.labels());
        env.wait_for_value(kind, &name, "/metadata/labels", &labels).await;
        assert_eq!(env.known(kind, &name).await.uid(), before.uid(), "{kind} {name}");
    }
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_added_by_others_are_kept() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let note =
        json!({ "metadata": { "annotations": { "example.com/note": "theirs" }, "labels": { "team": "theirs" } } });
    for (kind, name) in replaceable() {
        env.merge(kind, &name, note.clone()).await;
    }
    // As a service mesh does, and as `kubectl rollout restart` does.
    let with_sidecar = json!({ "spec": { "template": {
        "metadata": { "annotations": { "kubectl.kubernetes.io/restartedAt": "now" } },
        "spec": { "containers": [sparse_sidecar()] },
    } } });
    for (kind, rest) in [
        ("Deployment", "gateway"),
        ("Deployment", "metadata"),
        ("StatefulSet", "metadata-pg"),
    ] {
        let mut apply = with_sidecar.clone();
        apply["apiVersion"] = json!("apps/v1");
        apply["kind"] = json!(kind);
        let name = format!("{MAIN}-{rest}");
        let applied = env
            .any(kind)
            .patch(&name, &PatchParams::apply("mesh"), &Patch::Apply(&apply))
            .await;
        applied.unwrap();
    }
    let containers = async |kind: &str, name: &str| {
        let containers = at(&env.known(kind, name).await, "/spec/template/spec/containers");
        let names = containers
            .as_array()
            .unwrap()
            .iter()
            .map(|container| container["name"].clone());
        names.collect::<Vec<_>>()
    };
    // With all of that there, each is repaired all the same.
    for (kind, rest, path, theirs) in foreign_values() {
        let name = format!("{MAIN}-{rest}");
        let ours = at(&env.known(kind, &name).await, path);
        env.change(kind, &name, path, &theirs).await;
        env.wait_for_value(kind, &name, path, &ours).await;
    }
    for (kind, name) in replaceable() {
        let child = env.known(kind, &name).await;
        assert_eq!(child.annotations()["example.com/note"], "theirs", "{kind} {name}");
        assert_eq!(child.labels()["team"], "theirs", "{kind} {name}");
    }
    for (kind, name, own) in [
        ("Deployment", "main-gateway", "envoy"),
        ("Deployment", "main-metadata", "metadata"),
        ("StatefulSet", "main-metadata-pg", "postgresql"),
    ] {
        let names = containers(kind, name).await;
        assert!(
            names.contains(&json!(own)) && names.contains(&json!("side")),
            "{kind} {name}: {names:?}"
        );
        let restarted = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt";
        assert_eq!(at(&env.known(kind, name).await, restarted), "now");
    }
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

/// What a user may add to the pods of a component.
fn template(container: &str) -> Value {
    json!({
        "metadata": { "labels": { "team": "data" }, "annotations": { "example.com/note": "ours" } },
        "spec": {
            "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
            "terminationGracePeriodSeconds": null,
            "containers": [{ "name": container, "image": "registry.example/chosen:1" }, sparse_sidecar()],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_removed_from_the_spec_are_removed_from_the_objects() {
    let env = InstanceEnv::start().await;
    let desired = instance(
        MAIN,
        &json!({ "template": template("metadata") }),
        &json!({ "template": template("envoy"), "replicas": 1 }),
    );
    env.deploy(&desired).await;
    let pod = "/spec/template";
    let added = [
        "/metadata/labels/team",
        "/metadata/annotations/example.com~1note",
        "/spec/tolerations",
    ];
    // Behind the containers of the operator, of which a gateway has two.
    let sidecars = [
        ("main-metadata", "/spec/containers/1"),
        ("main-gateway", "/spec/containers/2"),
    ];
    for (name, sidecar) in sidecars {
        let deployment = env.known("Deployment", name).await;
        for path in added.into_iter().chain([sidecar]) {
            assert_ne!(at(&deployment, &format!("{pod}{path}")), Value::Null, "{name} {path}");
        }
        assert_eq!(
            at(&deployment, "/spec/template/spec/containers/0/image"),
            "registry.example/chosen:1"
        );
    }
    let nothing =
        json!({ "spec": { "metadata": { "template": null }, "gateway": { "template": null, "replicas": null } } });
    env.edit_instance(MAIN, nothing).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    for (name, sidecar) in sidecars {
        for path in added.into_iter().chain([sidecar]) {
            env.wait_for_value("Deployment", name, &format!("{pod}{path}"), &Value::Null)
                .await;
        }
        let image = at(
            &env.known("Deployment", name).await,
            "/spec/template/spec/containers/0/image",
        );
        assert_ne!(image, "registry.example/chosen:1");
    }
    env.wait_for_value("Deployment", "main-gateway", "/spec/replicas", &json!(2))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_annotations_cause_no_writes() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    env.wait_until_no_reconcile_is_scheduled().await;
    let history = StatusHistory::of(&env, MAIN).await;
    let before = env.mark();
    for (kind, name) in replaceable() {
        let note = json!({ "metadata": { "annotations": { "example.com/note": "theirs" } } });
        env.merge(kind, &name, note).await;
    }
    env.force_reconcile(MAIN).await;
    let writes = before.writes_but_events(&env.namespace);
    assert_eq!(
        writes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["create configmaps main-gateway-config -> 201"]
    );
    assert_eq!(history.phases(&env).await, [InstancePhase::Ready]);
    let instance = env.the::<FireboltInstance>(MAIN).await;
    assert_eq!(condition(&instance, InstanceCondition::Ready).status, "True");
}
