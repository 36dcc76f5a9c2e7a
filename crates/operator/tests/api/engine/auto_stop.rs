//! Auto-stop: engines that stop when idle, and are woken by queries.

use std::process::Command;

use firebolt_api::EnginePhase::{self, Cleaning, Creating, Draining, Stable, Stopped, Switching};
use firebolt_api::key::Annotation;
use firebolt_api::{AutoStop, AutoStopReason, FireboltEngine};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use crate::engine::faults::testenv::{ENGINE, ProxiedEnv};
use crate::fixtures::{always_open, engine, new_replicas, quick_to_stop, slow_to_stop};
use crate::kubelet::metrics_server::Answer;
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::TestEnv;

fn wake(at: Timestamp) -> Value {
    json!({ "metadata": { "annotations": { Annotation::WakeRequested.key(): at.to_string() } } })
}

fn decided(reason: AutoStopReason) -> impl Fn(&FireboltEngine) -> bool {
    move |engine| engine.status.as_ref().and_then(|status| status.auto_stop_reason) == Some(reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_request_starts_a_stopped_engine() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(0).auto_stop(slow_to_stop(2))).await;
    env.wait_for_phase("a", Stopped).await;
    env.edit_engine("a", wake(Timestamp::now())).await;
    env.wait_for("a", "is scaled up", |engine| engine.spec.replicas == 2)
        .await;
    env.wait_for("a", "says why", decided(AutoStopReason::WakeRequested))
        .await;
    let status = env.wait_for_phase("a", Stable).await;
    assert_eq!((status.active_generation, status.replicas), (1, Some(2)));
    assert!(status.last_scaled_at.is_some());
    assert_eq!(env.wait_for_event("a", "ScaledUp").await.severity, "Normal");
    wait_for_wakes(&env, "honoured").await;
}

/// Waits until one wake was counted so.
async fn wait_for_wakes(env: &TestEnv, outcome: &str) {
    let line = format!("firebolt_engine_wakes_total{{outcome=\"{outcome}\"}} 1\n");
    let counted = async || env.operator().metrics_answer().contains(&line).then_some(());
    env.eventually(&format!("there is {line}"), counted).await;
}

