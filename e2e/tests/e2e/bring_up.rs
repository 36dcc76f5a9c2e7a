//! From nothing to an answer.

use std::path::Path;

use e2e::cluster::{INSTANCE, Scene, restarts};
use firebolt_api::name::InstanceNames;
use firebolt_api::{FireboltEngine, FireboltInstance};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_minimal_example_runs_and_answers_a_query() {
    let scene = Scene::empty().await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/minimal.yaml");
    scene
        .kubectl(&["apply", "-f", &example.display().to_string()])
        .expect("apply the example");

    let instance: FireboltInstance = scene.instance_is_ready().await;
    let status = instance.status.expect("a ready instance has a status");
    let endpoint = format!("{INSTANCE}-gateway.{}.svc.cluster.local", scene.namespace());
    assert!(status.gateway_endpoint.starts_with(&endpoint), "{status:?}");
    assert!(instance.spec.id.is_some(), "the operator gives it an id");
    let claim = format!("data-{}-0", InstanceNames(INSTANCE).postgres());
    let bound = |claim: &PersistentVolumeClaim| {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Bound")
    };
    scene.becomes(&claim, "is bound", bound).await;

    scene.settles("analytics", 0).await;
    let condition = scene.says("analytics", "EngineReady").await;
    assert_eq!(condition.status, "True");
    assert_eq!(scene.get::<FireboltEngine>("analytics").await.spec.replicas, 1);

    let reply = scene.query("analytics", "SELECT 42").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.json()["data"].to_string().contains("42"), "{reply:?}");

    let pods: Vec<Pod> = scene.list("").await;
    let restarted: Vec<&Pod> = pods.iter().filter(|pod| restarts(pod) > 0).collect();
    assert!(
        restarted.is_empty(),
        "everything starts at the first attempt: {restarted:?}"
    );
}
