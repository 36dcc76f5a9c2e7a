//! The operator is killed in every phase of a rollout.

use std::time::Duration;

use e2e::cluster::{Operator, Scene};
use firebolt_api::{EnginePhase, FireboltEngine};
use futures::StreamExt as _;
use kube::api::{WatchEvent, WatchParams};

const ENGINE: &str = "analytics";
/// How many rollouts may pass before one is caught in a phase that lasts for a few milliseconds.
const ATTEMPTS: usize = 10;
/// How long a phase may take to come, on a small machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_suffers_when_the_operator_is_killed_in_any_phase() {
    let scene = Scene::with_instance().await;
    scene.deploy(&scene.engine(ENGINE)).await;
    let traffic = scene.traffic(ENGINE).await;
    let mut generation = 0;
    for phase in [
        EnginePhase::Creating,
        EnginePhase::Switching,
        EnginePhase::Draining,
        EnginePhase::Cleaning,
    ] {
        generation = kill_in(&scene, phase, generation).await;
        traffic.flows().await;
        scene.settles(ENGINE, generation).await;
        traffic.reaches(&Scene::pod_names(ENGINE, generation, 1)).await;
    }
    traffic.assert_flawless().await;
}

/// Rolls the engine out, kills the operator in the phase, and returns the generation that is rolled out.
async fn kill_in(scene: &Scene, phase: EnginePhase, mut generation: i64) -> i64 {
    for _ in 0..ATTEMPTS {
        let operator = Operator::running(scene).await;
        generation += 1;
        let edit = scene.engine(ENGINE).env("EDIT", &generation.to_string());
        scene.apply(&edit).await;
        let is_there = |engine: &FireboltEngine| is_in(engine, phase, generation);
        let caught = tokio::time::timeout(PATIENCE, at_the_moment(scene, is_there)).await;
        caught
            .unwrap_or_else(|_| panic!("not within {PATIENCE:?}: the engine is {phase} with generation {generation}"));
        operator.freeze();
        if is_there(&scene.get(ENGINE).await) {
            operator.kill().await;
            return generation;
        }
        operator.thaw();
        scene.settles(ENGINE, generation).await;
    }
    panic!("the operator was not caught while the engine was {phase} in {ATTEMPTS} rollouts");
}

/// Returns at the moment in which the engine is said to be as asked for.
async fn at_the_moment(scene: &Scene, is_there: impl Fn(&FireboltEngine) -> bool) {
    let parameters = WatchParams::default().fields(&format!("metadata.name={ENGINE}"));
    let watch = scene.api::<FireboltEngine>().watch(&parameters, "0").await;
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
