//! What is deleted is gone with all that belonged to it.

use std::collections::BTreeSet;

use e2e::cluster::{Class, INSTANCE, Namespaced, Scene};
use firebolt_api::key::Label;
use firebolt_api::name::{EngineNames, InstanceNames};
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance, PersistentVolumeClaimStorage};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;

const CLASS: &str = "shared";
/// Has claims, and is of the class.
const STORING: &str = "storing";
/// Has neither.
const PLAIN: &str = "plain";
/// What Kubernetes itself puts into every namespace.
const OF_KUBERNETES: [&str; 2] = ["configmap/kube-root-ca.crt", "serviceaccount/default"];
const NOTHING: [&str; 0] = [];
/// Whoever has this name is not asked by the webhooks.
const UNASKED: [&str; 4] = [
    "--as",
    "system:serviceaccount:firebolt-system:firebolt-operator",
    "--as-group",
    "system:masters",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_classes_and_the_instance_leave_nothing_behind() {
    let scene = Scene::with_instance().await;
    scene.apply(&Class::new(CLASS)).await;
    let storing = scene.engine(STORING).class(CLASS).replicas(2);
    let storing = storing.but(|spec| {
        spec.storage.persistent_volume_claim = Some(PersistentVolumeClaimStorage::default());
    });
    scene.deploy(&storing).await;
    let plain = scene.engine(PLAIN);
    scene.deploy(&plain).await;
    scene.apply(&plain.env("EDIT", "1")).await;
    scene.settles(PLAIN, 1).await;
    let of_postgres = BTreeSet::from([format!("data-{}-0", InstanceNames(INSTANCE).postgres())]);
    let of_engine = Scene::pod_names(STORING, 0, 2)
        .into_iter()
        .map(|pod| format!("data-{pod}"));
    let all: BTreeSet<String> = of_engine.chain(of_postgres.clone()).collect();
    assert_eq!((claims(&scene).await, volumes(&scene).await), (all.clone(), all));
    let traffic = scene.traffic(PLAIN).await;

    let of_storing = format!("{}={STORING}", Label::Engine);
    let set = format!("statefulset.apps/{}", EngineNames(STORING).stateful_set(0));
    assert!(
        left(&scene, &of_storing).contains(&set),
        "it has something to leave behind"
    );
    is_held::<FireboltEngineClass>(&scene, CLASS, STORING).await;
    scene.delete::<FireboltEngine>(STORING).await;
    scene.vanishes::<FireboltEngine>(STORING).await;
    let mut remains = left(&scene, &of_storing);
    // Kubernetes removes these by itself, a moment after what they belonged to.
    remains.retain(|name| !name.starts_with("endpointslice") && !name.starts_with("persistentvolumeclaim"));
    assert_eq!(remains, NOTHING, "of the engine");
    scene.vanishes::<FireboltEngineClass>(CLASS).await;
    let postgres_alone = async || {
        let both = [claims(&scene).await, volumes(&scene).await];
        (both.iter().all(|left| *left == of_postgres)).then_some(())
    };
    scene
        .eventually("the claims of the engine are gone, and their volumes", postgres_alone)
        .await;

    is_held::<FireboltInstance>(&scene, INSTANCE, PLAIN).await;
    traffic.assert_flawless().await;
    scene.delete::<FireboltEngine>(PLAIN).await;
    scene.vanishes::<FireboltEngine>(PLAIN).await;
    scene.vanishes::<FireboltInstance>(INSTANCE).await;
    let no_slices = async || scene.list::<EndpointSlice>("").await.is_empty().then_some(());
    scene
        .eventually("Kubernetes has tidied up after the Services", no_slices)
        .await;
    let mut remains = left(&scene, "");
    remains.retain(|name| !OF_KUBERNETES.contains(&name.as_str()));
    assert_eq!(remains, NOTHING, "in the namespace");
    let no_volumes = async || volumes(&scene).await.is_empty().then_some(());
    scene.eventually("the volume of PostgreSQL is gone", no_volumes).await;
}

/// Tries to delete what an engine refers to: that is refused. If it got past the webhooks, it stays and says why.
async fn is_held<K: Namespaced>(scene: &Scene, name: &str, by: &str) {
    let (kind, engine) = (K::kind(&()), format!("engine {by}"));
    let delete = ["delete", &kind, name, "--wait=false"];
    let refusal = scene.kubectl(&delete).expect_err("an engine uses it").to_string();
    assert!(refusal.contains(&format!("is used by {engine}")), "{refusal}");
    let unasked = [&delete[..], &UNASKED].concat();
    scene.kubectl(&unasked).expect("delete it without being asked");
    let is = |object: &K| {
        let object = serde_json::to_value(object).expect("objects are JSON");
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| {
            condition["reason"] == "DeletionBlocked"
                && condition["message"]
                    .as_str()
                    .is_some_and(|message| message.contains(&engine))
        })
    };
    scene.becomes(name, "says which engine holds it", is).await;
}

/// The names of all objects in the namespace whose labels match, of whatever kind. Events are no objects to speak of.
fn left(scene: &Scene, labels: &str) -> Vec<String> {
    let kinds = ["api-resources", "--namespaced", "--verbs=list", "--output=name"];
    let kinds = scene.kubectl(&kinds).expect("list the kinds");
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    let objects = ["get", &kinds.join(","), "--selector", labels, "--output=name"];
    let objects = scene.kubectl(&objects).expect("list the objects");
    objects.lines().map(str::to_owned).collect()
}

/// The claims of the namespace.
async fn claims(scene: &Scene) -> BTreeSet<String> {
    let claims = scene.list::<PersistentVolumeClaim>("").await;
    claims.into_iter().filter_map(|claim| claim.metadata.name).collect()
}

/// The claims of the namespace, there now or not, that there are volumes for.
async fn volumes(scene: &Scene) -> BTreeSet<String> {
    let volumes: Api<PersistentVolume> = Api::all(scene.client());
    let volumes = volumes.list(&ListParams::default()).await.expect("list the volumes");
    let claims = volumes.items.into_iter().filter_map(|volume| volume.spec?.claim_ref);
    let here = claims.filter(|claim| claim.namespace.as_deref() == Some(scene.namespace()));
    here.filter_map(|claim| claim.name).collect()
}
