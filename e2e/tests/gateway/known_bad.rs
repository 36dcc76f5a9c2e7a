//! Known-bad configurations: proof that the other tests can fail.

use e2e::isolation::isolated;
use e2e::wait::eventually;
use stand_ins::engine::{DURATION_HEADER, ID_HEADER};

use crate::testenv::client::{ask, empty, query, raw, send};
use crate::testenv::known_bad_configuration;
use crate::testenv::scripted_engine::{Script, Scripted};
use crate::testenv::{TestEnv, pod};

#[test]
fn a_gateway_that_retries_after_resets_is_found() {
    isolated(async {
        let mut env = TestEnv::start_altered(known_bad_configuration::retry_after_resets).await;
        let (good, bad) = (
            pod("good", 11).await,
            Scripted::start(12, Script::ResetAfterRequest).await,
        );
        env.route("one", [11, 12]).await;
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
fn a_route_without_a_guard_is_found_to_be_an_open_proxy() {
    isolated(async {
        let _env = TestEnv::start_altered(|configuration| {
            known_bad_configuration::break_selection_script(configuration);
            known_bad_configuration::remove_route_guard(configuration);
        })
        .await;
        let victim = Scripted::start(99, Script::Echo).await;
        raw("GET / HTTP/1.1\r\nHost: 127.0.0.99:3473\r\nConnection: close\r\n\r\n").await;
        assert!(victim.connections() > 0);
    });
}

#[test]
fn a_gateway_without_panic_routing_is_found_to_fail_queries() {
    isolated(async {
        let mut env = TestEnv::start_altered(known_bad_configuration::disable_panic_routing).await;
        let engine = env.engine("one", 11).await;
        ask("one").await.answer();
        engine.set_ready(false);
        eventually("the only pod is not tried", async || ask("one").await.status == 503).await;
    });
}

#[test]
fn a_gateway_that_accepts_control_headers_is_found() {
    isolated(async {
        let mut env = TestEnv::start_altered(known_bad_configuration::accept_control_headers).await;
        let _engine = env.engine("one", 11).await;
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
