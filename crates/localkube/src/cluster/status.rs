//! What runs in a folder, as seen from outside: from the processes and their answers.

use std::path::{Path, PathBuf};

use super::ready::{Probe, get};
use crate::state::layout::Layout;
use crate::topology::Component;
use crate::{Result, identity, process};

/// One component of a cluster.
#[derive(Debug, Clone)]
pub struct ComponentStatus {
    /// Which.
    pub component: Component,
    /// The process, if it runs.
    pub pid: Option<i32>,
    /// Nothing if it is healthy, else why it is not.
    pub error: Option<String>,
    /// Where it listens.
    pub address: String,
}

/// A cluster that at least one process belongs to.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its folder.
    pub dir: PathBuf,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The version that the API server says it is, if it answers.
    pub version: Option<String>,
    /// Every component, whether it runs or not.
    pub components: Vec<ComponentStatus>,
}

impl Status {
    /// Whether every component runs and is healthy.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.components
            .iter()
            .all(|component| component.pid.is_some() && component.error.is_none())
    }
}

/// The state of the cluster in `dir`, or nothing if none runs there.
pub async fn status(dir: &Path) -> Result<Option<Status>> {
    let dir = process::canonical(dir)?;
    let processes = process::find(&dir);
    // A cluster that is just starting, or whose folder a user deleted, has processes and nothing to ask.
    let Ok(layout) = Layout::open(&dir) else {
        return Ok(None);
    };
    if processes.is_empty() || !layout.kubeconfig().exists() {
        return Ok(None);
    }
    let mut components = Vec::new();
    for component in Component::of(layout.nodes()) {
        let process = processes.iter().find(|process| process.component == component.name());
        let error = match process {
            Some(_) => Probe::new(&layout, component).await?.ask().await.err(),
            None => Some("not running".to_owned()),
        };
        let pid = process.map(|process| process.pid);
        components.push(ComponentStatus {
            component,
            pid,
            error,
            address: component.address(&layout),
        });
    }
    let kubeconfig = layout.kubeconfig();
    Ok(Some(Status {
        version: version(&kubeconfig).await,
        dir,
        kubeconfig,
        components,
    }))
}

async fn version(kubeconfig: &Path) -> Option<String> {
    let client = identity::client(kubeconfig).await.ok()?;
    let answer: serde_json::Value = serde_json::from_str(&get(&client, "/version").await.ok()?).ok()?;
    answer["gitVersion"].as_str().map(str::to_owned)
}
