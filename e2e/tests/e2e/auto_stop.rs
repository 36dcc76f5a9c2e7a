//! Engines that auto-stop stops and starts: when they are idle, by a schedule, and by a wake request.

use std::time::Duration;

use e2e::cluster::TestEnv;
use firebolt_api::key::Annotation;
use firebolt_api::{AutoStopReason, EnginePhase, FireboltEngine, FireboltEngineStatus};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use stand_ins::load::{Load, Settings};

const ENGINE: &str = "analytics";
/// The shortest that can be set, for the idle timeout and for the poll interval.
const SHORTEST: &str = "1s";
/// How long an engine is kept in use to show that it does not stop.
const MANY_TIMES_THE_SHORTEST: SignedDuration = SignedDuration::from_secs(5);
/// Overlapping queries, so that one is always running, even on a busy machine.
const WITHOUT_A_GAP: Settings = Settings {
    clients: 16,
    pause: Duration::from_millis(2200),
    duration: Duration::from_secs(2),
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_stops_when_it_is_idle_and_neither_under_load_nor_in_a_schedule_window() {
    let env = TestEnv::with_instance().await;
    env.deploy(&env.engine(ENGINE)).await;
    let gateway = format!("http://{}", env.gateway().await);
    let load = Load::start(gateway.parse().expect("the URL of the gateway"), ENGINE, WITHOUT_A_GAP);
    load.answers(1).await;

    let before = set_auto_stop(&env, &json!([])).await;
    let awake = stays_in_use(&env, AutoStopReason::ActivityObserved).await;
    assert_eq!(awake.spec, before.spec, "load keeps the engine as it is");
    assert_eq!(env.generations(ENGINE).await, [0]);
    let still_under_load = Timestamp::now();
    let report = load.stop().await;
    if let Err(faults) = report.check(env.ledger()) {
        panic!("the clients were not served well: {faults}");
    }
    let status = env.settles(ENGINE, 1).await;
    assert!(
        scaled_at(&status) >= still_under_load,
        "the load came before the stop: {status:?}"
    );
    let mut expected = before.spec;
    expected.replicas = 0;
    let stopped = is_stopped_for_idleness(&env, 1).await;
    assert_eq!(stopped.spec, expected, "nothing but the replicas was changed");

    // A window edge that is two hours away is not reached during the test.
    set_auto_stop(&env, &json!([{ "start": clock(-2), "end": clock(2) }])).await;
    let status = env.settles(ENGINE, 2).await;
    assert_eq!((status.phase, status.replicas), (Some(EnginePhase::Stable), Some(2)));
    env.emits_event(ENGINE, "ScaledUp", "Scaled from 0 to 2: a schedule window is open.")
        .await;
    env.answers(ENGINE).await;
    let awake = stays_in_use(&env, AutoStopReason::ScheduleActive).await;
    assert_eq!(awake.spec.replicas, 2, "the window keeps the engine awake");
    assert_eq!(env.generations(ENGINE).await, [2]);

    set_auto_stop(&env, &json!([{ "start": clock(2), "end": clock(4) }])).await;
    env.settles(ENGINE, 3).await;
    is_stopped_for_idleness(&env, 2).await;

    let annotation = format!("{}={}", Annotation::WakeRequested, Timestamp::now());
    env.kubectl(&["annotate", "fireboltengine", ENGINE, "--overwrite", &annotation])
        .expect("ask for the engine");
    let status = env.settles(ENGINE, 4).await;
    assert_eq!((status.phase, status.replicas), (Some(EnginePhase::Stable), Some(2)));
    env.emits_event(ENGINE, "ScaledUp", "Scaled from 0 to 2: wake requested by a query.")
        .await;
    env.answers(ENGINE).await;
}

/// Sets a policy that stops the engine quickly, and returns the engine as it is then.
async fn set_auto_stop(env: &TestEnv, schedule: &Value) -> FireboltEngine {
    let policy = json!({
        "enabled": true, "activeReplicas": 2, "idleTimeout": SHORTEST, "pollInterval": SHORTEST, "schedule": schedule,
    });
    env.edit(ENGINE, json!({ "spec": { "autoStop": policy } })).await
}

/// Waits until the engine has been in use, for this reason, for many times its idle timeout.
async fn stays_in_use(env: &TestEnv, reason: AutoStopReason) -> FireboltEngine {
    let last_seen = |engine: &FireboltEngine| {
        let status = engine.status.as_ref()?;
        let is = status.auto_stop_reason == Some(reason);
        status.last_activity_time.as_ref().filter(|_| is).map(|time| time.0)
    };
    let sentence = format!("is in use: {reason}");
    let engine = env
        .becomes(ENGINE, &sentence, |engine| last_seen(engine).is_some())
        .await;
    let long_after = last_seen(&engine).expect("it was seen") + MANY_TIMES_THE_SHORTEST;
    let sentence = format!("is still in use: {reason}");
    let is = |engine: &FireboltEngine| last_seen(engine).is_some_and(|seen| seen >= long_after);
    env.becomes(ENGINE, &sentence, is).await
}

/// Waits until the engine, which had this many replicas, reports that it stopped for idleness without a wake request.
async fn is_stopped_for_idleness(env: &TestEnv, replicas: i32) -> FireboltEngine {
    let message = format!("Scaled from {replicas} to 0: no query within autoStop.idleTimeout.");
    env.emits_event(ENGINE, "ScaledDown", &message).await;
    env.has_reason(ENGINE, "Stopped").await;
    let is = |engine: &FireboltEngine| {
        let status = engine.status.as_ref();
        status.is_some_and(|status| {
            (status.phase, status.auto_stop_reason) == (Some(EnginePhase::Stopped), Some(AutoStopReason::Stopped))
        })
    };
    env.becomes(ENGINE, "is stopped without a wake request", is).await
}

/// When the replicas were last set. Times in the cluster are truncated to seconds, so it was up to a second later.
fn scaled_at(status: &FireboltEngineStatus) -> Timestamp {
    let time = status.last_scaled_at.as_ref().expect("auto-stop has scaled it");
    time.0 + SignedDuration::from_secs(1)
}

/// The time of day this many hours from now, in UTC.
fn clock(hours: i64) -> String {
    let minute = (Timestamp::now().as_second() / 60 + hours * 60).rem_euclid(24 * 60);
    format!("{:02}:{:02}", minute / 60, minute % 60)
}
