//! The access log: a JSON object for each request, without secrets.

use e2e::isolation::isolated;
use e2e::wait::eventually;
use serde_json::Value;
use stand_ins::engine::ID_HEADER;

use crate::testenv::TestEnv;
use crate::testenv::client::{ask, empty, query, raw, request, send, with_body};

/// The log once it has this many lines.
async fn lines(env: &TestEnv, count: usize) -> Vec<Value> {
    eventually("the log is written", async || env.envoy.access_log().len() >= count).await;
    env.envoy.access_log()
}

#[test]
fn a_line_describes_the_outcome_of_a_query() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let reply = send(with_body(query("one").uri("/a/b?c=d"), "SELECT a")).await;
        reply.answer();
        let log = lines(&env, 1).await;
        let [line] = log.as_slice() else { panic!("{log:?}") };
        let text = |key: &str| line[key].as_str().unwrap_or_else(|| panic!("no {key} in {line}"));
        assert_eq!((text("engine"), text("method"), text("path")), ("one", "POST", "/a/b"));
        assert_eq!((text("protocol"), text("upstream")), ("HTTP/1.1", "127.0.0.11:3473"));
        assert_eq!(
            (&line["status"], &line["attempts"]),
            (&Value::from(200), &Value::from(1))
        );
        assert_eq!(line["bytes_received"], 8);
        assert_eq!(line["bytes_sent"], reply.body.len());
        assert_eq!(text("request_id"), reply.headers["x-request-id"]);
        assert!(line["duration_ms"].is_u64() && text("time").ends_with('Z'), "{line}");
    });
}

#[test]
fn failures_are_logged_with_engine_and_cause() {
    isolated(async {
        let env = TestEnv::start().await;
        assert_eq!(ask("absent").await.status, 503);
        assert_eq!(send(empty(request("/x"))).await.status, 400);
        let log = lines(&env, 2).await;
        assert_eq!(
            (&log[0]["engine"], &log[0]["status"]),
            (&Value::from("absent"), &Value::from(503))
        );
        assert_ne!(log[0]["flags"], Value::Null, "{}", log[0]);
        assert_eq!(
            (&log[1]["engine"], &log[1]["status"]),
            (&Value::Null, &Value::from(400))
        );
        assert_eq!(log[1]["path"], "/x");
    });
}

#[test]
fn retries_are_counted() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let old = env.engine("one", 11).await;
        ask("one").await.answer();
        old.begin_shutdown();
        let waiting = tokio::spawn(ask("one"));
        eventually("the query was refused", async || old.rejected() > 2).await;
        let _new = crate::testenv::pod("new", 12).await;
        env.route("one", [12]).await;
        waiting.await.unwrap().answer();
        let log = lines(&env, 2).await;
        assert!(log[1]["attempts"].as_u64().unwrap() > 3, "{}", log[1]);
        assert_eq!(log[1]["upstream"], "127.0.0.12:3473");
    });
}

#[test]
fn health_is_not_logged() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        for _ in 0..10 {
            raw("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        }
        ask("one").await.answer();
        assert_eq!(lines(&env, 1).await.len(), 1);
    });
}

const SECRET: &str = "s3cr3t";

#[test]
fn no_secret_is_logged() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let target = format!("/path?password={SECRET}&engine=one&q=SELECT%20'{SECRET}'");
        let with_secrets = |builder: http::request::Builder| {
            let builder = builder
                .header("authorization", format!("Bearer {SECRET}"))
                .header("cookie", format!("session={SECRET}"))
                .header("x-envoy-original-path", format!("/{SECRET}"))
                .header("referer", format!("http://a/?{SECRET}"))
                .header("user-agent", SECRET)
                .header(ID_HEADER, SECRET);
            with_body(builder, SECRET)
        };
        assert_eq!(send(with_secrets(request(&target))).await.status, 200);
        assert_eq!(
            send(with_secrets(request(&format!("/?engine={SECRET}!")))).await.status,
            400
        );
        assert_eq!(send(with_secrets(query("absent"))).await.status, 503);
        let log = lines(&env, 3).await;
        assert!(log.iter().all(|line| !line.to_string().contains(SECRET)), "{log:#?}");
    });
}

/// No request can add lines to the log or make a line invalid.
#[test]
fn the_log_cannot_be_forged() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let heads: [&[u8]; 5] = [
            b"GET /\"},{\"a\":\"%0a%0d HTTP/1.1\r\nHost: a\r\n",
            b"GET /?engine=one HTTP/1.1\r\nHost: a\r\nX-Request-Id: \"}{\"status\":1,\"\\\r\n",
            b"GET /?engine=one HTTP/1.1\r\nHost: a\r\nX-Request-Id: \xff\xfe\xc3\x28\r\n",
            b"GE\"T /?engine=one HTTP/1.1\r\nHost: a\r\n",
            b"GET /\xff\xfe?engine=one HTTP/1.1\r\nHost: a\r\n",
        ];
        for head in heads {
            raw([head, b"Connection: close\r\n\r\n"].concat()).await;
        }
        ask("one").await.answer();
        eventually("the last query is logged", async || {
            env.envoy
                .access_log()
                .last()
                .is_some_and(|line| line["path"] == "/" && line["status"] == 200)
        })
        .await;
        assert!(env.envoy.access_log().len() <= heads.len() + 1);
    });
}
