//! Waiting until components are ready, while watching that they live.

use std::time::{Duration, Instant};

use kube::Client;

use crate::components::Component;
use crate::layout::Layout;
use crate::running::Running;
use crate::{Error, Result, identity};

const POLL: Duration = Duration::from_millis(25);
/// A server that is starting may accept a connection and answer much later.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks one component how it feels.
pub(crate) struct Probe {
    component: Component,
    client: Client,
    path: &'static str,
    proof: Option<(Client, &'static str)>,
}

impl Probe {
    pub(crate) async fn new(layout: &Layout, component: Component) -> Result<Self> {
        let health = component.health(layout);
        let client_at = async |port| {
            let mut config = identity::config(&layout.kubeconfig()).await?;
            config.cluster_url = format!("https://127.0.0.1:{port}")
                .parse()
                .expect("a host and a port make a URL");
            Client::try_from(config).map_err(Error::api(format!("make a client for {component}")))
        };
        let proof = match health.proof {
            Some(path) => Some((client_at(layout.ports.apiserver).await?, path)),
            None => None,
        };
        Ok(Self {
            component,
            client: client_at(health.port).await?,
            path: health.path,
            proof,
        })
    }

    /// Nothing if the component is healthy, else why it is not.
    pub(crate) async fn ask(&self) -> Result<(), String> {
        ask(&self.client, self.path).await?;
        match &self.proof {
            Some((client, path)) => ask(client, path).await,
            None => Ok(()),
        }
    }
}

async fn ask(client: &Client, path: &str) -> Result<(), String> {
    match tokio::time::timeout(PATIENCE, get(client, path)).await {
        Ok(answer) => answer.map(drop).map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}

/// The body that the server behind `client` gives for `path`.
pub(crate) async fn get(client: &Client, path: &str) -> kube::Result<String> {
    let request = http::Request::get(path)
        .body(Vec::new())
        .expect("a path makes a request");
    client.request_text(request).await
}

/// Waits until each of `components` is healthy. Fails as soon as one of them ends, without waiting for the deadline.
pub(crate) async fn wait(running: &Running, components: &[Component], limit: Duration) -> Result<()> {
    let started = Instant::now();
    for component in components {
        let probe = Probe::new(&running.layout, *component).await?;
        loop {
            running.check_alive()?;
            let Err(reason) = probe.ask().await else { break };
            if started.elapsed() > limit {
                let (name, log) = (probe.component.name(), running.layout.log_tail(probe.component));
                return Err(Error::NotReady {
                    name,
                    waited: started.elapsed(),
                    reason,
                    log,
                });
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}
