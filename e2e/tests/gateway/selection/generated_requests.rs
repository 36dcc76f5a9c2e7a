//! Generated requests: for arbitrary bytes, the gateway selects according to the rules.

use std::collections::BTreeMap;
use std::sync::Mutex;

use e2e::isolation::isolated;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::rules::{Reason, Selection, select};
use crate::testenv::TestEnv;
use crate::testenv::client::{RawReply, error_code, raw};
use crate::testenv::scripted_engine::{Script, Scripted};

const REQUESTS: u32 = 2000;
/// Engines that exist. Generated requests often name them.
const ENGINES: [&str; 2] = ["one", "a-2"];

/// A request in its raw parts.
#[derive(Debug, Clone)]
struct Made {
    target: Vec<u8>,
    headers: Vec<Vec<u8>>,
}

/// Fragments that matter to the rules, and any byte that a target can contain.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known: &[&[u8]] = &[
        b"engine",
        b"Engine",
        b"%65ngine",
        b"engin%65",
        b"engine%00",
        b"engine%3D",
        b"%engine",
        b"one",
        b"a-2",
        b"o%6Ee",
        b"One",
        b"one-",
        b"%6Fne%20",
        b"+",
        b"%",
        b"%2",
        b"%zz",
        b"%00",
        b"%+1",
        b"%0g",
        b"%26",
        b";",
        b"=",
        b"==",
        b"?",
        b"/",
        b"..",
        b"\"",
        b"'",
        b"<>",
        b"{}",
        b"|\\^`",
        b"~",
        b"-",
        b".",
        b"absent",
        b"",
    ];
    let known: Vec<Vec<u8>> = known.iter().map(|piece| piece.to_vec()).collect();
    prop_oneof![
        8 => prop::sample::select(known),
        1 => vec(prop_oneof![0x21_u8..0x7f], 0..6),
        1 => any::<u8>().prop_map(|byte| format!("%{byte:02x}").into_bytes()),
        1 => vec(any::<u8>().prop_filter("separates", |byte| !b" \t\r\n".contains(byte)), 1..3),
        1 => (1_usize..5_000).prop_map(|length| vec![b'x'; length]),
    ]
}

fn text(pieces: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    vec(piece(), pieces).prop_map(|pieces| pieces.concat())
}

fn engine() -> impl Strategy<Value = Vec<u8>> + Clone {
    prop::sample::select(&ENGINES[..]).prop_map(|name| name.as_bytes().to_vec())
}

fn parameter() -> impl Strategy<Value = Vec<u8>> {
    let named = |name: &'static [u8]| {
        let value = prop_oneof![6 => engine(), 1 => Just(b"absent".to_vec()), 2 => text(0..3)];
        value.prop_map(move |value| [name, b"=", &value].concat())
    };
    prop_oneof![
        4 => named(b"engine"),
        1 => named(b"%65ngine"),
        4 => (text(0..3), text(0..3)).prop_map(|(key, value)| [key, b"=".to_vec(), value].concat()),
        2 => text(0..3),
    ]
}

fn made() -> impl Strategy<Value = Made> {
    let query = prop::option::weighted(0.8, vec(parameter(), 0..4).prop_map(|parts| parts.join(&b'&')));
    let path = prop_oneof![4 => Just(Vec::new()), 1 => text(0..3)];
    let target = (path, query).prop_map(|(path, query)| {
        let query = query.map(|query| [b"?", query.as_slice()].concat()).unwrap_or_default();
        [b"/", path.as_slice(), &query].concat()
    });
    let header = prop_oneof![
        6 => engine(),
        1 => Just(b"absent".to_vec()),
        2 => text(0..2),
        1 => (1_usize..200).prop_map(|length| vec![b'a'; length]),
    ];
    let headers = prop_oneof![3 => Just(Vec::new()), 4 => vec(header.clone(), 1), 1 => vec(header, 2..4)];
    (target, headers).prop_map(|(target, headers)| Made { target, headers })
}

/// Whether the request is not valid HTTP, so that it may be refused before the selection.
fn breaks_http(made: &Made) -> bool {
    let in_target = |byte: &u8| !(0x21..0x7f).contains(byte) || *byte == b'#';
    let in_header = |byte: &u8| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f;
    made.target.iter().any(in_target) || made.headers.iter().flatten().any(in_header)
}

