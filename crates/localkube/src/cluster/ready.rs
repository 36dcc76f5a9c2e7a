//! Waiting until components are ready, while watching that they live.

use std::time::{Duration, Instant};

use kube::Client;

use super::running::Running;
use crate::components::Question;
use crate::state::layout::Layout;
use crate::topology::Component;
use crate::{Error, Result, identity};

const POLL: Duration = Duration::from_millis(25);
/// A server that is starting may accept a connection and answer much later.
const PATIENCE: Duration = Duration::from_secs(2);

/// Checks the health of one component.
pub(crate) struct Probe {
    component: Component,
    questions: Vec<(Client, Question)>,
}

impl Probe {
    pub(crate) async fn new(layout: &Layout, component: Component) -> Result<Self> {
        let mut questions = Vec::new();
        for question in component.questions(layout) {
            let mut config = identity::config(&layout.kubeconfig()).await?;
            config.cluster_url = question.server.parse().expect("a host and a port make a URL");
            let client = Client::try_from(config).map_err(Error::api(format!("make a client for {component}")))?;
            questions.push((client, question));
        }
        Ok(Self { component, questions })
    }

    /// Nothing if the component is healthy, else why it is not.
    pub(crate) async fn ask(&self) -> Result<(), String> {
        for (client, question) in &self.questions {
            ask(client, question).await?;
        }
        Ok(())
    }
}

async fn ask(client: &Client, question: &Question) -> Result<(), String> {
    match tokio::time::timeout(PATIENCE, get(client, &question.path)).await {
        Ok(Ok(answer)) if (question.is_good)(&answer) => Ok(()),
        Ok(Ok(_)) => Err(format!("{} says that it is not", question.path)),
        Ok(Err(error)) => Err(error.to_string()),
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
