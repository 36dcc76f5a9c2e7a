//! A query is sent again if, and only if, no engine can have executed it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use e2e::isolation::isolated;
use e2e::wait::eventually;
use futures::future::join_all;
use rstest::rstest;
use stand_ins::engine::{DRAINED_HEADER, Engine, ID_HEADER, QUERY_PORT};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::testenv::client::{Reply, ask, empty, query, send, try_send};
use crate::testenv::scripted_engine::{Script, Scripted};
use crate::testenv::{TestEnv, address, pod};

/// An engine with a good pod and a scripted one, both of which get queries.
async fn with_bad_pod(env: &mut TestEnv, script: Script) -> (Engine, Scripted) {
    let pods = (pod("good", 11).await, Scripted::start(12, script).await);
    env.route("one", [11, 12]).await;
    pods
}

/// Sends queries with an identifier each until the scripted pod has received some, and returns the responses.
async fn ask_until_seen(bad: &Scripted, times: usize) -> Vec<(String, hyper::Result<Reply>)> {
    let mut replies = Vec::new();
    eventually("the scripted pod gets queries", async || {
        let id = format!("q{}", replies.len());
        let query = query("one").header(ID_HEADER, &id);
        replies.push((id, try_send(empty(query)).await));
        bad.queries().len() >= times
    })
    .await;
    replies
}

#[test]
fn a_query_that_a_draining_pod_refused_goes_to_another_pod() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (good, bad) = with_bad_pod(&mut env, Script::Drained).await;
        let replies = ask_until_seen(&bad, 5).await;
        let asked: Vec<&str> = replies.iter().map(|(id, _)| id.as_str()).collect();
        for (_, reply) in &replies {
            assert_eq!(reply.as_ref().unwrap().answer().pod, "good");
        }
        assert_eq!(good.executed(), asked, "each once");
    });
}

#[test]
fn an_engine_that_begins_its_shutdown_costs_no_query() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (old, new) = (pod("old", 11).await, pod("new", 12).await);
        env.route("one", [11, 12]).await;
        eventually("both get queries", async || {
            ask("one").await.answer();
            !old.executed().is_empty() && !new.executed().is_empty()
        })
        .await;
        old.begin_shutdown();
        let queries = (0..200).map(|_| ask("one"));
        for reply in join_all(queries).await {
            assert_eq!(reply.answer().pod, "new");
        }
    });
}

#[test]
fn a_query_waits_for_a_pod_that_refuses_connections() {
    isolated(async {
        let mut env = TestEnv::start().await;
        // Nothing listens there yet.
        env.route("one", [11]).await;
        let waiting = tokio::spawn(ask("one"));
        eventually("the query was refused", async || attempts_repeated(&env).await > 1).await;
        let pod = pod("one", 11).await;
        waiting.await.unwrap().answer();
        assert_eq!(pod.executed().len(), 1);
    });
}

async fn attempts_repeated(env: &TestEnv) -> u64 {
    env.envoy.statistic(".upstream_rq_retry").await
}

/// A pod that executes queries although it is not ready. If no other pod is ready either, the
/// gateway has no better choice and tries both.
async fn unready_pod(name: &str, last: u8) -> Engine {
    let pod = pod(name, last).await;
    pod.set_ready(false);
    pod
}

/// Sends queries with an identifier each until some attempts were repeated, and returns the status of each.
async fn ask_until_repeated(env: &TestEnv, times: u64) -> Vec<(String, Reply)> {
    let mut replies = Vec::new();
    eventually("attempts are repeated", async || {
        let id = format!("q{}", replies.len());
        let reply = send(empty(query("one").header(ID_HEADER, &id))).await;
        replies.push((id, reply));
        attempts_repeated(env).await >= times
    })
    .await;
    replies
}

#[test]
fn a_pod_that_refuses_connections_costs_no_query() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let good = unready_pod("good", 11).await;
        // Nothing listens there.
        env.route("one", [11, 12]).await;
        let replies = ask_until_repeated(&env, 5).await;
        for (_, reply) in &replies {
            reply.answer();
        }
        assert_eq!(good.executed().len(), replies.len());
    });
}

#[test]
fn a_pod_that_does_not_answer_at_all_costs_no_query() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let good = unready_pod("good", 11).await;
        let _silent = silent_pod(12).await;
        env.route("one", [11, 12]).await;
        let replies = ask_until_repeated(&env, 5).await;
        for (_, reply) in &replies {
            reply.answer();
        }
        assert_eq!(good.executed().len(), replies.len());
    });
}

/// A socket whose backlog is full ignores new connections, like a node that is gone.
async fn silent_pod(last: u8) -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((address(last), QUERY_PORT).into()).unwrap();
    let (listener, mut queue) = (socket.listen(1).unwrap(), Vec::new());
    let connect = || {
        timeout(
            Duration::from_millis(500),
            TcpStream::connect((address(last), QUERY_PORT)),
        )
    };
    while let Ok(connected) = connect().await {
        queue.push(connected.unwrap());
    }
    (listener, queue)
}

