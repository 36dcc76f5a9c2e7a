//! The operator is killed in every phase of a rollout.

use std::time::Duration;

use e2e::cluster::{Operator, TestEnv};
use firebolt_api::{EnginePhase, FireboltEngine};
use futures::StreamExt as _;
use kube::api::{WatchEvent, WatchParams};

const ENGINE: &str = "analytics";
/// The maximum number of rollouts until one is observed in a phase that lasts for a few milliseconds.
const ATTEMPTS: usize = 10;
/// The timeout for a phase, on a small and busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_when_the_operator_is_killed_in_any_phase() {
    let env = TestEnv::with_instance().await;
    env.deploy(&env.engine(ENGINE)).await;
    let traffic = env.traffic(ENGINE).await;
    let mut generation = 0;
    for phase in [
        EnginePhase::Creating,
        EnginePhase::Switching,
        EnginePhase::Draining,
        EnginePhase::Cleaning,
    ] {
        generation = kill_in(&env, phase, generation).await;
        traffic.flows().await;
        env.settles(ENGINE, generation).await;
        traffic.reaches(&TestEnv::pod_names(ENGINE, generation, 1)).await;
    }
    traffic.assert_flawless().await;
}

/// Starts a rollout, kills the operator in the phase, and returns the new generation.
async fn kill_in(env: &TestEnv, phase: EnginePhase, mut generation: i64) -> i64 {
    for _ in 0..ATTEMPTS {
        let operator = Operator::running(env).await;
        generation += 1;
        let edit = env.engine(ENGINE).env("EDIT", &generation.to_string());
        env.apply(&edit).await;
        let is_there = |engine: &FireboltEngine| is_in(engine, phase, generation);
        let caught = tokio::time::timeout(PATIENCE, wait_for(env, is_there)).await;
        caught
            .unwrap_or_else(|_| panic!("not within {PATIENCE:?}: the engine is {phase} with generation {generation}"));
        operator.freeze();
        if is_there(&env.get(ENGINE).await) {
            operator.kill().await;
            return generation;
        }
        operator.thaw();
        env.settles(ENGINE, generation).await;
    }
    panic!("the operator was not caught while the engine was {phase} in {ATTEMPTS} rollouts");
}

/// Returns as soon as the status of the engine satisfies the condition.
async fn wait_for(env: &TestEnv, is_there: impl Fn(&FireboltEngine) -> bool) {
    let parameters = WatchParams::default().fields(&format!("metadata.name={ENGINE}"));
    let watch = env.api::<FireboltEngine>().watch(&parameters, "0").await;
    let mut events = watch.expect("watch the engine").boxed();
    while let Some(event) = events.next().await {
        if let WatchEvent::Added(engine) | WatchEvent::Modified(engine) = event.expect("watch the engine")
            && is_there(&engine)
        {
            return;
        }
    }
    panic!("the watch ended too early");
}

fn is_in(engine: &FireboltEngine, phase: EnginePhase, generation: i64) -> bool {
    let status = engine.status.as_ref();
    status.is_some_and(|status| (status.phase, status.current_generation) == (Some(phase), generation))
}
