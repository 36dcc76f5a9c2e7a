//! The lifetime of client connections: it is limited, so that clients leave a gateway pod that is stopping.

use e2e::isolation::isolated;
use e2e::wait::eventually;
use http::header::CONNECTION;
use stand_ins::engine::DURATION_HEADER;

use crate::testenv::TestEnv;
use crate::testenv::client::{Connection, Reply, empty, query, send, send_http2};

fn asks_for_another(reply: &Reply) -> bool {
    reply.headers.get(CONNECTION).is_some_and(|value| value == "close")
}

#[test]
fn an_old_connection_is_closed_after_a_response() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let mut connection = Connection::open().await;
        let mut ask = async || {
            let reply = connection.send(empty(query("one"))).await.expect("an answer");
            assert_eq!(reply.status, 200, "{reply:?}");
            reply
        };
        assert!(!asks_for_another(&ask().await), "a connection is good for many queries");
        eventually("an answer asks for another connection", async || {
            asks_for_another(&ask().await)
        })
        .await;
        assert!(!asks_for_another(&ask().await), "the next connection is as good");
    });
}

#[test]
fn a_query_may_outlive_the_lifetime_of_its_connection() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        // Longer than the connection, and than the time that Envoy takes to close one after that.
        let query = || empty(query("one").header(DURATION_HEADER, "11s"));
        let (old, new) = tokio::join!(send(query()), send_http2(query()));
        assert_eq!((old.status, new.expect("an answer").status), (200, 200));
    });
}
