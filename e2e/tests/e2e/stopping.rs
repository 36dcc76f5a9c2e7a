//! Engines that stop and come back: by hand, because nobody uses them, by the clock.

use std::time::Duration;

use e2e::cluster::Scene;
use firebolt_api::key::{Annotation, Label};
use firebolt_api::{AutoStopReason, EnginePhase, FireboltEngine, FireboltEngineStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use stand_ins::load::{Load, Settings};

const ENGINE: &str = "analytics";
/// The shortest that can be set, for the time without queries and for the pause between two looks.
const SHORTEST: &str = "1s";
/// How long an engine has to be held at work to show that it does not stop.
const MANY_TIMES_THE_SHORTEST: SignedDuration = SignedDuration::from_secs(5);
/// Queries that overlap so much that there is always one, even if a busy machine holds some up.
const WITHOUT_A_GAP: Settings = Settings {
    clients: 16,
    pause: Duration::from_millis(2200),
    duration: Duration::from_secs(2),
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_scaled_to_zero_finishes_its_query_stops_and_comes_back() {
    let scene = Scene::with_instance().await;
    scene.deploy(&scene.engine(ENGINE)).await;
    let query = scene.begin_query(ENGINE, "the-last", Duration::from_secs(5)).await;
    scale(&scene, 0);
    let status = scene.settles(ENGINE, 1).await;
    assert_eq!((status.phase, status.replicas), (Some(EnginePhase::Stopped), Some(0)));
    let condition = scene.says(ENGINE, "Stopped").await;
    assert_eq!(condition.status, "False");
    assert!(condition.message.contains("spec.replicas is 0"), "{condition:?}");
    let reply = query.await.expect("the client runs to its end");
    let reply = reply.expect("the query is answered");
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(scene.executed_by("the-last"), Scene::pod_names(ENGINE, 0, 1));
    let no_pods = async || {
        let pods = scene.list::<Pod>(&format!("{}={ENGINE}", Label::Engine)).await;
        pods.is_empty().then_some(())
    };
    scene.eventually("no pod is left", no_pods).await;
    scene.does_not_answer(ENGINE, "engine_stopped").await;

    scale(&scene, 2);
    let status = scene.settles(ENGINE, 2).await;
    assert_eq!((status.phase, status.replicas), (Some(EnginePhase::Stable), Some(2)));
    scene.answers(ENGINE).await;
    let traffic = scene.traffic(ENGINE).await;
    traffic.reaches(&Scene::pod_names(ENGINE, 2, 2)).await;
    traffic.assert_flawless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_stops_when_it_is_idle_and_neither_under_load_nor_in_a_schedule_window() {
    let scene = Scene::with_instance().await;
    scene.deploy(&scene.engine(ENGINE)).await;
    let gateway = format!("http://{}", scene.gateway().await);
    let load = Load::start(gateway.parse().expect("the URL of the gateway"), ENGINE, WITHOUT_A_GAP);
    load.answers(1).await;

    let before = set_auto_stop(&scene, &json!([])).await;
    let awake = stays_in_use(&scene, AutoStopReason::ActivityObserved).await;
    assert_eq!(awake.spec, before.spec, "load keeps the engine as it is");
    assert_eq!(scene.generations(ENGINE).await, [0]);
    let still_under_load = Timestamp::now();
    let report = load.stop().await;
    if let Err(faults) = report.check(scene.ledger()) {
        panic!("the clients were not served well: {faults}");
    }
    let status = scene.settles(ENGINE, 1).await;
    assert!(
        scaled_at(&status) >= still_under_load,
        "the load came before the stop: {status:?}"
    );
    let mut expected = before.spec;
    expected.replicas = 0;
    let stopped = is_stopped_for_idleness(&scene, 1).await;
    assert_eq!(stopped.spec, expected, "nothing but the replicas was changed");

    // An edge that is two hours away is not reached during the test.
    set_auto_stop(&scene, &json!([{ "start": clock(-2), "end": clock(2) }])).await;
    let status = scene.settles(ENGINE, 2).await;
    assert_eq!((status.phase, status.replicas), (Some(EnginePhase::Stable), Some(2)));
    scene
        .tells_event(
            ENGINE,
            "ScaledUp",
            "Replicas go from 0 to 2: a schedule window is open.",
        )
        .await;
    scene.answers(ENGINE).await;
    let awake = stays_in_use(&scene, AutoStopReason::ScheduleActive).await;
    assert_eq!(awake.spec.replicas, 2, "the window keeps the engine awake");
    assert_eq!(scene.generations(ENGINE).await, [2]);

    set_auto_stop(&scene, &json!([{ "start": clock(2), "end": clock(4) }])).await;
    scene.settles(ENGINE, 3).await;
    is_stopped_for_idleness(&scene, 2).await;

    let annotation = format!("{}={}", Annotation::WakeRequested, Timestamp::now());
    scene
        .kubectl(&["annotate", "fireboltengine", ENGINE, "--overwrite", &annotation])
        .expect("ask for the engine");
    let status = scene.settles(ENGINE, 4).await;
    assert_eq!((status.phase, status.replicas), (Some(EnginePhase::Stable), Some(2)));
    scene
        .tells_event(
            ENGINE,
            "ScaledUp",
            "Replicas go from 0 to 2: a query asked for the engine.",
        )
        .await;
    scene.answers(ENGINE).await;
}

fn scale(scene: &Scene, replicas: u8) {
    let replicas = format!("--replicas={replicas}");
    scene
        .kubectl(&["scale", "fireboltengine", ENGINE, &replicas])
        .expect("scale the engine");
}

/// Sets a policy that stops the engine quickly, and returns the engine as it is then.
async fn set_auto_stop(scene: &Scene, schedule: &Value) -> FireboltEngine {
    let policy = json!({
        "enabled": true, "activeReplicas": 2, "idleTimeout": SHORTEST, "pollInterval": SHORTEST, "schedule": schedule,
    });
    scene.edit(ENGINE, json!({ "spec": { "autoStop": policy } })).await
}

/// Waits until the engine has been seen in use, for this reason, for many times as long as it may be idle.
async fn stays_in_use(scene: &Scene, reason: AutoStopReason) -> FireboltEngine {
    let last_seen = |engine: &FireboltEngine| {
        let status = engine.status.as_ref()?;
        let is = status.auto_stop_reason == Some(reason);
        status.last_activity_time.as_ref().filter(|_| is).map(|time| time.0)
    };
    let sentence = format!("is in use: {reason}");
    let engine = scene
        .becomes(ENGINE, &sentence, |engine| last_seen(engine).is_some())
        .await;
    let long_after = last_seen(&engine).expect("it was seen") + MANY_TIMES_THE_SHORTEST;
    let sentence = format!("is still in use: {reason}");
    let is = |engine: &FireboltEngine| last_seen(engine).is_some_and(|seen| seen >= long_after);
    scene.becomes(ENGINE, &sentence, is).await
}

/// Waits until the engine, which had so many replicas, has told why it stops, and that nobody asks for it.
async fn is_stopped_for_idleness(scene: &Scene, replicas: i32) -> FireboltEngine {
    let message = format!("Replicas go from {replicas} to 0: no query ran for the whole idle time.");
    scene.tells_event(ENGINE, "ScaledDown", &message).await;
    scene.says(ENGINE, "Stopped").await;
    let is = |engine: &FireboltEngine| {
        let status = engine.status.as_ref();
        status.is_some_and(|status| {
            (status.phase, status.auto_stop_reason) == (Some(EnginePhase::Stopped), Some(AutoStopReason::Stopped))
        })
    };
    scene.becomes(ENGINE, "is stopped and nobody asks for it", is).await
}

/// When the replicas were last set. The cluster cuts times to whole seconds, so it was up to a second later.
fn scaled_at(status: &FireboltEngineStatus) -> Timestamp {
    let time = status.last_scaled_at.as_ref().expect("auto-stop has scaled it");
    time.0 + SignedDuration::from_secs(1)
}

/// The time of day so many hours from now, in UTC.
fn clock(hours: i64) -> String {
    let minute = (Timestamp::now().as_second() / 60 + hours * 60).rem_euclid(24 * 60);
    format!("{:02}:{:02}", minute / 60, minute % 60)
}