/// A request to wake is not lost, whatever the operator is about: the stop is called off while it is only announced,
/// and followed by a start if it has taken effect.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_request_in_any_phase_of_a_stop_starts_the_engine_again(
    #[values(Creating, Switching, Draining, Cleaning, Stopped)] phase: EnginePhase,
) {
    let proxied = ProxiedEnv::start().await;
    let env = &proxied.env;
    let busy = Answer::Queries {
        running: 1,
        suspended: 0,
    };
    env.deploy(&engine(ENGINE).auto_stop(slow_to_stop(2))).await;
    // Two phases last for one reconcile, in which the operator is held; one lasts as long as a query.
    let held = matches!(phase, Switching | Cleaning).then(|| proxied.hold_at(phase));
    if phase == Draining {
        env.node.metrics(&env.namespace, "a-g0", busy);
    }
    env.edit_engine(ENGINE, new_replicas(0)).await;
    match &held {
        Some(rule) => proxied.struck(rule).await,
        None => drop(env.wait_for_phase(ENGINE, phase).await),
    }
    env.edit_engine(ENGINE, wake(Timestamp::now())).await;
    if let Some(rule) = &held {
        rule.release();
    }
    env.node.metrics(&env.namespace, "a-g0", Answer::IDLE);
    env.wait_for(ENGINE, "is scaled up", |engine| engine.spec.replicas == 2)
        .await;
    assert_eq!(env.wait_for_phase(ENGINE, Stable).await.replicas, Some(2));
    let reported = env.wait_for_event(ENGINE, "ScaledUp").await;
    assert_eq!(reported.message, "Scaled from 0 to 2: wake requested by a query.");
    proxied.invariants.hold().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_command_wakes_an_engine() {
    let env = TestEnv::start().await;
    env.deploy(&engine("analytics").replicas(0).auto_stop(slow_to_stop(1)))
        .await;
    env.wait_for_phase("analytics", Stopped).await;
    let manual = include_str!("../../../../../docs/operations/engines.md");
    let documented = manual
        .lines()
        .find_map(|line| line.trim().strip_prefix("kubectl annotate "));
    let kubectl = env.cluster.kubectl_command(&env.cluster.kubeconfig_admin()).unwrap();
    // A shell substitutes the time when users run the command of the manual.
    let script = format!(
        "\"$0\" \"$@\" annotate {}",
        documented.expect("the command is documented")
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-ec", &script])
        .arg(kubectl.get_program())
        .args(kubectl.get_args());
    shell.args(["--namespace", &env.namespace]);
    for (name, value) in kubectl.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    let done = shell.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    env.wait_for_phase("analytics", Stable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_request_from_the_future_is_ignored_and_reported() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(0).auto_stop(slow_to_stop(1))).await;
    env.edit_engine("a", wake(Timestamp::now() + SignedDuration::from_mins(10)))
        .await;
    assert_eq!(env.wait_for_event("a", "WakeIgnored").await.severity, "Warning");
    assert_eq!(env.the::<FireboltEngine>("a").await.spec.replicas, 0);
    wait_for_wakes(&env, "ignored").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_request_of_a_clock_that_is_minutes_behind_is_ignored_and_reported() {
    let env = TestEnv::start().await;
    let ago = |minutes| Timestamp::now() - SignedDuration::from_mins(minutes);
    env.deploy(&engine("a").replicas(0).auto_stop(slow_to_stop(1))).await;
    env.set_status::<FireboltEngine>("a", json!({ "lastActivityTime": ago(60).to_string() }))
        .await;
    env.edit_engine("a", wake(ago(10))).await;
    let reported = env.wait_for_event("a", "WakeIgnored").await;
    assert_eq!(reported.severity, "Warning");
    assert!(reported.message.contains("check the clocks"), "{}", reported.message);
    assert_eq!(env.the::<FireboltEngine>("a").await.spec.replicas, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_stops_when_its_last_query_has_ended_and_not_before() {
    let env = TestEnv::start().await;
    let busy = Answer::Queries {
        running: 1,
        suspended: 0,
    };
    env.node.metrics(&env.namespace, "a", busy);
    env.deploy(&engine("a").auto_stop(quick_to_stop(1))).await;
    env.wait_for("a", "is seen in use", decided(AutoStopReason::ActivityObserved))
        .await;
    env.wait_for_scrapes("a-g0", 3).await;
    assert_eq!(env.the::<FireboltEngine>("a").await.spec.replicas, 1);
    env.node.metrics(&env.namespace, "a", Answer::IDLE);
    env.wait_for("a", "is scaled down", |engine| engine.spec.replicas == 0)
        .await;
    assert_eq!(env.wait_for_phase("a", Stopped).await.active_generation, 1);
    assert_eq!(env.wait_for_event("a", "ScaledDown").await.severity, "Normal");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_queries_cannot_be_read_is_not_stopped() {
    let env = TestEnv::start().await;
    env.node.metrics(&env.namespace, "a", Answer::Status(500));
    env.deploy(&engine("a").auto_stop(quick_to_stop(1))).await;
    env.wait_for("a", "cannot be asked", decided(AutoStopReason::ScrapeFailed))
        .await;
    env.wait_for_scrapes("a-g0", 3).await;
    assert_eq!(env.the::<FireboltEngine>("a").await.spec.replicas, 1);
}

/// A pod that has no node or no image has no queries: the engine does not run because of it until the end of time.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_never_starts_does_not_keep_an_idle_engine_running() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2).auto_stop(slow_to_stop(2))).await;
    let started: Pod = env.the("a-g0-1").await;
    env.node.set_behaviour(&env.namespace, "a-g0-1", Behaviour::Pending);
    env.delete::<Pod>("a-g0-1").await;
    let replaced = async || env.get::<Pod>("a-g0-1").await.filter(|pod| pod.uid() != started.uid());
    env.eventually("a-g0-1 is replaced", replaced).await;
    env.edit_engine("a", json!({ "spec": { "autoStop": quick_to_stop(2) } }))
        .await;
    env.wait_for("a", "is scaled down", |engine| engine.spec.replicas == 0)
        .await;
    assert_eq!(env.wait_for_phase("a", Stopped).await.active_generation, 1);
}

/// Its queries may have ended with it, but the operator has not observed that.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_in_a_crash_loop_keeps_the_engine_running() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2).auto_stop(slow_to_stop(2))).await;
    env.node
        .set_behaviour(&env.namespace, "a-g0-1", Behaviour::CrashLoop { exit_code: 1 });
    env.wait_for_message("a", "is in a crash loop").await;
    env.edit_engine("a", json!({ "spec": { "autoStop": quick_to_stop(2) } }))
        .await;
    env.wait_for("a", "cannot be asked", decided(AutoStopReason::ScrapeFailed))
        .await;
    let seen = |engine: &FireboltEngine| engine.status.as_ref()?.last_activity_time.clone();
    let at = env.the::<FireboltEngine>("a").await;
    // The idle time of one second passes more than once.
    let later = |engine: &FireboltEngine| {
        let times = seen(engine).zip(seen(&at));
        times.is_some_and(|(now, at)| now.0.duration_since(at.0) >= SignedDuration::from_secs(3))
    };
    let kept = env.wait_for("a", "is in use for three seconds", later).await;
    assert_eq!(kept.spec.replicas, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_window_starts_an_engine_and_keeps_it_running() {
    let env = TestEnv::start().await;
    let policy = AutoStop {
        schedule: vec![always_open()],
        ..quick_to_stop(1)
    };
    env.create(&engine("a").replicas(0).auto_stop(policy).0).await;
    env.wait_for("a", "is scaled up", |engine| engine.spec.replicas == 1)
        .await;
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    env.wait_for("a", "is kept", decided(AutoStopReason::ScheduleActive))
        .await;
    let at = env.status("a").await.last_activity_time;
    // The idle time of one second passes more than once.
    let later = |engine: &FireboltEngine| {
        let now = engine
            .status
            .as_ref()
            .and_then(|status| status.last_activity_time.clone());
        now.zip(at.clone())
            .is_some_and(|(now, at)| now.0.duration_since(at.0) >= SignedDuration::from_secs(3))
    };
    let kept = env.wait_for("a", "is in use for three seconds", later).await;
    assert_eq!(kept.spec.replicas, 1);
}