#[test]
fn a_query_waits_for_a_pod_that_starts_a_moment_later() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let draining = Scripted::start(11, Script::Drained).await;
        env.route("one", [11]).await;
        let waiting = tokio::spawn(ask("one"));
        eventually("the query was refused", async || draining.queries().len() > 1).await;
        let _new = pod("new", 12).await;
        env.route("one", [12]).await;
        assert_eq!(waiting.await.unwrap().answer().pod, "new");
    });
}

/// More than the gateway repeats at the same time by default.
const MANY: usize = 600;

#[test]
fn many_queries_wait_out_a_shutdown_together() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (old, new) = (env.engine("one", 11).await, pod("new", 12).await);
        ask("one").await.answer();
        old.begin_shutdown();
        let queries: Vec<_> = (0..MANY).map(|_| tokio::spawn(ask("one"))).collect();
        eventually("each was refused", async || old.rejected() >= MANY).await;
        env.route("one", [12]).await;
        for reply in join_all(queries).await {
            assert_eq!(reply.unwrap().answer().pod, "new");
        }
        assert_eq!((old.executed().len(), new.executed().len()), (1, MANY));
    });
}

#[test]
fn a_query_that_every_pod_refuses_fails_after_fifty_attempts() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let bad = Scripted::start(11, Script::Drained).await;
        env.route("one", [11]).await;
        let start = Instant::now();
        let reply = ask("one").await;
        assert_eq!(reply.status, 503);
        assert!(
            reply.headers.contains_key(DRAINED_HEADER),
            "the client can tell that nothing was executed: {reply:?}"
        );
        assert_eq!(bad.queries().len(), 1 + 50);
        assert!(
            start.elapsed() > Duration::from_secs(1),
            "there are pauses: {:?}",
            start.elapsed()
        );
    });
}

/// A query that has reached an engine is never sent again: it may have been executed.
#[rstest]
#[case::reset_after_the_request(Script::ResetAfterRequest)]
#[case::closed_after_the_request(Script::CloseAfterRequest)]
#[case::reset_after_the_first_byte(Script::ResetAfterFirstByte)]
#[case::reset_in_the_body(Script::ResetInBody)]
fn a_query_that_reached_an_engine_is_not_retried(#[case] script: Script) {
    isolated(async move {
        let mut env = TestEnv::start().await;
        let (good, bad) = with_bad_pod(&mut env, script).await;
        let replies = ask_until_seen(&bad, 5).await;
        let seen = bad.queries();
        let id_of = |head: &Vec<u8>| {
            let head = String::from_utf8(head.clone()).unwrap();
            head.lines()
                .find_map(|line| Some(line.strip_prefix(ID_HEADER)?.strip_prefix(": ")?.to_owned()))
        };
        let lost: Vec<String> = seen.iter().filter_map(id_of).collect();
        assert_eq!(lost.len(), seen.len(), "every query has its identifier");
        for (id, reply) in replies {
            if lost.contains(&id) {
                assert_lost(script, reply);
                assert!(!good.executed().contains(&id), "{id} was repeated");
            } else {
                assert_eq!(reply.unwrap().answer().query_id, id);
            }
        }
        let distinct: BTreeSet<&String> = lost.iter().collect();
        assert_eq!(distinct.len(), lost.len(), "no pod saw one twice");
    });
}

/// The client learns that the response was lost, unless a part of it was sent already.
fn assert_lost(script: Script, reply: hyper::Result<Reply>) {
    if script == Script::ResetInBody {
        assert!(reply.is_err(), "an answer that was cut off looks whole: {reply:?}");
    } else {
        assert_eq!(reply.unwrap().error(), (503, "engine_connection_lost".to_owned()));
    }
}

#[test]
fn an_error_of_the_engine_is_a_response_and_not_retried() {
    isolated(async {
        let mut env = TestEnv::start().await;
        for (status, last) in [(500, 11), (502, 12), (503, 13), (504, 14), (409, 15), (429, 16)] {
            let engine = Scripted::start(last, Script::Status(status)).await;
            let name = format!("says-{status}");
            env.route(&name, [last]).await;
            assert_eq!(ask(&name).await.status, status);
            assert_eq!(engine.queries().len(), 1, "{status}");
        }
    });
}

/// A pod accepts a connection and resets it before it reads anything. Whether the query was on its way by then is a
/// matter of microseconds: it is sent again if not, and reported as lost if so. In no case is it executed twice.
#[test]
fn a_connection_that_is_reset_at_once_loses_no_query_silently() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let good = unready_pod("good", 11).await;
        let listener = TcpListener::bind((address(12), QUERY_PORT)).await.unwrap();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                socket.set_zero_linger().unwrap();
            }
        });
        env.route("one", [11, 12]).await;
        let (mut answered, mut lost) = (Vec::new(), 0);
        eventually("the pod resets connections of queries", async || {
            let id = format!("q{}", answered.len() + lost);
            let reply = send(empty(query("one").header(ID_HEADER, &id))).await;
            if reply.status == 200 {
                answered.push(id);
            } else {
                assert_eq!(reply.error(), (503, "engine_connection_lost".to_owned()));
                lost += 1;
            }
            lost as u64 + attempts_repeated(&env).await >= 20
        })
        .await;
        assert_eq!(
            good.executed(),
            answered,
            "each once, and none that was reported as lost"
        );
        println!("{lost} lost, {} repeated", attempts_repeated(&env).await);
    });
}
