//! One query, sent to the gateway from inside the network of the cluster.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};
use localkube::Cluster;
use serde_json::Value;

use super::{INSTANCE, NAMESPACE, Result};

/// How long an answer may take: longer than the gateway waits for an engine.
const PATIENCE: Duration = Duration::from_mins(3);
/// The port of the Service of the gateway.
const PORT: u16 = 80;

/// The address of the gateway's Service.
pub(crate) async fn gateway(client: &Client) -> Result<SocketAddr> {
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let service = services.get(&format!("{INSTANCE}-gateway")).await?;
    let address = service.spec.and_then(|spec| spec.cluster_ip).unwrap_or_default();
    let address = address
        .parse()
        .map_err(|error| format!("read the address of the gateway: {error}: {address:?}"))?;
    Ok(SocketAddr::new(address, PORT))
}

/// What an engine answered.
pub(crate) struct Answer {
    pub value: Value,
    pub took: Duration,
    /// Where the time went, if the engine had to be waited for.
    pub timing: String,
}

/// Sends a query. If the engine is not there yet, the gateway waits for it.
pub(crate) fn ask(cluster: &Cluster, gateway: SocketAddr, engine: &str, query: &str) -> Result<Answer> {
    let started = Instant::now();
    let mut connection = cluster.connect(gateway)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let length = query.len();
    write!(
        connection,
        "POST / HTTP/1.1\r\nHost: {INSTANCE}-gateway\r\nX-Firebolt-Engine: {engine}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{query}"
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let took = started.elapsed();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let answered: Option<Value> = serde_json::from_str(body).ok();
    let value = answered.filter(|_| head.split(' ').nth(1) == Some("200"));
    let value = value.and_then(|answer| answer.pointer("/data/0/0").cloned());
    let value = value.ok_or_else(|| format!("query the engine: {answer}"))?;
    let timing = head.lines().find_map(|line| line.strip_prefix("server-timing: "));
    let timing = timing.unwrap_or_default().to_owned();
    Ok(Answer { value, took, timing })
}
