//! What others do to the objects of an instance: what is lost comes back, what is changed is put right, what is added
//! stays, and what is no longer wanted goes.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::chronicle::Chronicle;
use super::fixture::{MAIN, instance, minimal};
use super::inventory::{CHILDREN, at};
use super::stage::{Stage, condition};
use crate::fixture::sparse_sidecar;

impl Stage {
    /// Waits until what has the name is another object than the one of that UID.
    pub async fn wait_for_another(&self, kind: &str, name: &str, uid: &str) {
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
async fn whatever_is_deleted_comes_back() {
    let stage = Stage::deployed(&minimal(MAIN)).await;
    for (kind, name) in replaceable() {
        let old = stage.remove(kind, &name).await;
        stage.wait_for_another(kind, &name, &old).await;
    }
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_comes_back_if_everything_is_deleted_at_once() {
    let stage = Stage::deployed(&minimal(MAIN)).await;
    let mut all = Vec::new();
    for (kind, name) in replaceable() {
        all.push((kind, name.clone(), stage.remove(kind, &name).await));
    }
    for (kind, name, old) in all {
        stage.wait_for_another(kind, &name, &old).await;
    }
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

/// A value of somebody else for a field of ours, in each object.
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
async fn whatever_is_changed_is_put_right() {
    let stage = Stage::deployed(&minimal(MAIN)).await;
    for (kind, rest, path, theirs) in foreign_values() {
        let name = format!("{MAIN}-{rest}");
        let ours = at(&stage.known(kind, &name).await, path);
        assert!(ours != theirs && !ours.is_null(), "{kind} {name} {path}: {ours}");
        stage.change(kind, &name, path, &theirs).await;
        stage.wait_for_value(kind, &name, path, &ours).await;
    }
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

/// Without labels, nothing tells the operator that an object is ours; it finds out when it makes another.
#[tokio::test(flavor = "multi_thread")]
async fn labels_that_are_taken_away_are_put_back() {
    let stage = Stage::deployed(&minimal(MAIN)).await;
    for (kind, name) in replaceable() {
        let before = stage.known(kind, &name).await;
        let none = json!({ "metadata": { "labels": null } });
        stage.merge(kind, &name, none).await;
        let labels = json!(before.labels());
        stage.wait_for_value(kind, &name, "/metadata/labels", &labels).await;
        assert_eq!(stage.known(kind, &name).await.uid(), before.uid(), "{kind} {name}");
    }
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_add_stays() {
    let stage = Stage::deployed(&minimal(MAIN)).await;
    let note =
        json!({ "metadata": { "annotations": { "example.com/note": "theirs" }, "labels": { "team": "theirs" } } });
    for (kind, name) in replaceable() {
        stage.merge(kind, &name, note.clone()).await;
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
        let applied = stage
            .any(kind)
            .patch(&name, &PatchParams::apply("mesh"), &Patch::Apply(&apply))
            .await;
        applied.unwrap();
    }
    let containers = async |kind: &str, name: &str| {
        let containers = at(&stage.known(kind, name).await, "/spec/template/spec/containers");
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
        let ours = at(&stage.known(kind, &name).await, path);
        stage.change(kind, &name, path, &theirs).await;
        stage.wait_for_value(kind, &name, path, &ours).await;
    }
    for (kind, name) in replaceable() {
        let child = stage.known(kind, &name).await;
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
        assert_eq!(at(&stage.known(kind, name).await, restarted), "now");
    }
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
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
async fn what_is_removed_from_the_specification_goes() {
    let stage = Stage::begin().await;
    let wish = instance(
        MAIN,
        &json!({ "template": template("metadata") }),
        &json!({ "template": template("envoy"), "replicas": 1 }),
    );
    stage.deploy(&wish).await;
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
        let deployment = stage.known("Deployment", name).await;
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
    stage.edit_instance(MAIN, nothing).await;
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
    for (name, sidecar) in sidecars {
        for path in added.into_iter().chain([sidecar]) {
            stage
                .wait_for_value("Deployment", name, &format!("{pod}{path}"), &Value::Null)
                .await;
        }
        let image = at(
            &stage.known("Deployment", name).await,
            "/spec/template/spec/containers/0/image",
        );
        assert_ne!(image, "registry.example/chosen:1");
    }
    stage
        .wait_for_value("Deployment", "main-gateway", "/spec/replicas", &json!(2))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_something_that_nobody_looks_at_costs_nothing() {
    let stage = Stage::deployed(&minimal(MAIN)).await;
    stage.wait_until_nothing_is_planned().await;
    let chronicle = Chronicle::of(&stage, MAIN).await;
    let before = stage.mark();
    for (kind, name) in replaceable() {
        let note = json!({ "metadata": { "annotations": { "example.com/note": "theirs" } } });
        stage.merge(kind, &name, note).await;
    }
    stage.force_a_look(MAIN).await;
    let writes = before.writes_but_events(&stage.namespace);
    assert_eq!(
        writes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["create configmaps main-gateway-config -> 201"]
    );
    assert_eq!(chronicle.phases(&stage).await, [InstancePhase::Ready]);
    let instance = stage.the::<FireboltInstance>(MAIN).await;
    assert_eq!(condition(&instance, InstanceCondition::Ready).status, "True");
}
