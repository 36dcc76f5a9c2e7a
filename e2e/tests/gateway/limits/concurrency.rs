//! How many queries an engine gets at a time.

use e2e::isolation::isolated;
use e2e::wait::eventually;
use futures::future::join_all;
use stand_ins::engine::DURATION_HEADER;

use crate::testenv::TestEnv;
use crate::testenv::client::{ask, empty, query, send};

/// The maximum number of concurrent queries of an engine through one gateway. As many may be queued.
const QUERIES_AT_ONCE: usize = 1024;
/// Queries are started in batches, because the number of new connections at a time is not the subject.
const AT_A_TIME: usize = 64;

#[test]
fn queries_beyond_the_limit_are_refused_and_the_others_are_queued() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (engine, _other) = (env.engine("one", 11).await, env.engine("two", 12).await);
        ask("one").await.answer();
        let ask_long = || send(empty(query("one").header(DURATION_HEADER, "1h")));
        let mut running = Vec::new();
        while running.len() < QUERIES_AT_ONCE {
            running.extend((0..AT_A_TIME).map(|_| tokio::spawn(ask_long())));
            eventually("the engine executes them", async || engine.running() == running.len()).await;
        }
        let mut more: Vec<_> = (0..2 * QUERIES_AT_ONCE).map(|_| tokio::spawn(ask("one"))).collect();
        eventually("every query is queued or refused", async || {
            let waiting = env.envoy.statistic("upstream_rq_pending_active").await;
            let turned_away = more.iter().filter(|query| query.is_finished()).count();
            usize::try_from(waiting).unwrap() + turned_away == more.len()
        })
        .await;
        let turned_away: Vec<_> = more.extract_if(.., |query| query.is_finished()).collect();
        assert_eq!(turned_away.len(), QUERIES_AT_ONCE);
        for reply in join_all(turned_away).await {
            assert_eq!(reply.unwrap().error(), (503, "engine_overloaded".to_owned()));
        }
        assert_eq!(ask("two").await.answer().pod, "two", "other engines do not suffer");
        for (index, some) in running.chunks(AT_A_TIME).enumerate() {
            // Each client that disconnects makes room for a queued query.
            some.iter().for_each(tokio::task::JoinHandle::abort);
            let answered = (index + 1) * AT_A_TIME;
            eventually("others take their places", async || {
                more.iter().filter(|query| query.is_finished()).count() >= answered
            })
            .await;
        }
        for reply in join_all(more).await {
            reply.unwrap().answer();
        }
        assert_eq!(engine.executed().len(), 1 + 2 * QUERIES_AT_ONCE);
    });
}
