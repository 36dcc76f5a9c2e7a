//! Caches that lag behind, and watches that end or break.

use std::time::{Duration, Instant};

use firebolt_api::EnginePhase;
use firebolt_runtime::client::READ_TIMEOUT;
use rstest::rstest;
use testkit::wait::SOON;

use super::testenv::{ENGINE, ProxiedEnv};
use crate::fault_proxy::Disturbance;

/// Every kind that decisions are made from.
const KINDS: [&str; 5] = ["statefulsets", "services", "configmaps", "pods", "fireboltengines"];
/// How long no write may come before the operator counts as stuck with what it knows. On a slow machine more rollouts
/// go on with a fresh cache after this, which proves less and breaks nothing.
const QUIET: Duration = Duration::from_secs(2);
/// After each of these is stored, a rollout continues with a stale cache.
const PHASES: [EnginePhase; 5] = [
    EnginePhase::Creating,
    EnginePhase::Switching,
    EnginePhase::Draining,
    EnginePhase::Cleaning,
    EnginePhase::Stable,
];

/// Waits until the engine is stable with the generation, or until nothing more is written.
async fn settle(proxied: &ProxiedEnv, generation: i64) {
    let mut last = (proxied.proxy.writes().len(), Instant::now());
    let settled = async || {
        let written = proxied.proxy.writes().len();
        if written != last.0 {
            last = (written, Instant::now());
        }
        let status = proxied.env.status(ENGINE).await;
        let ended = status.phase == Some(EnginePhase::Stable) && status.current_generation == generation;
        (ended || last.1.elapsed() > QUIET).then_some(())
    };
    proxied
        .env
        .eventually("the rollout ends or stands still", settled)
        .await;
}

/// With a cache of one kind that stands still from any moment of a rollout on: nothing is removed that is named, the
/// route leads to ready pods, generations are neither skipped nor doubled; and once the cache moves, the rollout ends.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_cache_delays_a_rollout_and_violates_no_invariant(
    #[values("statefulsets", "services", "configmaps", "pods", "fireboltengines")] kind: &str,
) {
    let proxied = ProxiedEnv::deployed().await;
    for (generation, held) in (1..).zip(PHASES) {
        let rule = proxied.hold_at(held);
        proxied.change(usize::try_from(generation).unwrap()).await;
        proxied.struck(&rule).await;
        proxied.proxy.freeze(kind);
        rule.release();
        settle(&proxied, generation).await;
        proxied.proxy.thaw(kind);
        proxied.at_rest(generation).await;
    }
}

/// A cache that is behind when the user edits, and is filled anew while it is.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_starts_with_stale_caches_violates_no_invariant(
    #[values("statefulsets", "services", "configmaps", "pods", "fireboltengines")] kind: &str,
) {
    let mut proxied = ProxiedEnv::deployed().await;
    proxied.proxy.freeze(kind);
    proxied.change(1).await;
    settle(&proxied, 1).await;
    proxied.kill_operator();
    proxied.start_operator();
    settle(&proxied, 1).await;
    proxied.proxy.thaw(kind);
    proxied.at_rest(1).await;
}

/// Watches come and go; what happened in between is not missed.
#[rstest]
#[case::closed(Disturbance::End)]
#[case::too_old(Disturbance::Gone)]
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_ends_during_a_rollout_is_restarted(#[case] disturbance: Disturbance) {
    let proxied = ProxiedEnv::deployed().await;
    for (generation, held) in (1..).zip(PHASES) {
        let rule = proxied.hold_at(held);
        proxied.change(usize::try_from(generation).unwrap()).await;
        proxied.struck(&rule).await;
        for kind in KINDS {
            // None may run while the last one is being taken up again, but the first time all do.
            let ended = proxied.proxy.disturb(kind, disturbance);
            assert!(ended > 0 || generation > 1, "{kind} is not watched");
        }
        rule.release();
        proxied.at_rest(generation).await;
    }
}

/// A connection that dies without a word is noticed by its silence, and nothing but time is lost.
#[tokio::test(flavor = "multi_thread")]
async fn watches_without_events_are_restarted() {
    let proxied = ProxiedEnv::deployed().await;
    for kind in KINDS {
        assert!(
            proxied.proxy.disturb(kind, Disturbance::Silence) > 0,
            "{kind} is not watched"
        );
    }
    let proxy = &proxied.proxy;
    let before = proxy.writes().len();
    proxied.change(1).await;
    // Whatever the operator does until then, the edit is observed once the watches are restarted.
    proxy.wait_for_writes_within(READ_TIMEOUT + SOON, "the edit is seen", |writes| writes.len() > before);
    proxied.at_rest(1).await;
}
