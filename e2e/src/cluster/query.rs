//! Queries, and other requests to pods.

use std::net::SocketAddr;
use std::time::Duration;

use firebolt_api::name::InstanceNames;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use k8s_openapi::api::core::v1::{Pod, Service};
use stand_ins::engine::{DURATION_HEADER, ID_HEADER};
use tokio::task::JoinHandle;

use super::client::{self, Connection, Reply, TURNED_AWAY};
use super::fixture::INSTANCE;
use super::testenv::TestEnv;
use super::traffic::Traffic;

/// The header that selects an engine.
const SELECTOR: &str = "x-firebolt-engine";

impl TestEnv {
    /// Sends a request to a port of a pod.
    pub async fn ask_pod(&self, pod: &str, port: u16, path: &str, body: &str) -> Reply {
        let address = self.get::<Pod>(pod).await.status.and_then(|status| status.pod_ip);
        let address = address.unwrap_or_else(|| panic!("pod {pod} has no address"));
        let address = SocketAddr::new(address.parse().expect("an address"), port);
        let request = Request::post(path)
            .header("host", pod)
            .body(Full::new(Bytes::from(body.to_owned())))
            .expect("a valid request");
        client::send(address, request)
            .await
            .unwrap_or_else(|error| panic!("ask pod {pod} for {path}: {error}"))
    }

    /// Sends a statement to an engine through the gateway.
    pub async fn query(&self, engine: &str, statement: &str) -> Reply {
        let request = query(engine).body(Full::new(Bytes::from(statement.to_owned())));
        client::send(self.gateway().await, request.expect("a valid request"))
            .await
            .unwrap_or_else(|error| panic!("query engine {engine}: {error}"))
    }

    /// Waits until an engine answers. Until then, the gateway has to respond that the query was not executed.
    pub async fn answers(&self, engine: &str) {
        let answered = async || {
            let reply = self.query(engine, "SELECT 42").await;
            let answered = reply.status == 200;
            assert!(answered || was_turned_away(&reply), "{reply:?}");
            answered.then_some(())
        };
        self.eventually(&format!("engine {engine} answers"), answered).await;
    }

    /// Waits until queries for an engine are refused with this error code.
    pub async fn does_not_answer(&self, engine: &str, code: &str) {
        let rejected = async || {
            let reply = self.query(engine, "SELECT 42").await;
            // The gateway gives up an address that no pod has any more after some attempts.
            assert!(was_turned_away(&reply), "{reply:?}");
            (reply.refusal().1 == code).then_some(())
        };
        let sentence = format!("queries for engine {engine} are rejected: {code}");
        self.eventually(&sentence, rejected).await;
    }

    /// Sends a query to a gateway, and returns a handle to its response.
    #[must_use]
    pub fn send_query(&self, gateway: SocketAddr, engine: &str, id: &str) -> JoinHandle<Result<Reply, String>> {
        let request = query(engine).header(ID_HEADER, id).body(Full::default());
        let request = request.expect("a valid request");
        tokio::spawn(async move { client::send(gateway, request).await })
    }

    /// Sends a slow query, waits until an engine executes it, and returns a handle to its response.
    pub async fn begin_query(&self, engine: &str, id: &str, lasts: Duration) -> JoinHandle<Result<Reply, String>> {
        let request = slow_query(engine, id, lasts);
        let gateway = self.gateway().await;
        let running = tokio::spawn(async move { client::send(gateway, request).await });
        let begun = async || (!self.executed_by(id).is_empty()).then_some(());
        self.eventually(&format!("query {id} is executed"), begun).await;
        running
    }

    /// Connects to a gateway.
    pub async fn connect(gateway: SocketAddr) -> Connection {
        let connection = Connection::open(gateway).await;
        connection.unwrap_or_else(|error| panic!("connect to the gateway {gateway}: {error}"))
    }

    /// Starts clients that query an engine without a pause, and waits for their first answers.
    pub async fn traffic(&self, engine: &str) -> Traffic<'_> {
        Traffic::start(self, engine).await
    }

    /// Whether the gateway can be reached and is healthy.
    pub async fn gateway_answers(&self) -> bool {
        let reply = client::send(self.gateway().await, get("/healthz")).await;
        reply.is_ok_and(|reply| reply.status == 200)
    }

    /// The address of the gateway for clients.
    pub async fn gateway(&self) -> SocketAddr {
        self.gateway_of(INSTANCE).await
    }

    /// The address of the gateway of an instance for clients.
    pub async fn gateway_of(&self, instance: &str) -> SocketAddr {
        let service = self.get::<Service>(&InstanceNames(instance).gateway()).await;
        let address = service.spec.and_then(|spec| spec.cluster_ip);
        let address = address.expect("the gateway's Service has an address");
        SocketAddr::new(address.parse().expect("an address"), 80)
    }
}

impl Connection {
    /// Sends a query that takes this long, and returns its response.
    pub async fn query(&mut self, engine: &str, id: &str, lasts: Duration) -> Result<Reply, String> {
        self.send(slow_query(engine, id, lasts)).await
    }
}

/// Whether the gateway responded that the query was not executed because the engine is not available.
fn was_turned_away(reply: &Reply) -> bool {
    let (status, code) = reply.refusal();
    status == 503 && TURNED_AWAY.contains(&code.as_str())
}

/// A request for a path.
pub(super) fn get(path: &str) -> Request<Full<Bytes>> {
    let request = Request::get(path).header("host", "gateway").body(Full::default());
    request.expect("a valid request")
}

/// A query that takes this long.
fn slow_query(engine: &str, id: &str, lasts: Duration) -> Request<Full<Bytes>> {
    let request = query(engine)
        .header(ID_HEADER, id)
        .header(DURATION_HEADER, format!("{}ms", lasts.as_millis()))
        .body(Full::default());
    request.expect("a valid request")
}

/// A query for an engine.
fn query(engine: &str) -> hyper::http::request::Builder {
    Request::post("/").header("host", "gateway").header(SELECTOR, engine)
}
