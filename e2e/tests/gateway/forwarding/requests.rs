//! A request reaches its engine, and its response the client, with as few changes as possible.

use e2e::isolation::isolated;
use stand_ins::engine::DURATION_HEADER;

use crate::testenv::client::{SELECTOR, ask, empty, query, request, send, with_body};
use crate::testenv::scripted_engine::{Script, Scripted};
use crate::testenv::{DOMAIN, NAMESPACE, TestEnv};

#[test]
fn the_engine_receives_its_own_address_and_the_rest_of_the_request() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let query = request("/a/b?engine=one&x=1")
            .header("authorization", "Bearer abc")
            .header("x-own", "1")
            .header("x-own", "2");
        let answer = send(with_body(query, "SELECT a")).await.answer();
        assert_eq!((answer.method.as_str(), answer.target.as_str()), ("POST", "/a/b?x=1"));
        let authority = format!("one-service.{NAMESPACE}.svc.{DOMAIN}:3473");
        assert_eq!(answer.header("host").collect::<Vec<_>>(), [authority]);
        assert_eq!(answer.header(SELECTOR).collect::<Vec<_>>(), ["one"]);
        assert_eq!(answer.header("authorization").collect::<Vec<_>>(), ["Bearer abc"]);
        assert_eq!(answer.header("x-own").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(answer.header("x-forwarded-for").collect::<Vec<_>>(), ["127.0.0.1"]);
        assert_eq!(answer.body_bytes, 8);
    });
}

#[test]
fn the_response_of_the_engine_is_unchanged() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = Scripted::start(11, Script::Status(418)).await;
        env.route("one", [11]).await;
        let reply = ask("one").await;
        assert_eq!((reply.status, reply.body.len()), (418, 0));
        let names: Vec<&str> = reply.headers.keys().map(http::HeaderName::as_str).collect();
        assert!(!names.iter().any(|name| name.starts_with("x-envoy-")), "{names:?}");
    });
}

/// Envoy's own limit, which is off here, is fifteen seconds.
const LONG: &str = "16s";

#[test]
fn a_query_has_no_time_limit() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let query = query("one").header(DURATION_HEADER, LONG);
        send(empty(query)).await.answer();
    });
}
