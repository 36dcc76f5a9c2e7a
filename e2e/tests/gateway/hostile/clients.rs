//! Clients that try to bypass the selection, to control Envoy, or to exhaust it.

use std::time::Duration;

use e2e::isolation::isolated;
use e2e::wait::SOON;
use futures::StreamExt;
use http::Request;
use http::header::HOST;
use stand_ins::engine::DURATION_HEADER;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::testenv::client::{
    GATEWAY, SELECTOR, ask, empty, error_code, query, raw, raw_until_closed, send, send_http2,
};
use crate::testenv::known_bad_configuration;
use crate::testenv::scripted_engine::{Script, Scripted};
use crate::testenv::{DOMAIN, NAMESPACE, TestEnv};

const CLOSE: &str = "Connection: close\r\n";

/// A server outside the cluster, whose address a client could name as the destination.
const VICTIM: &str = "127.0.0.99:3473";

/// Request heads that name a destination without selecting an engine.
const HEADS: [&str; 16] = [
    "GET / HTTP/1.1\r\nHost: 127.0.0.99:3473\r\n",
    "GET http://127.0.0.99:3473/ HTTP/1.1\r\nHost: a\r\n",
    "GET https://127.0.0.99:3473/ HTTP/1.1\r\nHost: 127.0.0.99:3473\r\n",
    "GET http://127.0.0.99:3473 HTTP/1.1\r\nHost: a\r\n",
    "CONNECT 127.0.0.99:3473 HTTP/1.1\r\nHost: 127.0.0.99:3473\r\n",
    "CONNECT 127.0.0.99:3473 HTTP/1.1\r\nHost: a\r\nX-Firebolt-Engine: one\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.99:3473\r\n",
    "GET / HTTP/1.1\r\nHost: victim-service.analytics.svc.cluster.example:3473\r\n",
    "GET / HTTP/1.1\r\nHost: 127.0.0.99:3473\r\nUpgrade: websocket\r\nConnection: upgrade\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX-Envoy-Original-Dst-Host: 127.0.0.99:3473\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX-Envoy-Dynamic-Host: 127.0.0.99:3473\r\n",
    "GET / HTTP/1.1\r\nHost: 127.0.0.99:3473\r\nX-Firebolt-Engine: \r\n",
    "GET /?engine=%zz HTTP/1.1\r\nHost: 127.0.0.99:3473\r\n",
    "GET /?engine=127.0.0.99:3473%2f HTTP/1.1\r\nHost: a\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: 127.0.0.99:3473\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Host: 127.0.0.99:3473\r\nX-Host: 127.0.0.99:3473\r\n",
];

#[test]
fn a_request_without_a_selected_engine_is_not_forwarded() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let victim = Scripted::start(99, Script::Echo).await;
        let _engine = env.engine("one", 11).await;
        env.route("victim", [99]).await;
        for head in HEADS {
            let reply = raw(format!("{head}{CLOSE}\r\n")).await;
            assert!(matches!(reply.status(), Some(400..=499)), "{head}: {}", reply.text());
            assert_eq!(victim.connections(), 0, "{head}: {}", reply.text());
        }
    });
}

/// Defence in depth: a request that the script has not handled is not forwarded, even if it names an engine's Service.
#[test]
fn a_failing_script_forwards_nothing() {
    isolated(async {
        let mut env = TestEnv::start_altered(known_bad_configuration::break_selection_script).await;
        let victim = Scripted::start(99, Script::Echo).await;
        env.route("victim", [99]).await;
        for head in HEADS {
            let reply = raw(format!("{head}X-Firebolt-Engine: victim\r\n{CLOSE}\r\n")).await;
            assert!(matches!(reply.status(), Some(400..=599)), "{head}: {}", reply.text());
            assert_eq!(victim.connections(), 0, "{head}: {}", reply.text());
        }
    });
}

