//! One query, sent to the gateway from inside the network of the cluster.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use firebolt_api::key::Label;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client};
use localkube::Cluster;
use serde_json::Value;

use super::{ENGINE, INSTANCE, NAMESPACE, Result};

/// How long an answer may take, and how long a gateway may refuse.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);
/// The ports of the gateway: of its Service, and of its pods.
const PORT: u16 = 80;
const CONTAINER_PORT: u16 = 8080;

/// The address of the gateway's Service.
pub(super) async fn gateway(client: &Client) -> Result<SocketAddr> {
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let service = services.get(&format!("{INSTANCE}-gateway")).await?;
    let address = service.spec.and_then(|spec| spec.cluster_ip).unwrap_or_default();
    let address = address
        .parse()
        .map_err(|error| format!("read the address of the gateway: {error}: {address:?}"))?;
    Ok(SocketAddr::new(address, PORT))
}

/// Waits until every pod of the gateway knows that the engine is back. After a stop it takes some seconds: each finds out by
/// asking the name server from time to time.
pub(super) async fn await_gateways(cluster: &Cluster, client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let labels = format!("{}={INSTANCE},{}=gateway", Label::Instance, Label::Component);
    let deadline = Instant::now() + PATIENCE;
    for pod in pods.list(&ListParams::default().labels(&labels)).await? {
        let Some(address) = pod.status.and_then(|status| status.pod_ip) else {
            continue;
        };
        let gateway = SocketAddr::new(address.parse()?, CONTAINER_PORT);
        while let Err(error) = ask(cluster, gateway, "SELECT 1") {
            if Instant::now() > deadline {
                return Err(error);
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// Sends a query, and returns the value in the answer and how long it took.
pub(super) fn ask(cluster: &Cluster, gateway: SocketAddr, query: &str) -> Result<(Value, Duration)> {
    let started = Instant::now();
    let mut connection = cluster.connect(gateway)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let length = query.len();
    write!(
        connection,
        "POST / HTTP/1.1\r\nHost: {INSTANCE}-gateway\r\nX-Firebolt-Engine: {ENGINE}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{query}"
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let took = started.elapsed();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let answered: Option<Value> = serde_json::from_str(body).ok();
    let value = answered.filter(|_| head.split(' ').nth(1) == Some("200"));
    let value = value.and_then(|answer| answer.pointer("/data/0/0").cloned());
    Ok((value.ok_or_else(|| format!("query the engine: {answer}"))?, took))
}
