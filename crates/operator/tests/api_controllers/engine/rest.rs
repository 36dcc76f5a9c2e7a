//! Engines at rest: nothing is asked, nothing is written, and nothing is going to happen by itself; unless somebody has
//! asked for it, and then no more than that.

use std::time::Duration;

use firebolt_api::EnginePhase::Stopped;
use firebolt_api::{AutoStop, AutoStopReason, FireboltEngine};
use jiff::{SignedDuration, Timestamp};

use crate::audit::Write;
use crate::fixture::{closing_after, engine, quick_to_stop, slow_to_stop};
use crate::metrics_server::Answer;
use crate::scene::Scene;

/// How long nothing may happen. Longer than the operator waits for anything that it does by itself, deadlines of
/// requests aside.
const A_WHILE: Duration = Duration::from_secs(20);
const PASSES: usize = 3;
/// One replica that waits for no lease: what it asks is asked for the sake of engines.
const ALONE: &str = "--leader-elect=false";

fn decided(reason: AutoStopReason) -> impl Fn(&FireboltEngine) -> bool {
    move |engine| engine.status.as_ref().and_then(|status| status.auto_stop_reason) == Some(reason)
}

fn others<'a>(writes: &'a [Write], resource: &str) -> Vec<&'a Write> {
    writes.iter().filter(|write| write.resource != resource).collect()
}

impl Scene {
    /// Waits until no engine waits for a look, neither now nor at a set time.
    async fn wait_until_nothing_is_planned(&self) {
        let looks = |name: &str| self.operator().metric(&format!("firebolt_engine_{name}_looks"));
        let none = async || (looks("waiting") == Some(0.0) && looks("scheduled") == Some(0.0)).then_some(());
        self.eventually("no look at an engine is planned", none).await;
    }
}

/// Invariant 8: once engines are at rest nothing is planned for them, a pass over them writes nothing, and over a stretch of time the operator says nothing to the API server at all, nor to a pod.
#[tokio::test(flavor = "multi_thread")]
async fn at_rest_nothing_is_asked_written_or_planned() {
    let scene = Scene::begin_with(&[ALONE]).await;
    scene.deploy(&engine("a").replicas(2)).await;
    scene.deploy(&engine("b").replicas(0)).await;
    scene.wait_for_event("a", "Stable").await;
    scene.wait_for_event("b", "Stopped").await;
    scene.wait_until_nothing_is_planned().await;

    let before = scene.mark();
    for _ in 0..PASSES {
        scene.force_a_pass("a", 0).await;
        scene.force_a_pass("b", 0).await;
    }
    let recorded = async || {
        let writes = before.writes(&scene.namespace);
        let repairs = writes.len() - others(&writes, "configmaps").len();
        (repairs >= 2 * PASSES).then_some(writes)
    };
    let writes = scene.eventually("the repairs are in the audit log", recorded).await;
    let others = others(&writes, "configmaps");
    assert!(others.is_empty(), "{others:?}");

    scene.wait_until_nothing_is_planned().await;
    let before = scene.mark();
    tokio::time::sleep(A_WHILE).await;
    let requests = before.requests(&scene.namespace);
    assert!(requests.is_empty(), "{requests:?}");
    assert_eq!(scene.node.scrapes(&scene.namespace, ""), 0);
    scene.wait_until_nothing_is_planned().await;
}

/// Invariant 8: an engine that is to stop by itself is polled, and as long as the answer is the same nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_quiet_for_a_while_is_polled_and_costs_no_write() {
    let scene = Scene::begin_with(&[ALONE]).await;
    scene.deploy(&engine("a").auto_stop(slow_to_stop(1))).await;
    scene
        .wait_for("a", "is seen to be quiet", decided(AutoStopReason::ActivityObserved))
        .await;
    let before = scene.mark();
    scene.wait_for_scrapes("a-g0", 8).await;
    let requests = before.requests(&scene.namespace);
    assert!(requests.is_empty(), "{requests:?}");
    // The record is not late: what is written now is seen.
    scene.force_a_pass("a", 0).await;
    let recorded = async || (before.writes(&scene.namespace).len() == 1).then_some(());
    scene.eventually("the repair alone is in the audit log", recorded).await;
}

/// Invariant 11: the clock alone closes a window. The engine that it held is parked one idle time later and not before,
/// and people can see why it was kept and why it was stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_closes_by_the_clock_parks_the_engine() {
    let scene = Scene::begin().await;
    let (window, end) = closing_after(SignedDuration::from_secs(25));
    let policy = AutoStop {
        schedule: vec![window],
        ..quick_to_stop(2)
    };
    // Quiet all the time: only the window holds it.
    scene.node.metrics(&scene.namespace, "a", Answer::IDLE);
    scene.create(&engine("a").replicas(0).auto_stop(policy).0).await;
    scene
        .wait_for("a", "is scaled up", |engine| engine.spec.replicas == 2)
        .await;
    scene
        .wait_for("a", "says why", decided(AutoStopReason::ScheduleActive))
        .await;
    let up = scene.wait_for_event("a", "ScaledUp").await;
    assert_eq!(up.message, "Replicas go from 0 to 2: a schedule window is open.");

    let kept_to_its_end = |engine: &FireboltEngine| {
        let closed = Timestamp::now() >= end;
        assert!(closed || engine.spec.replicas == 2, "parked before the window closed");
        closed
    };
    scene
        .wait_for("a", "is kept until the window closes", kept_to_its_end)
        .await;
    scene
        .wait_for("a", "is parked", |engine| engine.spec.replicas == 0)
        .await;
    scene.wait_for_phase("a", Stopped).await;
    scene
        .wait_for("a", "says that it is stopped", decided(AutoStopReason::Stopped))
        .await;
    let at = scene.status("a").await.last_scaled_at.expect("it was scaled").0;
    // A whole idle time, as far as times of whole seconds can tell.
    assert!(at >= end, "scaled at {at}, and the window closed at {end}");
    let down = scene.wait_for_event("a", "ScaledDown").await;
    assert_eq!(
        down.message,
        "Replicas go from 2 to 0: no query ran for the whole idle time."
    );
}
