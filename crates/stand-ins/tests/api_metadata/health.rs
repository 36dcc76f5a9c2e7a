//! Health over gRPC follows the database.

use rstest::rstest;
use stand_ins::loopback::free_address;
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use crate::database::Server;
use crate::proxy::Proxy;
use crate::service::{ACCOUNT, RETRY, Setup, whole_server};

#[rstest]
#[case::xml(Setup::xml)]
#[case::yaml(Setup::yaml)]
#[tokio::test]
async fn either_format_leads_to_a_healthy_service(#[case] setup: fn(std::net::SocketAddr) -> Setup) {
    let server = Server::start();
    let mut service = setup(server.address()).start();
    service.becomes(Serving).await;
}

#[tokio::test]
async fn health_follows_the_database_down_and_up() {
    let mut server = Server::start();
    let mut service = Setup::xml(server.address()).start();
    service.becomes(Serving).await;
    server.postgres.stop().expect("stop");
    service.becomes(NotServing).await;
    server.postgres.start_again().expect("start again");
    service.becomes(Serving).await;
}

#[tokio::test]
async fn a_database_that_falls_silent_is_no_longer_healthy() {
    let server = Server::start();
    let proxy = Proxy::to(server.address()).await;
    let quick = ("<connect_timeout_sec>5", "<connect_timeout_sec>1");
    let mut service = Setup::xml(proxy.address()).with(quick.0, quick.1).start();
    service.becomes(Serving).await;
    proxy.set_open(false);
    service.becomes(NotServing).await;
    proxy.set_open(true);
    service.becomes(Serving).await;
}

#[tokio::test]
async fn a_database_that_comes_late_is_waited_for() {
    let late = free_address().expect("a free address");
    let mut service = Setup::xml(late).start();
    service.says(RETRY).await;
    assert_eq!(service.status().await, None, "it does not listen before it can serve");

    let server = Server::start();
    let proxy = Proxy::at(late, server.address()).await;
    service.becomes(Serving).await;
    drop(proxy);
}

#[tokio::test]
async fn the_account_is_created_once() {
    let server = Server::start();
    let client = server.client().await;
    let mut accounts = Vec::new();
    for _ in 0..2 {
        let mut service = Setup::xml(server.address()).start();
        service.becomes(Serving).await;
        service.terminate();
        assert!(service.end().success());
        let query = "SELECT id, created_at::text FROM public.stand_in_account";
        let rows = client.query(query, &[]).await.expect("the accounts");
        let found: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        accounts.push(found);
    }
    assert_eq!(accounts[0].len(), 1);
    assert_eq!(accounts[0][0].0, ACCOUNT);
    assert_eq!(accounts[0], accounts[1], "the second start changes nothing");
}

#[tokio::test]
async fn the_account_is_created_in_the_schema_of_the_configuration() {
    let server = Server::start();
    let client = server.client().await;
    let schema = "cell-1.metadata";
    client
        .batch_execute(&format!("CREATE SCHEMA \"{schema}\""))
        .await
        .expect("create the schema");
    let mut service = Setup::yaml(server.address())
        .with("\"public\"", &format!("\"{schema}\""))
        .start();
    service.becomes(Serving).await;
    let query = format!("SELECT id FROM \"{schema}\".stand_in_account");
    let row = client.query_one(&query, &[]).await.expect("the account");
    assert_eq!(row.get::<_, String>(0), ACCOUNT);
}

#[tokio::test]
async fn it_ends_in_order_when_asked_to_though_somebody_watches_its_health() {
    let server = Server::start();
    let mut service = Setup::xml(server.address()).start();
    service.becomes(Serving).await;
    let mut watch = service.client.watch(whole_server()).await.expect("watch").into_inner();
    let first = watch.message().await.expect("a message").expect("a first status");
    assert_eq!(first.status(), Serving);
    service.terminate();
    assert!(service.end().success());
}

#[tokio::test]
async fn it_ends_in_order_when_asked_to_while_it_waits_for_the_database() {
    let nowhere = free_address().expect("a free address");
    let mut service = Setup::xml(nowhere).start();
    service.says(RETRY).await;
    service.terminate();
    assert!(service.end().success());
}
