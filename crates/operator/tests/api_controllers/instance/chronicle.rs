//! Everything that an instance ever said, as a watch tells it: what lasts for a moment only is seen too.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use firebolt_api::{FireboltInstance, InstancePhase};
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::task::AbortHandle;

use super::stage::{Stage, status};

/// Follows one instance until it is dropped.
pub struct Chronicle {
    name: String,
    seen: Arc<Mutex<Vec<FireboltInstance>>>,
    task: AbortHandle,
}

impl Chronicle {
    /// Begins to follow an instance that exists.
    pub async fn of(stage: &Stage, name: &str) -> Self {
        let seen = Arc::<Mutex<Vec<FireboltInstance>>>::default();
        let task = tokio::spawn(follow(stage.api(), name.to_owned(), Arc::clone(&seen))).abort_handle();
        let chronicle = Self {
            name: name.to_owned(),
            seen,
            task,
        };
        chronicle.states(stage).await;
        chronicle
    }

    /// Every state up to now.
    pub async fn states(&self, stage: &Stage) -> Vec<FireboltInstance> {
        let newest = stage.the::<FireboltInstance>(&self.name).await.resource_version();
        let caught_up = async || {
            let seen = self.seen.lock().unwrap().clone();
            let is_newest = |state: &FireboltInstance| state.resource_version() == newest;
            seen.iter().any(is_newest).then_some(seen)
        };
        stage.eventually("the watch has caught up", caught_up).await
    }

    /// The phases up to now, each once for as long as it lasted.
    pub async fn phases(&self, stage: &Stage) -> Vec<InstancePhase> {
        let states = self.states(stage).await;
        let mut phases: Vec<_> = states.iter().filter_map(|state| status(state).phase).collect();
        phases.dedup();
        phases
    }
}

impl Drop for Chronicle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(api: Api<FireboltInstance>, name: String, seen: Arc<Mutex<Vec<FireboltInstance>>>) {
    let one = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut states = pin!(watcher(api, one).default_backoff().applied_objects());
    while let Some(state) = states.next().await {
        if let Ok(state) = state {
            seen.lock().unwrap().push(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::instance::fixture::{MAIN, minimal};

    /// Without this, a story in which an instance is never anything but ready could not fail.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_phase_that_lasts_for_a_moment_is_seen() {
        let stage = Stage::set().await;
        stage.create(&minimal(MAIN)).await;
        let chronicle = Chronicle::of(&stage, MAIN).await;
        for phase in ["Ready", "Degraded", "Ready"] {
            let status = json!({ "phase": phase });
            stage.set_status::<FireboltInstance>(MAIN, status).await;
        }
        let seen = chronicle.phases(&stage).await;
        assert_eq!(
            seen,
            [InstancePhase::Ready, InstancePhase::Degraded, InstancePhase::Ready]
        );
    }
}
