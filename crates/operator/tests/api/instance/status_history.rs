//! Every status that an instance ever had, from a watch, so that short-lived ones are seen too.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use firebolt_api::{FireboltInstance, InstancePhase};
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::task::AbortHandle;

use super::testenv::{InstanceEnv, status};

/// Follows one instance until it is dropped.
pub(super) struct StatusHistory {
    name: String,
    seen: Arc<Mutex<Vec<FireboltInstance>>>,
    task: AbortHandle,
}

impl StatusHistory {
    /// Begins to follow an instance that exists.
    pub(super) async fn of(env: &InstanceEnv, name: &str) -> Self {
        let seen = Arc::<Mutex<Vec<FireboltInstance>>>::default();
        let task = tokio::spawn(follow(env.api(), name.to_owned(), Arc::clone(&seen))).abort_handle();
        let history = Self {
            name: name.to_owned(),
            seen,
            task,
        };
        history.states(env).await;
        history
    }

    /// Every state up to now.
    pub(super) async fn states(&self, env: &InstanceEnv) -> Vec<FireboltInstance> {
        let newest = env.the::<FireboltInstance>(&self.name).await.resource_version();
        let up_to_date = async || {
            let seen = self.seen.lock().unwrap().clone();
            let is_newest = |state: &FireboltInstance| state.resource_version() == newest;
            seen.iter().any(is_newest).then_some(seen)
        };
        env.eventually("the watch is up to date", up_to_date).await
    }

    /// The phases up to now, each once for as long as it lasted.
    pub(super) async fn phases(&self, env: &InstanceEnv) -> Vec<InstancePhase> {
        let states = self.states(env).await;
        let mut phases: Vec<_> = states.iter().filter_map(|state| status(state).phase).collect();
        phases.dedup();
        phases
    }
}

impl Drop for StatusHistory {
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
    use crate::instance::fixtures::{MAIN, minimal};

    /// Without this, a test in which an instance is never anything but ready could not fail.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_phase_that_lasts_for_a_moment_is_seen() {
        let env = InstanceEnv::without_operator().await;
        env.create(&minimal(MAIN)).await;
        let history = StatusHistory::of(&env, MAIN).await;
        for phase in ["Ready", "Degraded", "Ready"] {
            let status = json!({ "phase": phase });
            env.set_status::<FireboltInstance>(MAIN, status).await;
        }
        let seen = history.phases(&env).await;
        assert_eq!(
            seen,
            [InstancePhase::Ready, InstancePhase::Degraded, InstancePhase::Ready]
        );
    }
}