#[test]
fn the_authority_of_http2_leads_nowhere() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let victim = Scripted::start(99, Script::Echo).await;
        let _engine = env.engine("one", 11).await;
        let plain = Request::get(format!("http://{VICTIM}/"));
        assert_eq!(
            send_http2(empty(plain)).await.unwrap().error(),
            (400, "engine_missing".to_owned())
        );
        let service = Request::get(format!("http://victim-service.{NAMESPACE}.svc.{DOMAIN}:3473/"));
        assert_eq!(
            send_http2(empty(service)).await.unwrap().error(),
            (400, "engine_missing".to_owned())
        );
        let connect = Request::connect(VICTIM).header(SELECTOR, "one");
        let refused = send_http2(empty(connect)).await;
        assert!(
            refused.as_ref().map_or(true, |reply| reply.status >= 400),
            "{refused:?}"
        );
        let selected = Request::get(format!("http://{VICTIM}/")).header(SELECTOR, "one");
        assert_eq!(send_http2(empty(selected)).await.unwrap().answer().pod, "one");
        assert_eq!(victim.connections(), 0);
    });
}

/// Control headers of Envoy, with values whose effect would show.
const ORDERS: [(&str, &str); 13] = [
    ("x-envoy-upstream-rq-timeout-ms", "1"),
    ("x-envoy-upstream-rq-per-try-timeout-ms", "1"),
    ("x-envoy-expected-rq-timeout-ms", "1"),
    ("x-envoy-retry-on", "5xx,reset,retriable-4xx,retriable-status-codes"),
    ("x-envoy-retriable-status-codes", "500"),
    ("x-envoy-retriable-header-names", "content-length"),
    ("x-envoy-max-retries", "9"),
    ("x-envoy-hedge-on-per-try-timeout", "true"),
    ("x-envoy-original-path", "/elsewhere"),
    ("x-envoy-original-dst-host", VICTIM),
    ("x-envoy-internal", "true"),
    ("x-envoy-force-trace", "true"),
    ("x-envoy-something-new", "true"),
];

#[test]
fn control_headers_of_envoy_have_no_effect_and_are_removed() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let broken = Scripted::start(12, Script::Status(500)).await;
        env.route("broken", [12]).await;
        let victim = Scripted::start(99, Script::Echo).await;
        // A client that claims to be internal is treated like others.
        for forwarded in [None, Some("10.0.0.1"), Some("127.0.0.1")] {
            let with_orders = |engine: &str| {
                let mut builder = ORDERS
                    .iter()
                    .fold(query(engine), |builder, (name, value)| builder.header(*name, *value));
                builder = builder.header(DURATION_HEADER, "300ms");
                empty(
                    forwarded
                        .into_iter()
                        .fold(builder, |builder, value| builder.header("x-forwarded-for", value)),
                )
            };
            let answer = send(with_orders("one")).await.answer();
            for (name, value) in ORDERS {
                assert!(
                    !answer.header(name).any(|passed| passed == value),
                    "{name} was passed on: {answer:?}"
                );
            }
            let before = broken.queries().len();
            assert_eq!(send(with_orders("broken")).await.status, 500);
            assert_eq!(
                broken.queries().len(),
                before + 1,
                "a query was repeated by order of a client"
            );
        }
        assert_eq!(victim.connections(), 0);
    });
}

