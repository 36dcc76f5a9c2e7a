//! What the other tests would show if the configuration were wrong: proof that they can fail.

use e2e::isolation::isolated;
use e2e::wait::eventually;
use stand_ins::engine::{DURATION_HEADER, ID_HEADER};

use crate::altered;
use crate::client::{ask, empty, query, raw, send};
use crate::scene::{Scene, pod};
use crate::scripted::{Script, Scripted};

#[test]
fn a_gateway_that_repeats_after_resets_is_seen_to_repeat() {
    isolated(async {
        let mut scene = Scene::start_altered(altered::repeat_after_resets).await;
        let (good, bad) = (
            pod("good", 11).await,
            Scripted::start(12, Script::ResetAfterRequest).await,
        );
        scene.route("one", [11, 12]).await;
        eventually("a query reaches both pods", async || {
            send(empty(query("one").header(ID_HEADER, "q"))).await;
            !bad.queries().is_empty()
        })
        .await;
        assert!(
            good.executed().len() >= bad.queries().len(),
            "what one pod had received was sent to the other"
        );
    });
}

#[test]
fn a_route_without_a_guard_is_seen_to_be_an_open_proxy() {
    isolated(async {
        let _scene = Scene::start_altered(|configuration| {
            altered::break_script(configuration);
            altered::open_the_route(configuration);
        })
        .await;
        let victim = Scripted::start(99, Script::Echo).await;
        raw("GET / HTTP/1.1\r\nHost: 127.0.0.99:3473\r\nConnection: close\r\n\r\n").await;
        assert!(victim.connections() > 0);
    });
}

#[test]
fn a_gateway_that_trusts_health_alone_is_seen_to_fail_queries() {
    isolated(async {
        let mut scene = Scene::start_altered(altered::trust_health_alone).await;
        let engine = scene.engine("one", 11).await;
        ask("one").await.answer();
        engine.set_ready(false);
        eventually("the only pod is not tried", async || ask("one").await.status == 503).await;
    });
}

#[test]
fn a_gateway_that_obeys_clients_is_seen_to_obey() {
    isolated(async {
        let mut scene = Scene::start_altered(altered::obey_clients).await;
        let _engine = scene.engine("one", 11).await;
        let query = query("one")
            .header("x-envoy-upstream-rq-timeout-ms", "1")
            .header(DURATION_HEADER, "10s");
        assert_eq!(
            send(empty(query)).await.status,
            503,
            "it ended the query after a millisecond"
        );
    });
}
