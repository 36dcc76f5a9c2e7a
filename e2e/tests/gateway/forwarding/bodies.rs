//! Bodies arrive whole, and are sent again if they are small enough to be buffered.

use e2e::isolation::isolated;
use e2e::wait::eventually;
use http::Request;
use hyper::body::Bytes;
use stand_ins::engine::DRAINED_HEADER;

use crate::testenv::bodies::{KEPT, assert_whole, assert_whole_raw, body, in_chunks};
use crate::testenv::client::{GATEWAY, Reply, SELECTOR, Upload, query, raw, send, send_http2, with_body};
use crate::testenv::scripted_engine::{Script, Scripted};
use crate::testenv::{TestEnv, pod};

async fn post(body: &Bytes) -> Reply {
    send(with_body(query("one"), body.clone())).await
}

#[test]
fn a_body_of_any_size_arrives_whole() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        for size in [0, 1, 65_536, KEPT - 1, KEPT, KEPT + 1, 10 * KEPT] {
            let body = body(size);
            assert_whole(&post(&body).await, &body);
            assert_whole_raw(&raw(in_chunks(&body)).await, &body);
        }
    });
}

#[test]
fn a_body_in_chunks_or_by_http2_is_sent_again_as_well() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (_good, bad) = (pod("good", 11).await, Scripted::start(12, Script::Drained).await);
        env.route("one", [11, 12]).await;
        let body = body(KEPT);
        eventually("the draining pod refuses one in chunks", async || {
            assert_whole_raw(&raw(in_chunks(&body)).await, &body);
            !bad.queries().is_empty()
        })
        .await;
        let before = bad.queries().len();
        eventually("the draining pod refuses one over HTTP/2", async || {
            let request = Request::post(format!("http://{GATEWAY}/")).header(SELECTOR, "one");
            assert_whole(&send_http2(with_body(request, body.clone())).await.unwrap(), &body);
            bad.queries().len() > before
        })
        .await;
    });
}

/// An engine refuses a query while the client is still sending it. The client does not notice.
#[test]
fn an_upload_that_is_refused_midway_is_sent_again_from_its_start() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let bad = Scripted::start(12, Script::DrainedEarly).await;
        env.route("one", [12]).await;
        let whole = body(100_000);
        let head = format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{SELECTOR}: one\r\nContent-Length: {}\r\n\r\n",
            whole.len()
        );
        let (first, second) = whole.split_at(1000);
        let mut upload = Upload::start(&[head.as_bytes(), first].concat()).await;
        eventually("the query is refused", async || bad.queries().len() > 1).await;
        let good = pod("good", 11).await;
        env.route("one", [11]).await;
        upload.send(second).await;
        assert_whole_raw(&upload.reply().await, &whole);
        assert_eq!(good.executed().len(), 1);
    });
}

#[test]
fn a_body_that_is_not_too_large_is_sent_again() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (_good, bad) = (pod("good", 11).await, Scripted::start(12, Script::Drained).await);
        env.route("one", [11, 12]).await;
        for size in [0, 1, 100_000, KEPT] {
            let (body, before) = (body(size), bad.queries().len());
            eventually("the draining pod refuses one", async || {
                assert_whole(&post(&body).await, &body);
                bad.queries().len() > before
            })
            .await;
        }
    });
}

#[test]
fn a_body_that_is_too_large_to_be_buffered_is_not_sent_again() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (good, bad) = (pod("good", 11).await, Scripted::start(12, Script::Drained).await);
        env.route("one", [11, 12]).await;
        let body = body(KEPT + 1);
        let mut answered = 0;
        eventually("the draining pod refuses one", async || {
            let reply = post(&body).await;
            if reply.status == 200 {
                assert_whole(&reply, &body);
                answered += 1;
            } else {
                assert_eq!(reply.status, 503);
                assert!(
                    reply.headers.contains_key(DRAINED_HEADER),
                    "the client can tell: {reply:?}"
                );
            }
            bad.queries().len() > 1
        })
        .await;
        assert_eq!(good.executed().len(), answered);
    });
}
