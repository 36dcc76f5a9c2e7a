//! Provisioning: from the minimal example to the answer to a query.

use std::path::Path;

use e2e::cluster::{INSTANCE, TestEnv, restarts};
use firebolt_api::name::InstanceNames;
use firebolt_api::{FireboltEngine, FireboltInstance};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_minimal_example_runs_and_answers_a_query() {
    let env = TestEnv::empty().await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/minimal.yaml");
    env.kubectl(&["apply", "-f", &example.display().to_string()])
        .expect("apply the example");

    let instance: FireboltInstance = env.instance_is_ready().await;
    let status = instance.status.expect("a ready instance has a status");
    let endpoint = format!("{INSTANCE}-gateway.{}.svc.cluster.local", env.namespace());
    assert!(status.gateway_endpoint.starts_with(&endpoint), "{status:?}");
    assert!(instance.spec.id.is_some(), "the operator gives it an id");
    let claim = format!("data-{}-0", InstanceNames(INSTANCE).postgres());
    let bound = |claim: &PersistentVolumeClaim| {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Bound")
    };
    env.becomes(&claim, "is bound", bound).await;

    env.settles("analytics", 0).await;
    let condition = env.has_reason("analytics", "EngineReady").await;
    assert_eq!(condition.status, "True");
    assert_eq!(env.get::<FireboltEngine>("analytics").await.spec.replicas, 1);

    let reply = env.query("analytics", "SELECT 42").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.json()["data"].to_string().contains("42"), "{reply:?}");

    let pods: Vec<Pod> = env.list("").await;
    let restarted: Vec<&Pod> = pods.iter().filter(|pod| restarts(pod) > 0).collect();
    assert!(
        restarted.is_empty(),
        "everything starts at the first attempt: {restarted:?}"
    );
}
