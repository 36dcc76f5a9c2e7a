//! Bodies arrive whole, and are sent again if they are not too large to be kept.

use e2e::isolation::isolated;
use e2e::wait::eventually;
use http::Request;
use hyper::body::Bytes;
use sha2::{Digest, Sha256};
use stand_ins::engine::{Answer, DRAINED_HEADER};

use crate::client::{GATEWAY, RawReply, Reply, SELECTOR, Upload, query, raw, send, send_http2, with_body};
use crate::scene::{Scene, pod};
use crate::scripted::{Script, Scripted};

/// The largest body that is kept for another attempt.
pub const KEPT: usize = 2 * 1024 * 1024;

/// A body without any regularity that could hide a part which is lost or sent twice.
pub fn body(size: usize) -> Bytes {
    let mut state: u32 = 1;
    let bytes = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    bytes.take(size).collect()
}

async fn post(body: &Bytes) -> Reply {
    send(with_body(query("one"), body.clone())).await
}

#[track_caller]
pub fn assert_whole(reply: &Reply, body: &Bytes) {
    let answer = reply.answer();
    assert_eq!(answer.body_bytes, body.len() as u64);
    assert_eq!(answer.body_sha256, digest(body));
}

fn digest(body: &Bytes) -> String {
    format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(body)))
}

#[test]
fn a_body_of_any_size_arrives_whole() {
    isolated(async {
        let mut scene = Scene::start().await;
        let _engine = scene.engine("one", 11).await;
        for size in [0, 1, 65_536, KEPT - 1, KEPT, KEPT + 1, 10 * KEPT] {
            let body = body(size);
            assert_whole(&post(&body).await, &body);
            assert_whole_raw(&raw(in_chunks(&body)).await, &body);
        }
    });
}

/// The head and the body of a query whose client does not say beforehand how long it is.
pub fn in_chunks(body: &Bytes) -> Vec<u8> {
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nX-Firebolt-Engine: one\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut bytes = head.to_vec();
    for chunk in body.chunks(100_000) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

#[track_caller]
pub fn assert_whole_raw(reply: &RawReply, body: &Bytes) {
    assert_eq!(reply.status(), Some(200), "{}", reply.text());
    let answer: Answer = serde_json::from_slice(reply.body()).unwrap();
    assert_eq!(
        (answer.body_bytes, answer.body_sha256),
        (body.len() as u64, digest(body))
    );
}

#[test]
fn a_body_in_chunks_or_by_http2_is_sent_again_as_well() {
    isolated(async {
        let mut scene = Scene::start().await;
        let (_good, bad) = (pod("good", 11).await, Scripted::start(12, Script::Drained).await);
        scene.route("one", [11, 12]).await;
        let body = body(KEPT);
        eventually("the draining pod turns one in chunks away", async || {
            assert_whole_raw(&raw(in_chunks(&body)).await, &body);
            !bad.queries().is_empty()
        })
        .await;
        let before = bad.queries().len();
        eventually("the draining pod turns one by HTTP/2 away", async || {
            let request = Request::post(format!("http://{GATEWAY}/")).header(SELECTOR, "one");
            assert_whole(&send_http2(with_body(request, body.clone())).await.unwrap(), &body);
            bad.queries().len() > before
        })
        .await;
    });
}

/// An engine turns a query away while its client is still sending it. The client notices nothing of that.
#[test]
fn an_upload_that_is_turned_away_in_the_middle_is_sent_again_from_its_start() {
    isolated(async {
        let mut scene = Scene::start().await;
        let bad = Scripted::start(12, Script::DrainedEarly).await;
        scene.route("one", [12]).await;
        let whole = body(100_000);
        let head = format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{SELECTOR}: one\r\nContent-Length: {}\r\n\r\n",
            whole.len()
        );
        let (first, second) = whole.split_at(1000);
        let mut upload = Upload::start(&[head.as_bytes(), first].concat()).await;
        eventually("the query is turned away", async || bad.queries().len() > 1).await;
        let good = pod("good", 11).await;
        scene.route("one", [11]).await;
        upload.send(second).await;
        assert_whole_raw(&upload.reply().await, &whole);
        assert_eq!(good.executed().len(), 1);
    });
}

#[test]
fn a_body_that_is_not_too_large_is_sent_again() {
    isolated(async {
        let mut scene = Scene::start().await;
        let (_good, bad) = (pod("good", 11).await, Scripted::start(12, Script::Drained).await);
        scene.route("one", [11, 12]).await;
        for size in [0, 1, 100_000, KEPT] {
            let (body, before) = (body(size), bad.queries().len());
            eventually("the draining pod turns one away", async || {
                assert_whole(&post(&body).await, &body);
                bad.queries().len() > before
            })
            .await;
        }
    });
}

#[test]
fn a_body_that_is_too_large_to_be_kept_is_not_sent_again() {
    isolated(async {
        let mut scene = Scene::start().await;
        let (good, bad) = (pod("good", 11).await, Scripted::start(12, Script::Drained).await);
        scene.route("one", [11, 12]).await;
        let body = body(KEPT + 1);
        let mut answered = 0;
        eventually("the draining pod turns one away", async || {
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