async fn send(made: &Made) -> RawReply {
    let mut request = [
        b"GET ",
        made.target.as_slice(),
        b" HTTP/1.1\r\nHost: gateway.example\r\nConnection: close\r\n",
    ]
    .concat();
    for value in &made.headers {
        request.extend([b"X-Firebolt-Engine: ", value.as_slice(), b"\r\n"].concat());
    }
    request.extend(b"\r\n");
    raw(request).await
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RequestKind {
    Broken,
    Refused(Reason),
    Unknown,
    Forwarded,
}

/// Compares the outcome of a request with the rules.
fn compare(made: &Made, reply: &RawReply) -> Result<RequestKind, TestCaseError> {
    let shown = format!("{:?}: {}", String::from_utf8_lossy(&made.target), reply.text());
    if breaks_http(made) && matches!(reply.status(), Some(400..=499)) {
        error_code(reply.body());
        return Ok(RequestKind::Broken);
    }
    let headers: Vec<Vec<u8>> = made.headers.iter().map(|value| value.trim_ascii().to_vec()).collect();
    match select(&made.target, &headers) {
        Selection::Refuse(reason) => {
            prop_assert_eq!(reply.status(), Some(400), "{}", shown);
            prop_assert_eq!(error_code(reply.body()), reason.to_string(), "{}", shown);
            Ok(RequestKind::Refused(reason))
        }
        Selection::Forward { engine, .. } if !ENGINES.contains(&engine.as_str()) => {
            prop_assert_eq!(reply.status(), Some(503), "{}", shown);
            prop_assert_eq!(error_code(reply.body()), "engine_unavailable", "{}", shown);
            Ok(RequestKind::Unknown)
        }
        Selection::Forward { engine, target } => {
            prop_assert_eq!(reply.status(), Some(200), "{}", shown);
            let line = reply.body().split(|byte| *byte == b'\r').next().unwrap_or_default();
            let expected = [b"GET ", target.as_slice(), b" HTTP/1.1"].concat();
            prop_assert_eq!(line, expected, "{}", shown);
            let head = String::from_utf8_lossy(reply.body()).to_lowercase();
            prop_assert!(head.contains(&format!("\r\nhost: {engine}-service.")), "{}", shown);
            prop_assert_eq!(
                head.matches(&format!("\r\nx-firebolt-engine: {engine}\r\n")).count(),
                1,
                "{}",
                shown
            );
            Ok(RequestKind::Forwarded)
        }
    }
}

#[test]
fn generated_requests_are_handled_according_to_the_rules() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let engines = [
            Scripted::start(11, Script::Echo).await,
            Scripted::start(12, Script::Echo).await,
        ];
        for (name, last) in ENGINES.iter().zip(11..) {
            env.route(name, [last]).await;
        }
        let (kinds, runtime) = (Mutex::new(BTreeMap::<RequestKind, usize>::new()), Handle::current());
        let config = Config {
            cases: REQUESTS,
            failure_persistence: None,
            max_shrink_time: 60_000,
            ..Config::default()
        };
        let outcome = block_in_place(|| {
            TestRunner::new(config).run(&made(), |made| {
                let reply = runtime.block_on(send(&made));
                let kind = compare(&made, &reply)?;
                *kinds.lock().unwrap().entry(kind).or_default() += 1;
                Ok(())
            })
        });
        outcome.unwrap_or_else(|error| panic!("{error}"));
        let kinds = kinds.into_inner().unwrap();
        println!("{kinds:?}");
        let reasons = [Reason::Missing, Reason::Repeated, Reason::Conflict, Reason::Malformed];
        let expected = [RequestKind::Broken, RequestKind::Unknown, RequestKind::Forwarded]
            .into_iter()
            .chain(reasons.map(RequestKind::Refused));
        for kind in expected {
            assert!(
                kinds.get(&kind).is_some_and(|count| *count >= 10),
                "{kind:?} is rare: {kinds:?}"
            );
        }
        let forwarded: usize = engines.iter().map(|engine| engine.queries().len()).sum();
        assert_eq!(
            Some(&forwarded),
            kinds.get(&RequestKind::Forwarded),
            "engines heard of nothing else"
        );
    });
}
