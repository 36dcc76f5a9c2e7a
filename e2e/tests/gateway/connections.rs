//! How long clients keep their connections: not for ever, or those of a gateway pod that is to stop would never leave it.

use e2e::isolation::isolated;
use e2e::wait::eventually;
use http::header::CONNECTION;
use stand_ins::engine::DURATION_HEADER;

use crate::client::{Connection, Reply, empty, query, send, send_http2};
use crate::scene::Scene;

fn asks_for_another(reply: &Reply) -> bool {
    reply.headers.get(CONNECTION).is_some_and(|value| value == "close")
}

#[test]
fn a_client_that_keeps_its_connection_is_asked_by_an_answer_to_open_another() {
    isolated(async {
        let mut scene = Scene::start().await;
        let _engine = scene.engine("one", 11).await;
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
fn a_query_may_take_longer_than_its_connection_lives() {
    isolated(async {
        let mut scene = Scene::start().await;
        let _engine = scene.engine("one", 11).await;
        // Longer than the connection, and than the time that Envoy takes to close one after that.
        let query = || empty(query("one").header(DURATION_HEADER, "11s"));
        let (old, new) = tokio::join!(send(query()), send_http2(query()));
        assert_eq!((old.status, new.expect("an answer").status), (200, 200));
    });
}
