//! Waiting for the progress of instance and engines.

use std::collections::BTreeSet;

use firebolt_api::condition::{Condition, EngineCondition, is_true};
use firebolt_api::key::Label;
use firebolt_api::name::EngineNames;
use firebolt_api::{EnginePhase, FireboltEngine, FireboltEngineStatus, FireboltInstance, InstancePhase};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Service};
use kube::ResourceExt;

use super::fixture::{Engine, INSTANCE};
use super::testenv::{Namespaced, TestEnv};

impl TestEnv {
    /// Waits until the last edit of the instance is reconciled, all components are ready, and its gateway can be
    /// reached.
    pub async fn instance_is_ready(&self) -> FireboltInstance {
        let is = |instance: &FireboltInstance| {
            instance.status.as_ref().is_some_and(|status| {
                status.phase == Some(InstancePhase::Ready) && status.observed_generation == instance.metadata.generation
            })
        };
        let instance = self.becomes(INSTANCE, "is ready", is).await;
        // The network hears of a pod a moment after the API server.
        let answers = async || self.gateway_answers().await.then_some(());
        self.eventually("the gateway answers", answers).await;
        instance
    }

    /// Applies a new engine, and waits until it is ready.
    pub async fn deploy(&self, engine: &Engine) -> FireboltEngineStatus {
        self.apply(engine).await;
        self.settles(&engine.0.name_any(), 0).await
    }

    /// Waits until the engine is stable at this generation, and nothing of another one is left.
    pub async fn settles(&self, engine: &str, generation: i64) -> FireboltEngineStatus {
        let sentence = format!("is at rest with generation {generation}");
        let status = self.rests(engine, &sentence, |active| active == generation).await;
        let left = self.generations(engine).await;
        assert_eq!(
            left,
            [generation],
            "engine {engine} is at rest, but not with one generation"
        );
        status
    }

    /// Waits until the engine is stable after its last edit, and returns its generation.
    pub async fn comes_to_rest(&self, engine: &str) -> i64 {
        self.rests(engine, "is at rest", |_| true).await.active_generation
    }

    async fn rests(&self, engine: &str, sentence: &str, with: impl Fn(i64) -> bool) -> FireboltEngineStatus {
        let is = |engine: &FireboltEngine| {
            engine.status.as_ref().is_some_and(|status| {
                let ended = matches!(status.phase, Some(EnginePhase::Stable | EnginePhase::Stopped));
                let observed = status.observed_generation == engine.metadata.generation;
                let carried_out = observed && !is_true(&status.conditions, EngineCondition::Stalled);
                let whole = status.current_generation == status.active_generation;
                ended && carried_out && whole && with(status.active_generation)
            })
        };
        let found = self.becomes(engine, sentence, is).await;
        found.status.expect("a phase stands in a status")
    }

    /// Waits until the engine is in the phase.
    pub async fn reaches(&self, engine: &str, phase: EnginePhase) -> FireboltEngineStatus {
        let is = |engine: &FireboltEngine| engine.status.as_ref().and_then(|status| status.phase) == Some(phase);
        let found = self.becomes(engine, &format!("is {phase}"), is).await;
        found.status.expect("a phase stands in a status")
    }

    /// Waits until the condition `Ready` of the engine has the reason.
    pub async fn has_reason(&self, engine: &str, reason: &str) -> Condition {
        let has = |engine: &FireboltEngine| ready(engine).is_some_and(|ready| ready.reason == reason);
        let found = self.becomes(engine, &format!("reports {reason}"), has).await;
        ready(&found).cloned().expect("it has a reason")
    }

    /// Waits until the message of the condition `Ready` of the engine contains the text.
    pub async fn has_message(&self, engine: &str, text: &str) -> Condition {
        let has = |engine: &FireboltEngine| ready(engine).is_some_and(|ready| ready.message.contains(text));
        let found = self.becomes(engine, &format!("reports {text:?}"), has).await;
        ready(&found).cloned().expect("it has a message")
    }

    /// Waits for an event of the engine.
    pub async fn emits_event(&self, engine: &str, reason: &str, message: &str) {
        let emitted = async || {
            let events = self.list::<Event>("").await;
            let is = |event: &Event| {
                event.involved_object.name.as_deref() == Some(engine)
                    && event.reason.as_deref() == Some(reason)
                    && event.message.as_deref().is_some_and(|text| text.contains(message))
            };
            events.iter().any(is).then_some(())
        };
        let sentence = format!("an event {reason} of engine {engine} says {message:?}");
        self.eventually(&sentence, emitted).await;
    }

    /// The generations with a StatefulSet, a Service or a ConfigMap that is not being deleted, in order.
    pub async fn generations(&self, engine: &str) -> Vec<i64> {
        let mut generations = self.generations_of::<StatefulSet>(engine).await;
        generations.append(&mut self.generations_of::<Service>(engine).await);
        generations.append(&mut self.generations_of::<ConfigMap>(engine).await);
        generations.into_iter().collect()
    }

    /// The generations with an object of this kind that is not being deleted.
    async fn generations_of<K: Namespaced>(&self, engine: &str) -> BTreeSet<i64> {
        // The routing Service has the first label only.
        let labels = format!("{}={engine},{}", Label::Engine, Label::Generation);
        let mut objects = self.list::<K>(&labels).await;
        objects.retain(|object| object.meta().deletion_timestamp.is_none());
        let number = |object: &K| object.labels()[Label::Generation.key()].parse().expect("a number");
        objects.iter().map(number).collect()
    }

    /// The pods of a generation that are not being deleted, in the order of their names.
    pub async fn pods(&self, engine: &str, generation: i64) -> Vec<Pod> {
        let labels = format!("{}={engine},{}={generation}", Label::Engine, Label::Generation);
        let mut pods = self.list::<Pod>(&labels).await;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(ResourceExt::name_any);
        pods
    }

    /// The names of the pods of a generation with this many replicas.
    #[must_use]
    pub fn pod_names(engine: &str, generation: i64, replicas: i32) -> Vec<String> {
        let name = |ordinal| EngineNames(engine).pod(generation, ordinal);
        (0..replicas).map(name).collect()
    }
}

/// The condition `Ready` of an engine.
#[must_use]
pub fn ready(engine: &FireboltEngine) -> Option<&Condition> {
    let mut conditions = engine.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.type_ == "Ready")
}
