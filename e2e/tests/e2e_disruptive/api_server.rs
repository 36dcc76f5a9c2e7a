//! The API server is restarted in the middle of rollouts.

use std::time::Duration;

use e2e::cluster::Scene;
use firebolt_api::EnginePhase;
use localkube::Component;

const ENGINE: &str = "analytics";
/// Longer than a rollout takes until it drains.
const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_suffers_when_the_api_server_restarts_during_a_rollout() {
    let scene = Scene::with_instance().await;
    let engine = scene.engine(ENGINE);
    scene.deploy(&engine).await;
    let traffic = scene.traffic(ENGINE).await;
    for (generation, phase) in [(1, EnginePhase::Creating), (2, EnginePhase::Draining)] {
        // Until it has ended, the old generation is drained.
        let query = scene.begin_query(ENGINE, &format!("query-{generation}"), LONG).await;
        let edit = engine.clone().env("EDIT", &generation.to_string());
        scene.apply(&edit).await;
        scene.reaches(ENGINE, phase).await;
        scene
            .cluster()
            .restart(Component::KubeApiserver)
            .await
            .expect("restart the API server");
        traffic.flows().await;
        let reply = query.await.expect("the client runs to its end");
        assert_eq!(reply.expect("the query is answered").status, 200);
        scene.settles(ENGINE, generation).await;
        traffic.reaches(&Scene::pod_names(ENGINE, generation, 1)).await;
    }
    traffic.assert_flawless().await;
}
