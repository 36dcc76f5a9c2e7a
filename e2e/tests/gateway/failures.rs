//! What a client reads when an engine cannot be reached, and where queries go when a pod is not well.

use std::time::{Duration, Instant};

use e2e::isolation::isolated;
use e2e::wait::eventually;
use futures::future::join_all;
use stand_ins::engine::DURATION_HEADER;

use crate::client::{ask, empty, query, send};
use crate::scene::{Scene, pod};

/// A client should not wait for an engine that is not there. Names are looked up first, and the gateway gives that five
/// seconds.
const PROMPT: Duration = Duration::from_secs(8);

#[test]
fn an_engine_that_nobody_knows_is_reported_promptly() {
    isolated(async {
        let _scene = Scene::start().await;
        for _ in 0..3 {
            let start = Instant::now();
            assert_eq!(ask("nobody").await.error(), (503, "engine_unavailable".to_owned()));
            assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
        }
    });
}

#[test]
fn an_engine_becomes_reachable_soon_after_it_was_unknown() {
    isolated(async {
        let mut scene = Scene::start().await;
        assert_eq!(ask("one").await.status, 503);
        let _engine = scene.engine("one", 11).await;
        let waited = eventually("the engine is reached", async || ask("one").await.status == 200).await;
        assert!(waited < Duration::from_secs(10), "{waited:?}");
    });
}

#[test]
fn a_stopped_engine_is_reported_and_comes_back() {
    isolated(async {
        let mut scene = Scene::start().await;
        let engine = scene.engine("one", 11).await;
        ask("one").await.answer();
        scene.route("one", []).await;
        eventually("the engine is gone", async || ask("one").await.status == 503).await;
        assert_eq!(ask("one").await.error().1, "engine_unavailable");
        scene.route("one", [11]).await;
        eventually("the engine is back", async || ask("one").await.status == 200).await;
        drop(engine);
    });
}

#[test]
fn a_pod_that_says_it_is_not_ready_gets_no_query() {
    isolated(async {
        let mut scene = Scene::start().await;
        let (good, bad) = (pod("good", 11).await, pod("bad", 12).await);
        scene.route("one", [11, 12]).await;
        eventually("both pods get queries", async || {
            ask("one").await.answer();
            !good.executed().is_empty() && !bad.executed().is_empty()
        })
        .await;
        bad.set_ready(false);
        until_only("good", 50).await;
        bad.set_ready(true);
        eventually("the pod is taken back", async || ask("one").await.answer().pod == "bad").await;
    });
}

/// Queries are sent until `count` in a row were answered by this pod: what the gateway learns reaches its threads one
/// after the other.
async fn until_only(pod: &str, count: usize) {
    let mut in_a_row = 0;
    eventually("queries go to one pod only", async || {
        in_a_row = if ask("one").await.answer().pod == pod {
            in_a_row + 1
        } else {
            0
        };
        in_a_row == count
    })
    .await;
}

/// What the gateway learns is not kept back until more is learnt. Each thread may answer one query before it hears of it.
#[test]
fn pods_that_become_unready_together_are_left_together() {
    isolated(async {
        let mut scene = Scene::start().await;
        let pods = [pod("a", 11).await, pod("b", 12).await, pod("c", 13).await];
        scene.route("one", [11, 12, 13]).await;
        ask("one").await.answer();
        let healthy = async || scene.envoy.hosts().await.values().filter(|healthy| **healthy).count();
        eventually("all pods are healthy", async || healthy().await == 3).await;
        pods[1].set_ready(false);
        pods[2].set_ready(false);
        eventually("one pod is healthy", async || healthy().await == 1).await;
        let mut late = 0;
        for _ in 0..50 {
            late += usize::from(ask("one").await.answer().pod != "a");
        }
        assert!(
            late <= 4,
            "{late} of 50 queries went to pods that were known not to be ready"
        );
    });
}

#[test]
fn queries_go_to_a_pod_that_is_not_ready_only_if_none_is() {
    isolated(async {
        let mut scene = Scene::start().await;
        let pods = [pod("a", 11).await, pod("b", 12).await, pod("c", 13).await];
        scene.route("one", [11, 12, 13]).await;
        ask("one").await.answer();
        for pod in &pods[1..] {
            pod.set_ready(false);
        }
        until_only("a", 50).await;
        pods[0].set_ready(false);
        pods[2].set_ready(true);
        until_only("c", 50).await;
        // No pod says that it is ready: trying is better than giving up, since what says so may be late.
        pods[2].set_ready(false);
        eventually("the gateway knows", async || {
            !scene.envoy.hosts().await.values().any(|healthy| *healthy)
        })
        .await;
        for _ in 0..20 {
            assert_eq!(ask("one").await.status, 200);
        }
    });
}

/// Each engine may run this many queries through one gateway, and as many may wait.
const QUERIES_AT_ONCE: usize = 1024;
/// This is about queries, not about how many connections can be made in the same instant.
const AT_A_TIME: usize = 64;

#[test]
fn queries_beyond_the_limit_are_turned_away_and_the_others_wait() {
    isolated(async {
        let mut scene = Scene::start().await;
        let (engine, _other) = (scene.engine("one", 11).await, scene.engine("two", 12).await);
        ask("one").await.answer();
        let ask_long = || send(empty(query("one").header(DURATION_HEADER, "1h")));
        let mut running = Vec::new();
        while running.len() < QUERIES_AT_ONCE {
            running.extend((0..AT_A_TIME).map(|_| tokio::spawn(ask_long())));
            eventually("the engine executes them", async || engine.running() == running.len()).await;
        }
        let mut more: Vec<_> = (0..2 * QUERIES_AT_ONCE).map(|_| tokio::spawn(ask("one"))).collect();
        eventually("every query waits or is turned away", async || {
            let waiting = scene.envoy.statistic("upstream_rq_pending_active").await;
            let turned_away = more.iter().filter(|query| query.is_finished()).count();
            usize::try_from(waiting).unwrap() + turned_away == more.len()
        })
        .await;
        let turned_away: Vec<_> = more.extract_if(.., |query| query.is_finished()).collect();
        assert_eq!(turned_away.len(), QUERIES_AT_ONCE);
        for reply in join_all(turned_away).await {
            assert_eq!(reply.unwrap().error(), (503, "engine_overloaded".to_owned()));
        }
        assert_eq!(ask("two").await.answer().pod, "two", "other engines do not suffer");
        for (index, some) in running.chunks(AT_A_TIME).enumerate() {
            // Whoever leaves makes room for one that waits.
            some.iter().for_each(tokio::task::JoinHandle::abort);
            let answered = (index + 1) * AT_A_TIME;
            eventually("others take their places", async || {
                more.iter().filter(|query| query.is_finished()).count() >= answered
            })
            .await;
        }
        for reply in join_all(more).await {
            reply.unwrap().answer();
        }
        assert_eq!(engine.executed().len(), 1 + 2 * QUERIES_AT_ONCE);
    });
}
