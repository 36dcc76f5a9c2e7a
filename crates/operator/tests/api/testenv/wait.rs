//! Waiting for what the operator should do.

use std::fmt;
use std::time::Duration;

use firebolt_api::condition::{Condition, EngineCondition, is_true};
use firebolt_api::{EnginePhase, FireboltEngine, FireboltEngineStatus};
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use testkit::wait::eventually_async;

use super::{EventSummary, Namespaced, TestEnv, ready};

/// How long anything may take that should happen soon, on a machine that is busy with everything else.
const TIMEOUT: Duration = Duration::from_secs(90);

impl TestEnv {
    /// Polls until there is a result. The description is for the failure.
    pub(crate) async fn eventually<T>(&self, what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
        let failure = fmt::from_fn(|f| write!(f, "{what}\n{}", self.dump()));
        eventually_async(failure, TIMEOUT, ask).await
    }

    /// Watches an object until there is a result. The description is for the failure.
    pub(crate) async fn watch<K: Namespaced, T>(
        &self,
        name: &str,
        what: &str,
        ask: impl Fn(Option<K>) -> Option<T>,
    ) -> T {
        self.watch_within(TIMEOUT, name, what, ask).await
    }

    /// Like [`TestEnv::watch`], for what takes longer than anything else.
    pub(crate) async fn watch_within<K: Namespaced, T>(
        &self,
        within: Duration,
        name: &str,
        what: &str,
        ask: impl Fn(Option<K>) -> Option<T>,
    ) -> T {
        let mut states = watch_object(self.api::<K>(), name).default_backoff().boxed();
        let answer = async {
            loop {
                let state = states.next().await.expect("a watch goes on for ever");
                // A watch that fails is taken up again.
                if let Some(answer) = state.ok().and_then(&ask) {
                    return answer;
                }
            }
        };
        let answer = tokio::time::timeout(within, Box::pin(answer)).await;
        answer.unwrap_or_else(|_| {
            panic!(
                "timed out after {within:?}: {} {name} {what}\n{}",
                K::kind(&()),
                self.dump()
            )
        })
    }

    /// Waits until the object is as described.
    pub(crate) async fn wait_for_object<K: Namespaced>(&self, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K {
        self.watch(name, what, |object: Option<K>| object.filter(&is)).await
    }

    /// Waits until the engine is as described.
    pub(crate) async fn wait_for(
        &self,
        engine: &str,
        what: &str,
        is: impl Fn(&FireboltEngine) -> bool,
    ) -> FireboltEngine {
        self.wait_for_object(engine, what, is).await
    }

    /// Waits until the engine is in the phase. An end of a rollout counts only if it is that of the latest edit.
    pub(crate) async fn wait_for_phase(&self, engine: &str, phase: EnginePhase) -> FireboltEngineStatus {
        let is = |engine: &FireboltEngine| {
            let status = engine.status.as_ref();
            let observed = status.and_then(|status| status.observed_generation) == engine.metadata.generation;
            let conditions = status.iter().flat_map(|status| &status.conditions);
            let settled = observed && !is_true(conditions, EngineCondition::Stalled);
            let counts = match phase {
                EnginePhase::Stable | EnginePhase::Stopped => settled,
                EnginePhase::Creating | EnginePhase::Switching | EnginePhase::Draining | EnginePhase::Cleaning => true,
            };
            counts && status.and_then(|status| status.phase) == Some(phase)
        };
        let found = self.wait_for(engine, &format!("is {phase}"), is).await;
        found.status.expect("a phase stands in a status")
    }

    /// Waits until the engine is stable with this generation.
    pub(crate) async fn wait_for_generation(&self, engine: &str, generation: i64) -> FireboltEngineStatus {
        let what = format!("is at rest with generation {generation}");
        let is = |engine: &FireboltEngine| {
            engine.status.as_ref().is_some_and(|status| {
                let ended = matches!(status.phase, Some(EnginePhase::Stable | EnginePhase::Stopped));
                ended && (status.current_generation, status.active_generation) == (generation, generation)
            })
        };
        let found = self.wait_for(engine, &what, is).await;
        found.status.expect("a phase stands in a status")
    }

    /// Waits until the `Ready` condition of the engine has the reason.
    pub(crate) async fn wait_for_reason(&self, engine: &str, reason: &str) -> Condition {
        let has = |engine: &FireboltEngine| ready(engine).is_some_and(|ready| ready.reason == reason);
        let found = self.wait_for(engine, &format!("has the reason {reason}"), has).await;
        ready(&found).expect("it has a reason")
    }

    /// Waits until the message of the `Ready` condition contains the text.
    pub(crate) async fn wait_for_message(&self, engine: &str, text: &str) -> Condition {
        let has = |engine: &FireboltEngine| ready(engine).is_some_and(|ready| ready.message.contains(text));
        let found = self.wait_for(engine, &format!("says {text:?}"), has).await;
        ready(&found).expect("it has a message")
    }

    /// Waits until the metrics of those pods were scraped this many times more.
    pub(crate) async fn wait_for_scrapes(&self, pods: &str, more: usize) {
        let enough = self.node.scrapes(&self.namespace, pods) + more;
        let what = format!("{pods} is asked for its metrics {more} times more");
        let asked = async || (self.node.scrapes(&self.namespace, pods) >= enough).then_some(());
        self.eventually(&what, asked).await;
    }

    /// Waits until an event was emitted. Events follow the status that they are about.
    pub(crate) async fn wait_for_event(&self, engine: &str, reason: &str) -> EventSummary {
        let reported = async || {
            self.events(engine)
                .await
                .into_iter()
                .find(|event| event.reason == reason)
        };
        self.eventually(&format!("engine {engine}: there is an event {reason}"), reported)
            .await
    }

    /// Waits until the events of the engine are exactly these, by their reasons and oldest first. Events are created
    /// concurrently, so the newest one may be stored before the others; the order is that of the times at which they
    /// were emitted.
    pub(crate) async fn wait_for_events(&self, engine: &str, reasons: &[&str]) {
        let reported = async || {
            let events = self.events(engine).await;
            let found: Vec<&str> = events.iter().map(|event| event.reason.as_str()).collect();
            (found == reasons).then_some(())
        };
        self.eventually(&format!("engine {engine}: the events are {reasons:?}"), reported)
            .await;
    }

    /// Waits until the object is gone.
    pub(crate) async fn wait_until_gone<K: Namespaced>(&self, name: &str) {
        self.watch(name, "is gone", |object: Option<K>| object.is_none().then_some(()))
            .await;
    }
}
