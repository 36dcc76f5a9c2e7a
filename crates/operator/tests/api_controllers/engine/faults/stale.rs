//! A4: caches that lag behind, and watches that end or die.

use std::time::{Duration, Instant};

use firebolt_api::EnginePhase;
use firebolt_operator::connect::LONGEST_SILENCE;
use rstest::rstest;

use super::stage::{ENGINE, Stage};
use crate::proxy::Disturbance;
use crate::support::SOON;

/// Every kind that decisions are made from.
const KINDS: [&str; 5] = ["statefulsets", "services", "configmaps", "pods", "fireboltengines"];
/// How long no write may come before the operator counts as stuck with what it knows. On a slow machine more rollouts
/// go on with a fresh cache after this, which proves less and breaks nothing.
const QUIET: Duration = Duration::from_secs(2);
/// After each of these is stored, a rollout goes on with a cache that knows nothing newer.
const MOMENTS: [EnginePhase; 5] = [
    EnginePhase::Creating,
    EnginePhase::Switching,
    EnginePhase::Draining,
    EnginePhase::Cleaning,
    EnginePhase::Stable,
];

/// Waits until the engine is at rest with the generation, or until nothing more is written.
async fn settle(stage: &Stage, generation: i64) {
    let mut last = (stage.proxy.writes().len(), Instant::now());
    let settled = async || {
        let written = stage.proxy.writes().len();
        if written != last.0 {
            last = (written, Instant::now());
        }
        let status = stage.scene.status(ENGINE).await;
        let ended = status.phase == Some(EnginePhase::Stable) && status.current_generation == generation;
        (ended || last.1.elapsed() > QUIET).then_some(())
    };
    stage
        .scene
        .eventually("the rollout ends or stands still", settled)
        .await;
}

/// With a cache of one kind that stands still from any moment of a rollout on: nothing is removed that is named, the
/// route leads to ready pods, generations are neither skipped nor doubled; and once the cache moves, the rollout ends.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_lags_delays_a_rollout_and_breaks_nothing(
    #[values("statefulsets", "services", "configmaps", "pods", "fireboltengines")] kind: &str,
) {
    let stage = Stage::deployed().await;
    for (generation, moment) in (1..).zip(MOMENTS) {
        let rule = stage.hold_at(moment);
        stage.change(usize::try_from(generation).unwrap()).await;
        stage.struck(&rule).await;
        stage.proxy.freeze(kind);
        rule.release();
        settle(&stage, generation).await;
        stage.proxy.thaw(kind);
        stage.at_rest(generation).await;
    }
}

/// A cache that is behind when the user edits, and is filled anew while it is.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_starts_with_old_caches_breaks_nothing(
    #[values("statefulsets", "services", "configmaps", "pods", "fireboltengines")] kind: &str,
) {
    let mut stage = Stage::deployed().await;
    stage.proxy.freeze(kind);
    stage.change(1).await;
    settle(&stage, 1).await;
    stage.kill();
    stage.start();
    settle(&stage, 1).await;
    stage.proxy.thaw(kind);
    stage.at_rest(1).await;
}

/// Watches come and go; what happened in between is not missed.
#[rstest]
#[case::closed(Disturbance::End)]
#[case::too_old(Disturbance::Gone)]
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_ends_in_the_middle_of_a_rollout_is_taken_up_again(#[case] disturbance: Disturbance) {
    let stage = Stage::deployed().await;
    for (generation, moment) in (1..).zip(MOMENTS) {
        let rule = stage.hold_at(moment);
        stage.change(usize::try_from(generation).unwrap()).await;
        stage.struck(&rule).await;
        for kind in KINDS {
            // None may run while the last one is being taken up again, but the first time all do.
            let ended = stage.proxy.disturb(kind, disturbance);
            assert!(ended > 0 || generation > 1, "{kind} is not watched");
        }
        rule.release();
        stage.at_rest(generation).await;
    }
}

/// A connection that dies without a word is noticed by its silence, and nothing but time is lost.
#[tokio::test(flavor = "multi_thread")]
async fn watches_that_fall_silent_are_given_up_on() {
    let stage = Stage::deployed().await;
    for kind in KINDS {
        assert!(
            stage.proxy.disturb(kind, Disturbance::Silence) > 0,
            "{kind} is not watched"
        );
    }
    let proxy = &stage.proxy;
    let before = proxy.writes().len();
    stage.change(1).await;
    // Whatever it does by itself meanwhile, the edit is seen once the watches are renewed.
    proxy.wait_for_writes_within(LONGEST_SILENCE + SOON, "the edit is seen", |writes| {
        writes.len() > before
    });
    stage.at_rest(1).await;
}
