//! Deletion: an object is gone with everything that it owned.

use std::collections::BTreeSet;

use e2e::cluster::{Class, INSTANCE, Namespaced, TestEnv};
use firebolt_api::key::Label;
use firebolt_api::name::{EngineNames, InstanceNames};
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance, PersistentVolumeClaimStorage};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::ListParams;

const CLASS: &str = "shared";
/// An engine with claims and the class.
const STORING: &str = "storing";
/// An engine without either.
const PLAIN: &str = "plain";
/// The objects that Kubernetes creates in every namespace.
const OF_KUBERNETES: [&str; 2] = ["configmap/kube-root-ca.crt", "serviceaccount/default"];
const NOTHING: [&str; 0] = [];
/// A user whose requests the webhooks do not see.
const UNASKED: [&str; 4] = [
    "--as",
    "system:serviceaccount:firebolt-system:firebolt-operator",
    "--as-group",
    "system:masters",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_classes_and_the_instance_leave_nothing_behind() {
    let env = TestEnv::with_instance().await;
    env.apply(&Class::new(CLASS)).await;
    let storing = env.engine(STORING).class(CLASS).replicas(2);
    let storing = storing.but(|spec| {
        spec.storage.persistent_volume_claim = Some(PersistentVolumeClaimStorage::default());
    });
    env.deploy(&storing).await;
    let plain = env.engine(PLAIN);
    env.deploy(&plain).await;
    env.apply(&plain.env("EDIT", "1")).await;
    env.settles(PLAIN, 1).await;
    let of_postgres = BTreeSet::from([format!("data-{}-0", InstanceNames(INSTANCE).postgres())]);
    let of_engine = TestEnv::pod_names(STORING, 0, 2)
        .into_iter()
        .map(|pod| format!("data-{pod}"));
    let all: BTreeSet<String> = of_engine.chain(of_postgres.clone()).collect();
    assert_eq!((claims(&env).await, volumes(&env).await), (all.clone(), all));
    let traffic = env.traffic(PLAIN).await;

    let of_storing = format!("{}={STORING}", Label::Engine);
    let set = format!("statefulset.apps/{}", EngineNames(STORING).stateful_set(0));
    assert!(
        remaining(&env, &of_storing).contains(&set),
        "it has something to leave behind"
    );
    is_held::<FireboltEngineClass>(&env, CLASS, STORING).await;
    env.delete::<FireboltEngine>(STORING).await;
    env.vanishes::<FireboltEngine>(STORING).await;
    let mut remains = remaining(&env, &of_storing);
    // Kubernetes deletes these a moment after their owner, or after the Service whose Endpoints they are.
    remains.retain(|name| !name.starts_with("endpoint") && !name.starts_with("persistentvolumeclaim"));
    assert_eq!(remains, NOTHING, "of the engine");
    let of_engine_gone = async || remaining(&env, &of_storing).is_empty().then_some(());
    env.eventually("nothing of the engine is left", of_engine_gone).await;
    env.vanishes::<FireboltEngineClass>(CLASS).await;
    let postgres_alone = async || {
        let both = [claims(&env).await, volumes(&env).await];
        (both.iter().all(|left| *left == of_postgres)).then_some(())
    };
    env.eventually("the claims of the engine are gone, and their volumes", postgres_alone)
        .await;

    is_held::<FireboltInstance>(&env, INSTANCE, PLAIN).await;
    traffic.assert_flawless().await;
    env.delete::<FireboltEngine>(PLAIN).await;
    env.vanishes::<FireboltEngine>(PLAIN).await;
    env.vanishes::<FireboltInstance>(INSTANCE).await;
    // Kubernetes deletes Endpoints and EndpointSlices a moment after their Service.
    let without_endpoints = async || {
        let remains = remaining(&env, "");
        let has_endpoints = remains.iter().any(|name| name.starts_with("endpoint"));
        (!has_endpoints).then_some(remains)
    };
    let mut remains = env
        .eventually("the endpoints of all Services are gone", without_endpoints)
        .await;
    remains.retain(|name| !OF_KUBERNETES.contains(&name.as_str()));
    assert_eq!(remains, NOTHING, "in the namespace");
    let no_volumes = async || volumes(&env).await.is_empty().then_some(());
    env.eventually("the volume of PostgreSQL is gone", no_volumes).await;
}

/// Tries to delete an object that an engine references: that is refused. Without the webhooks, the object stays and its
/// status says why.
async fn is_held<K: Namespaced>(env: &TestEnv, name: &str, by: &str) {
    let (kind, engine) = (K::kind(&()), format!("engine {by}"));
    let delete = ["delete", &kind, name, "--wait=false"];
    let refusal = env.kubectl(&delete).expect_err("an engine uses it").to_string();
    assert!(refusal.contains(&format!("is referenced by {engine}")), "{refusal}");
    let unasked = [&delete[..], &UNASKED].concat();
    env.kubectl(&unasked).expect("delete it without being asked");
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
    env.becomes(name, "says which engine holds it", is).await;
}

/// The names of all objects in the namespace whose labels match, except for events.
fn remaining(env: &TestEnv, labels: &str) -> Vec<String> {
    let kinds = ["api-resources", "--namespaced", "--verbs=list", "--output=name"];
    let kinds = env.kubectl(&kinds).expect("list the kinds");
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    let objects = ["get", &kinds.join(","), "--selector", labels, "--output=name"];
    let objects = env.kubectl(&objects).expect("list the objects");
    objects.lines().map(str::to_owned).collect()
}

/// The claims of the namespace.
async fn claims(env: &TestEnv) -> BTreeSet<String> {
    let claims = env.list::<PersistentVolumeClaim>("").await;
    claims.into_iter().filter_map(|claim| claim.metadata.name).collect()
}

/// The claims of the namespace that volumes are bound to, whether they still exist or not.
async fn volumes(env: &TestEnv) -> BTreeSet<String> {
    let volumes: Api<PersistentVolume> = Api::all(env.client());
    let volumes = volumes.list(&ListParams::default()).await.expect("list the volumes");
    let claims = volumes.items.into_iter().filter_map(|volume| volume.spec?.claim_ref);
    let here = claims.filter(|claim| claim.namespace.as_deref() == Some(env.namespace()));
    here.filter_map(|claim| claim.name).collect()
}
