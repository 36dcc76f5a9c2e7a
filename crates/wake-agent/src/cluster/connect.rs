//! The way to the API server.

use std::time::Duration;

use kube::{Client, Config};

use super::fault::Fault;
use crate::error::chain;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a connection may be silent. Engines are listed more often than that, so one that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(10);

/// A client from the kubeconfig or, in a pod, from the service account. Nothing is asked yet.
pub async fn connect() -> Result<Client, Fault> {
    let mut config = Config::infer().await.map_err(|error| Fault::NoCluster(chain(&error)))?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.write_timeout = Some(SILENCE);
    // What was refused is tried again by the table, when it still matters.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| Fault::NoCluster(chain(&error)))
}
