//! Responses for engines that cannot be reached, and routing around pods that are not ready.

use std::time::{Duration, Instant};

use e2e::isolation::isolated;
use e2e::wait::eventually;

use crate::testenv::client::ask;
use crate::testenv::{TestEnv, pod};

/// A client should not wait for an engine that does not exist. The gateway resolves its name first, which may take five
/// seconds, and the rest is for a busy machine. A query that is held waits for two minutes.
const PROMPT: Duration = Duration::from_secs(30);
/// How long a resolver may cache that a name has no addresses.
const NEGATIVE_TTL: Duration = Duration::from_secs(30);

#[test]
fn an_unknown_engine_is_reported_promptly() {
    isolated(async {
        let _env = TestEnv::start().await;
        for _ in 0..3 {
            let start = Instant::now();
            assert_eq!(ask("absent").await.error(), (503, "engine_unavailable".to_owned()));
            assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
        }
    });
}

#[test]
fn an_engine_becomes_reachable_soon_after_it_was_unknown() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let start = Instant::now();
        assert_eq!(ask("one").await.status, 503);
        let _engine = env.engine("one", 11).await;
        eventually("the engine is reached", async || ask("one").await.status == 200).await;
        // A gateway that cached this would resolve the name again only after that.
        assert!(start.elapsed() < NEGATIVE_TTL, "{:?}", start.elapsed());
    });
}

#[test]
fn a_stopped_engine_is_reported_and_comes_back() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let engine = env.engine("one", 11).await;
        ask("one").await.answer();
        env.route("one", []).await;
        eventually("the engine is gone", async || ask("one").await.status == 503).await;
        assert_eq!(ask("one").await.error().1, "engine_unavailable");
        env.route("one", [11]).await;
        eventually("the engine is back", async || ask("one").await.status == 200).await;
        drop(engine);
    });
}

#[test]
fn a_pod_that_is_not_ready_gets_no_query() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (good, bad) = (pod("good", 11).await, pod("bad", 12).await);
        env.route("one", [11, 12]).await;
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

/// Sends queries until `count` in a row were answered by this pod: changes reach the threads of the gateway one
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

/// Updates are not batched. Each thread may route one more query before it sees the change.
#[test]
fn pods_that_become_unready_together_lose_their_queries_together() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let pods = [pod("a", 11).await, pod("b", 12).await, pod("c", 13).await];
        env.route("one", [11, 12, 13]).await;
        ask("one").await.answer();
        let healthy = async || env.envoy.hosts().await.values().filter(|healthy| **healthy).count();
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
        let mut env = TestEnv::start().await;
        let pods = [pod("a", 11).await, pod("b", 12).await, pod("c", 13).await];
        env.route("one", [11, 12, 13]).await;
        ask("one").await.answer();
        for pod in &pods[1..] {
            pod.set_ready(false);
        }
        until_only("a", 50).await;
        pods[0].set_ready(false);
        pods[2].set_ready(true);
        until_only("c", 50).await;
        // No pod is ready: trying is better than giving up, because readiness may lag.
        pods[2].set_ready(false);
        eventually("the gateway knows", async || {
            !env.envoy.hosts().await.values().any(|healthy| *healthy)
        })
        .await;
        for _ in 0..20 {
            assert_eq!(ask("one").await.status, 200);
        }
    });
}
