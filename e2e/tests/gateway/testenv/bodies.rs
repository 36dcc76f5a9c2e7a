//! Request bodies, and whether they arrive complete.

use hyper::body::Bytes;
use sha2::{Digest, Sha256};
use stand_ins::engine::Answer;

use super::client::{RawReply, Reply};

/// The largest body that is buffered for another attempt.
pub(crate) const KEPT: usize = 2 * 1024 * 1024;

/// A body of pseudo-random bytes, so that a part which is lost or sent twice shows.
pub(crate) fn body(size: usize) -> Bytes {
    let mut state: u32 = 1;
    let bytes = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    bytes.take(size).collect()
}

#[track_caller]
pub(crate) fn assert_whole(reply: &Reply, body: &Bytes) {
    let answer = reply.answer();
    assert_eq!(answer.body_bytes, body.len() as u64);
    assert_eq!(answer.body_sha256, digest(body));
}

fn digest(body: &Bytes) -> String {
    format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(body)))
}

/// The head and the body of a query with a chunked body.
pub(crate) fn in_chunks(body: &Bytes) -> Vec<u8> {
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
pub(crate) fn assert_whole_raw(reply: &RawReply, body: &Bytes) {
    assert_eq!(reply.status(), Some(200), "{}", reply.text());
    let answer: Answer = serde_json::from_slice(reply.body()).unwrap();
    assert_eq!(
        (answer.body_bytes, answer.body_sha256),
        (body.len() as u64, digest(body))
    );
}
