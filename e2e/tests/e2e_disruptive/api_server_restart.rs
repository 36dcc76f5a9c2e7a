//! The API server is restarted in the middle of rollouts.

use std::time::Duration;

use e2e::cluster::TestEnv;
use firebolt_api::EnginePhase;
use localkube::Component;

const ENGINE: &str = "analytics";
/// Much longer than a rollout takes to reach the draining phase, and shorter than the grace period of a pod.
const LONG: Duration = Duration::from_secs(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_when_the_api_server_restarts_during_a_rollout() {
    let env = TestEnv::with_instance().await;
    let engine = env.engine(ENGINE);
    env.deploy(&engine).await;
    let traffic = env.traffic(ENGINE).await;
    for (generation, phase) in [(1, EnginePhase::Creating), (2, EnginePhase::Draining)] {
        // Until it has ended, the old generation is draining.
        let query = env.begin_query(ENGINE, &format!("query-{generation}"), LONG).await;
        let edit = engine.clone().env("EDIT", &generation.to_string());
        env.apply(&edit).await;
        env.reaches(ENGINE, phase).await;
        env.cluster()
            .restart(Component::KubeApiserver)
            .await
            .expect("restart the API server");
        traffic.flows().await;
        let reply = query.await.expect("the client runs to its end");
        assert_eq!(reply.expect("the query is answered").status, 200);
        env.settles(ENGINE, generation).await;
        traffic.reaches(&TestEnv::pod_names(ENGINE, generation, 1)).await;
    }
    traffic.assert_flawless().await;
}
