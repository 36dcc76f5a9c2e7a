//! The header and the parameter that select an engine.

use e2e::isolation::isolated;
use firebolt_api::name::MAX_ENGINE_NAME;
use http::header::HOST;

use crate::testenv::client::{GATEWAY, SELECTOR, ask, empty, query, raw, request, send, send_http2, with_body};
use crate::testenv::scripted_engine::{Script, Scripted};
use crate::testenv::{DOMAIN, NAMESPACE, TestEnv};

#[test]
fn the_header_selects_the_engine() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (one, two) = (env.engine("one", 11).await, env.engine("two", 12).await);
        assert_eq!(ask("one").await.answer().pod, "one");
        assert_eq!(ask("two").await.answer().pod, "two");
        assert_eq!((one.executed().len(), two.executed().len()), (1, 1));
    });
}

/// What is sent, and what the engine receives of it.
const TARGETS: [(&str, &str); 14] = [
    ("/?engine=one", "/"),
    ("/a%2Fb?engine=one", "/a%2Fb"),
    ("/?engine=one&b=2", "/?b=2"),
    ("/?a=1&engine=one", "/?a=1"),
    ("/?b=2&engine=one&a=1", "/?b=2&a=1"),
    ("/?%65ngine=one", "/"),
    ("/?engine=%6F%6ee", "/"),
    ("/?&&engine=one&&", "/?&&&"),
    ("/?a=%zz%&engine=one&%=b", "/?a=%zz%&%=b"),
    ("/?a=1&a=2&engine=one&a=%61", "/?a=1&a=2&a=%61"),
    ("/?a=b+c;d&engine=one&e;f=g", "/?a=b+c;d&e;f=g"),
    ("/?a=?&engine=one", "/?a=?"),
    (
        "/?engines=x&Engine=y&engine=one&xengine=z",
        "/?engines=x&Engine=y&xengine=z",
    ),
    ("/?a=\"[{}]|^`\"&engine=one", "/?a=\"[{}]|^`\""),
];

/// The parameter is removed, and everything else stays unchanged, byte for byte and in order.
#[test]
fn the_parameter_selects_the_engine_and_is_removed() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let engine = Scripted::start(11, Script::Echo).await;
        env.route("one", [11]).await;
        for (sent, received) in TARGETS {
            let reply = raw(format!(
                "GET {sent} HTTP/1.1\r\nHost: gateway.example\r\nConnection: close\r\n\r\n"
            ))
            .await;
            assert_eq!(reply.status(), Some(200), "{sent}: {}", reply.text());
            let head = String::from_utf8(reply.body().to_owned()).unwrap();
            assert_eq!(head.split(' ').nth(1), Some(received), "{sent}: {head}");
        }
        assert_eq!(engine.queries().len(), TARGETS.len());
    });
}

#[test]
fn header_and_parameter_may_agree() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let both = request("/?engine=one&a=1").header(SELECTOR, "one");
        assert_eq!(send(empty(both)).await.answer().target, "/?a=1");
    });
}

/// Every request without a valid selection is refused with the same shape of error, before it reaches an engine.
#[test]
fn an_ambiguous_selection_is_refused() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let engine = env.engine("one", 11).await;
        let plain = |target: &str| request(target);
        let with_header = |target: &str, value: &str| request(target).header(SELECTOR, value);
        let longest = "x".repeat(MAX_ENGINE_NAME);
        let too_long = "x".repeat(MAX_ENGINE_NAME + 1);
        let cases = [
            (plain("/"), "engine_missing"),
            (plain("/?a=engine"), "engine_missing"),
            (plain("/engine=one"), "engine_missing"),
            (plain("/?Engine=one"), "engine_missing"),
            (plain("/?engine=one&engine=one"), "engine_repeated"),
            (plain("/?engine=one&%65ngine=two"), "engine_repeated"),
            (with_header("/", "one").header(SELECTOR, "one"), "engine_repeated"),
            (with_header("/?engine=two", "one"), "engine_conflict"),
            (with_header("/?engine=", "one"), "engine_conflict"),
            (with_header("/", ""), "engine_malformed"),
            (with_header("/?engine=one", ""), "engine_malformed"),
            (with_header("/", "One"), "engine_malformed"),
            (with_header("/", "one."), "engine_malformed"),
            (with_header("/", "one,two"), "engine_malformed"),
            (with_header("/", "one-"), "engine_malformed"),
            (with_header("/", "-one"), "engine_malformed"),
            (with_header("/", &too_long), "engine_malformed"),
            (plain("/?engine"), "engine_malformed"),
            (plain("/?engine="), "engine_malformed"),
            (plain("/?engine=%6"), "engine_malformed"),
            (plain("/?engine=%00"), "engine_malformed"),
            (plain("/?engine=one%00"), "engine_malformed"),
            (plain("/?engine=one+"), "engine_malformed"),
            (plain("/?engine=127.0.0.1"), "engine_malformed"),
        ];
        for (builder, code) in cases {
            let query = empty(builder);
            let shown = format!("{query:?}");
            let reply = send(query).await;
            assert_eq!(reply.error(), (400, code.to_owned()), "{shown}");
        }
        assert!(engine.executed().is_empty());
        // The longest valid name is accepted by the selection.
        let unknown = send(empty(query(&longest))).await;
        assert_ne!(unknown.status, 200);
    });
}

#[test]
fn a_client_may_speak_http2_without_encryption() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let uri = format!("http://{GATEWAY}/a?engine=one&b=%20");
        let request = http::Request::post(uri).header(SELECTOR, "one");
        let answer = send_http2(with_body(request, "SELECT a")).await.unwrap().answer();
        assert_eq!((answer.target.as_str(), answer.body_bytes), ("/a?b=%20", 8));
        let refused = http::Request::get(format!("http://{GATEWAY}/"));
        let reply = send_http2(empty(refused)).await.unwrap();
        assert_eq!(reply.error(), (400, "engine_missing".to_owned()));
    });
}

#[test]
fn the_host_header_is_ignored() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (_one, two) = (env.engine("one", 11).await, env.engine("two", 12).await);
        let host = format!("two-service.{NAMESPACE}.svc.{DOMAIN}:3473");
        let query = http::Request::get("/").header(HOST, host).header(SELECTOR, "one");
        assert_eq!(send(empty(query)).await.answer().pod, "one");
        assert!(two.executed().is_empty());
    });
}
