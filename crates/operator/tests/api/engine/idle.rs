//! Idle engines: no requests, no writes, nothing scheduled, except for the polls of auto-stop.

use std::time::Duration;

use firebolt_api::EnginePhase::Stopped;
use firebolt_api::{AutoStop, AutoStopReason, FireboltEngine};
use jiff::{SignedDuration, Timestamp};

use crate::audit::AuditedRequest;
use crate::fixtures::{closing_after, engine, quick_to_stop, slow_to_stop};
use crate::kubelet::metrics_server::Answer;
use crate::testenv::TestEnv;

/// How long nothing may happen. Longer than any timer of the operator, timeouts of requests aside.
const QUIET_PERIOD: Duration = Duration::from_secs(20);
const RECONCILES: usize = 3;
/// The timeout for the end of a schedule window, which is up to 85 seconds away, plus what anything may take on a busy
/// machine.
const WINDOW_TIMEOUT: Duration = Duration::from_mins(3);
/// One replica without leader election: all of its requests are about engines.
const ALONE: &str = "--leader-elect=false";

fn decided(reason: AutoStopReason) -> impl Fn(&FireboltEngine) -> bool {
    move |engine| engine.status.as_ref().and_then(|status| status.auto_stop_reason) == Some(reason)
}

fn others<'a>(writes: &'a [AuditedRequest], resource: &str) -> Vec<&'a AuditedRequest> {
    writes.iter().filter(|write| write.resource != resource).collect()
}

impl TestEnv {
    /// Waits until no reconcile of an object of this kind is queued, running or scheduled.
    async fn wait_until_no_reconcile_is_scheduled(&self) {
        let none = async || {
            self.operator()
                .has_no_reconcile_scheduled("fireboltengine")
                .then_some(())
        };
        self.eventually("no reconcile of an engine is scheduled", none).await;
    }
}

/// Nothing is planned for stable engines, a reconcile of them writes nothing, and while nothing changes the operator
/// sends no request to the API server or to a pod.
#[tokio::test(flavor = "multi_thread")]
async fn idle_engines_cause_no_requests_writes_or_plans() {
    let env = TestEnv::start_with(&[ALONE]).await;
    env.deploy(&engine("a").replicas(2)).await;
    env.deploy(&engine("b").replicas(0)).await;
    env.wait_for_event("a", "Stable").await;
    env.wait_for_event("b", "Stopped").await;
    env.wait_until_no_reconcile_is_scheduled().await;

    let before = env.mark();
    for _ in 0..RECONCILES {
        env.force_reconcile("a", 0).await;
        env.force_reconcile("b", 0).await;
    }
    let recorded = async || {
        let writes = before.writes(&env.namespace);
        let repairs = writes.len() - others(&writes, "configmaps").len();
        (repairs >= 2 * RECONCILES).then_some(writes)
    };
    let writes = env.eventually("the repairs are in the audit log", recorded).await;
    let others = others(&writes, "configmaps");
    assert!(others.is_empty(), "{others:?}");

    env.wait_until_no_reconcile_is_scheduled().await;
    let before = env.mark();
    tokio::time::sleep(QUIET_PERIOD).await;
    let requests = before.requests(&env.namespace);
    assert!(requests.is_empty(), "{requests:?}");
    assert_eq!(env.node.scrapes(&env.namespace, ""), 0);
    env.wait_until_no_reconcile_is_scheduled().await;
}

/// An engine with auto-stop is polled, and nothing is written as long as the result stays the same.
#[tokio::test(flavor = "multi_thread")]
async fn polling_an_idle_engine_causes_no_writes() {
    let env = TestEnv::start_with(&[ALONE]).await;
    env.deploy(&engine("a").auto_stop(slow_to_stop(1))).await;
    env.wait_for("a", "is seen to be quiet", decided(AutoStopReason::ActivityObserved))
        .await;
    // Events are created concurrently, and beside the reconciles.
    for reason in ["Creating", "Switching", "Stable"] {
        env.wait_for_event("a", reason).await;
    }
    let before = env.mark();
    env.wait_for_scrapes("a-g0", 8).await;
    let requests = before.requests(&env.namespace);
    assert!(requests.is_empty(), "{requests:?}");
    // The audit log is up to date: a write from now on is in it.
    env.force_reconcile("a", 0).await;
    let recorded = async || (before.writes(&env.namespace).len() == 1).then_some(());
    env.eventually("the repair alone is in the audit log", recorded).await;
}

/// A schedule window closes by the clock alone. Its engine is stopped one idle timeout later and not before, and users
/// can see why it was kept and why it was stopped.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_schedule_window_stops_the_engine() {
    let env = TestEnv::start().await;
    let (window, end) = closing_after(SignedDuration::from_secs(25));
    let policy = AutoStop {
        schedule: vec![window],
        ..quick_to_stop(2)
    };
    // Quiet all the time: only the window holds it.
    env.node.metrics(&env.namespace, "a", Answer::IDLE);
    env.create(&engine("a").replicas(0).auto_stop(policy).0).await;
    env.wait_for("a", "is scaled up", |engine| engine.spec.replicas == 2)
        .await;
    env.wait_for("a", "says why", decided(AutoStopReason::ScheduleActive))
        .await;
    let up = env.wait_for_event("a", "ScaledUp").await;
    assert_eq!(up.message, "Scaled from 0 to 2: a schedule window is open.");

    let kept_to_its_end = |engine: Option<FireboltEngine>| {
        let engine = engine?;
        let closed = Timestamp::now() >= end;
        assert!(closed || engine.spec.replicas == 2, "parked before the window closed");
        closed.then_some(())
    };
    env.watch_within(WINDOW_TIMEOUT, "a", "is kept until the window closes", kept_to_its_end)
        .await;
    env.wait_for("a", "is parked", |engine| engine.spec.replicas == 0).await;
    env.wait_for_phase("a", Stopped).await;
    env.wait_for("a", "says that it is stopped", decided(AutoStopReason::Stopped))
        .await;
    let at = env.status("a").await.last_scaled_at.expect("it was scaled").0;
    // A whole idle time, as far as times of whole seconds can tell.
    assert!(at >= end, "scaled at {at}, and the window closed at {end}");
    let down = env.wait_for_event("a", "ScaledDown").await;
    assert_eq!(
        down.message,
        "Scaled from 2 to 0: no query within autoStop.idleTimeout."
    );
}