#[test]
fn a_client_that_does_not_finish_its_request_head_is_disconnected() {
    isolated(async {
        let _env = TestEnv::start().await;
        let mut socket = TcpStream::connect(GATEWAY).await.unwrap();
        socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").await.unwrap();
        let (mut reader, mut writer) = socket.into_split();
        // A header now and then keeps the connection from being idle, but it is still slow.
        let drip = tokio::spawn(async move {
            for number in 0.. {
                tokio::time::sleep(Duration::from_millis(500)).await;
                if writer.write_all(format!("X-{number}: 1\r\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let mut answer = Vec::new();
        let _reset = timeout(SOON, reader.read_to_end(&mut answer))
            .await
            .expect("it is cut off");
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
        drip.abort();
    });
}

#[test]
fn an_invalid_request_is_refused() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let engine = env.engine("one", 11).await;
        let one = "X-Firebolt-Engine: one\r\n";
        let cases = [
            (format!("{one}X-Huge: {}\r\n", "x".repeat(100_000)), 431),
            (format!("X-Firebolt-Engine: {}\r\n", "x".repeat(50_000)), 400),
            (format!("{one}{}", "X-Many: 1\r\n".repeat(500)), 431),
            (format!("{one}Content-Length: 1\r\nContent-Length: 2\r\n"), 400),
            (format!("{one}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400),
            (format!("{one}Transfer-Encoding: gzip, chunked\r\n"), 501),
            (format!("{one}X_Firebolt_Engine: two\r\n"), 400),
            (format!("{one}X-A: a\0b\r\n"), 400),
            (format!("{one}X-A : a\r\n"), 400),
        ];
        for (headers, status) in cases {
            let start = &headers[..headers.len().min(80)];
            let reply = raw(format!("POST / HTTP/1.1\r\nHost: a\r\n{CLOSE}{headers}\r\n")).await;
            assert_eq!(reply.status(), Some(status), "{start}: {}", reply.text());
            error_code(reply.body());
        }
        assert!(engine.executed().is_empty());
        assert_eq!(ask("one").await.status, 200, "the gateway is well");
    });
}

/// A header that is continued on the next line is one header, whatever its continuation looks like.
#[test]
fn a_selector_cannot_hide_in_the_continuation_of_a_header() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (_one, two) = (env.engine("one", 11).await, env.engine("two", 12).await);
        let folded = "X-Firebolt-Engine: one\r\nX-A: a\r\n  X-Firebolt-Engine: two\r\n";
        raw(format!("GET / HTTP/1.1\r\nHost: a\r\n{CLOSE}{folded}\r\n")).await;
        assert!(two.executed().is_empty());
    });
}

#[test]
fn an_upgrade_is_an_ordinary_query() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let websocket = "GET / HTTP/1.1\r\nHost: a\r\nX-Firebolt-Engine: one\r\nUpgrade: websocket\r\n\
                         Connection: upgrade, close\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n";
        let reply = raw(websocket).await;
        assert_eq!(reply.status(), Some(200), "{}", reply.text());
    });
}

#[test]
fn requests_on_one_connection_are_separate() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (one, two) = (env.engine("one", 11).await, env.engine("two", 12).await);
        let first = "GET /?engine=one HTTP/1.1\r\nHost: a\r\n\r\n";
        let second = "GET /?engine=two HTTP/1.1\r\nHost: a\r\n\r\n";
        let third = format!("GET / HTTP/1.1\r\nHost: a\r\n{CLOSE}\r\n");
        let replies = raw_until_closed(format!("{first}{second}{third}")).await.text();
        let statuses: Vec<&str> = replies
            .match_indices("HTTP/1.1 ")
            .map(|(at, _)| &replies[at + 9..at + 12])
            .collect();
        assert_eq!(statuses, ["200", "200", "400"], "{replies}");
        assert_eq!((one.executed().len(), two.executed().len()), (1, 1));
    });
}

/// More names than the gateway keeps.
const MADE_UP_NAMES: usize = 1500;
/// The timeout for the responses to all of them. It catches a gateway that stops responding, and measures nothing.
const ALL_RESPONSES: Duration = Duration::from_mins(2);

#[test]
fn made_up_names_do_not_harm_engines_in_use() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _early = env.engine("early", 11).await;
        ask("early").await.answer();
        let replies = futures::stream::iter(0..MADE_UP_NAMES).map(|number| async move {
            send(empty(query(&format!("made-up-{number}")).header(HOST, "a")))
                .await
                .error()
        });
        let replies = replies.buffer_unordered(64).collect();
        let replies: Vec<(u16, String)> = timeout(ALL_RESPONSES, replies).await.unwrap();
        assert!(replies.iter().all(|(status, _)| *status == 503));
        assert_eq!(ask("early").await.answer().pod, "early");
    });
}
