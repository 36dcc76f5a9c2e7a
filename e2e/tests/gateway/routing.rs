//! A request reaches the engine that it names, and changes as little as possible on the way.

use e2e::isolation::isolated;
use firebolt_api::name::MAX_ENGINE_NAME;
use http::header::HOST;
use stand_ins::engine::DURATION_HEADER;

use crate::client::{GATEWAY, SELECTOR, ask, empty, query, raw, request, send, send_http2, with_body};
use crate::scene::{DOMAIN, NAMESPACE, Scene};
use crate::scripted::{Script, Scripted};

#[test]
fn the_header_selects_the_engine() {
    isolated(async {
        let mut scene = Scene::start().await;
        let (one, two) = (scene.engine("one", 11).await, scene.engine("two", 12).await);
        assert_eq!(ask("one").await.answer().pod, "one");
        assert_eq!(ask("two").await.answer().pod, "two");
        assert_eq!((one.executed().len(), two.executed().len()), (1, 1));
    });
}

#[test]
fn the_engine_sees_its_own_name_and_address_and_the_rest_of_the_request() {
    isolated(async {
        let mut scene = Scene::start().await;
        let _engine = scene.engine("one", 11).await;
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
fn the_answer_of_the_engine_is_passed_on_as_it_is() {
    isolated(async {
        let mut scene = Scene::start().await;
        let _engine = Scripted::start(11, Script::Status(418)).await;
        scene.route("one", [11]).await;
        let reply = ask("one").await;
        assert_eq!((reply.status, reply.body.len()), (418, 0));
        let names: Vec<&str> = reply.headers.keys().map(http::HeaderName::as_str).collect();
        assert!(!names.iter().any(|name| name.starts_with("x-envoy-")), "{names:?}");
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

/// The parameter is taken out, and everything else stays byte for byte and in its order.
#[test]
fn the_parameter_selects_the_engine_and_is_taken_out() {
    isolated(async {
        let mut scene = Scene::start().await;
        let engine = Scripted::start(11, Script::Echo).await;
        scene.route("one", [11]).await;
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
        let mut scene = Scene::start().await;
        let _engine = scene.engine("one", 11).await;
        let both = request("/?engine=one&a=1").header(SELECTOR, "one");
        assert_eq!(send(empty(both)).await.answer().target, "/?a=1");
    });
}

/// Every request that selects no engine is refused, in one shape, before any engine hears of it.
#[test]
fn a_selection_that_is_not_clear_is_refused() {
    isolated(async {
        let mut scene = Scene::start().await;
        let engine = scene.engine("one", 11).await;
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
        // The longest name that a Service can have is not refused for its form.
        let unknown = send(empty(query(&longest))).await;
        assert_ne!(unknown.status, 200);
    });
}

#[test]
fn a_client_may_speak_http2_without_encryption() {
    isolated(async {
        let mut scene = Scene::start().await;
        let _engine = scene.engine("one", 11).await;
        let uri = format!("http://{GATEWAY}/a?engine=one&b=%20");
        let request = http::Request::post(uri).header(SELECTOR, "one");
        let answer = send_http2(with_body(request, "SELECT a")).await.unwrap().answer();
        assert_eq!((answer.target.as_str(), answer.body_bytes), ("/a?b=%20", 8));
        let refused = http::Request::get(format!("http://{GATEWAY}/"));
        let reply = send_http2(empty(refused)).await.unwrap();
        assert_eq!(reply.error(), (400, "engine_missing".to_owned()));
    });
}

/// Envoy's own limit, which is off here, is fifteen seconds.
const LONG: &str = "16s";

#[test]
fn a_query_may_take_as_long_as_it_takes() {
    isolated(async {
        let mut scene = Scene::start().await;
        let _engine = scene.engine("one", 11).await;
        let query = query("one").header(DURATION_HEADER, LONG);
        send(empty(query)).await.answer();
    });
}

#[test]
fn the_host_header_has_no_say() {
    isolated(async {
        let mut scene = Scene::start().await;
        let (_one, two) = (scene.engine("one", 11).await, scene.engine("two", 12).await);
        let host = format!("two-service.{NAMESPACE}.svc.{DOMAIN}:3473");
        let query = http::Request::get("/").header(HOST, host).header(SELECTOR, "one");
        assert_eq!(send(empty(query)).await.answer().pod, "one");
        assert!(two.executed().is_empty());
    });
}
