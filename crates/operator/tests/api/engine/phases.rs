//! An engine that is held in a given phase.

use std::collections::BTreeSet;

use firebolt_api::EnginePhase;
use firebolt_api::key::Label;
use firebolt_api::name::EngineNames;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::engine::faults::invariants::Invariants;
use crate::engine::faults::testenv::{ENGINE, ProxiedEnv};
use crate::fault_proxy::{Rule, Verb};
use crate::fixtures::{Engine, IMAGE, engine, new_image};
use crate::kubelet::metrics_server::Answer;
use crate::kubelet::pod_status::Behaviour;
use crate::support::unique;
use crate::testenv::{Namespaced, TestEnv};

const BUSY: Answer = Answer::Queries {
    running: 1,
    suspended: 0,
};

/// An engine in a phase. A rollout goes from generation 0 to generation 1, and a stable engine has generation 0.
pub(super) struct HeldEngine {
    pub proxied: ProxiedEnv,
    pub phase: EnginePhase,
    rule: Option<Rule>,
}

impl HeldEngine {
    /// An engine without anything special.
    pub(super) async fn of(phase: EnginePhase) -> Self {
        Self::on(ProxiedEnv::start().await, phase, engine(ENGINE)).await
    }

    /// This engine, in an environment whose operator runs.
    pub(super) async fn on(proxied: ProxiedEnv, phase: EnginePhase, engine: Engine) -> Self {
        let replicas = i32::from(phase != EnginePhase::Stopped);
        proxied.env.create(&engine.replicas(replicas).0).await;
        proxied.env.wait_for_generation(ENGINE, 0).await;
        let mut held = Self {
            proxied,
            phase,
            rule: None,
        };
        held.arrive().await;
        held
    }

    async fn arrive(&mut self) {
        let (env, namespace) = (&self.proxied.env, &self.proxied.env.namespace);
        match self.phase {
            EnginePhase::Stable | EnginePhase::Stopped => {}
            EnginePhase::Creating => {
                env.node.set_behaviour(namespace, "a-g1", Behaviour::Unready);
                self.proxied.change(1).await;
                env.eventually("the new pod is there", async || env.get::<Pod>("a-g1-0").await)
                    .await;
            }
            EnginePhase::Draining => {
                env.node.metrics(namespace, "a-g0", BUSY);
                self.proxied.change(1).await;
                env.wait_for_message(ENGINE, "1 query left").await;
            }
            // These two last for one reconcile, in which the operator is held.
            EnginePhase::Switching | EnginePhase::Cleaning => {
                let rule = self.proxied.hold_at(self.phase);
                self.proxied.change(1).await;
                self.proxied.struck(&rule).await;
                self.rule = Some(rule);
            }
        }
    }

    pub(super) fn env(&self) -> &TestEnv {
        &self.proxied.env
    }

    /// The newest generation.
    pub(super) fn current(&self) -> i64 {
        i64::from(!self.is_at_rest())
    }

    pub(super) fn is_at_rest(&self) -> bool {
        match self.phase {
            EnginePhase::Stable | EnginePhase::Stopped => true,
            EnginePhase::Creating | EnginePhase::Switching | EnginePhase::Draining | EnginePhase::Cleaning => false,
        }
    }

    /// Whether the operator acts in this phase, so that a test can wait for its reaction.
    pub(super) fn is_awake(&self) -> bool {
        self.rule.is_none()
    }

    /// Lets an operator that stands still go on. Pods stay as they are.
    pub(super) fn resume(&self) {
        if let Some(rule) = &self.rule {
            rule.release();
        }
    }

    /// Lets the phase end.
    pub(super) fn pass(&self) {
        self.env().node.forget(&self.env().namespace);
        self.resume();
    }

    /// Waits until the engine is stable with all objects of this generation and no others.
    pub(super) async fn rests_at(&self, generation: i64, shape: &Value) {
        let env = self.env();
        env.wait_for_generation(ENGINE, generation).await;
        let expected = BTreeSet::from([
            format!("StatefulSet {ENGINE}-g{generation}"),
            format!("Service {ENGINE}-g{generation}-hl"),
            format!("Service {ENGINE}-service"),
            format!("ConfigMap {ENGINE}-g{generation}-config"),
        ]);
        let alone = async || (objects(env).await == expected).then_some(());
        let what = format!("nothing but generation {generation} is left");
        env.eventually(&what, alone).await;
        let whole = async || {
            let routed = env.routed_to(ENGINE).await == Some(generation);
            (routed && self::shape(env, generation).await.as_ref() == Some(shape)).then_some(())
        };
        let what = format!("generation {generation} looks like {shape:#}");
        env.eventually(&what, whole).await;
        let status = env.status(ENGINE).await;
        assert_eq!(status.current_generation, generation, "another rollout has begun");
    }

    /// Watches the invariants from now on, for a test in which a person has just broken them.
    ///
    /// What is there is walked through in the order in which it was last written; with the engine as the last, it is
    /// all there when the engine is read.
    pub(super) async fn watch(&self) -> Invariants {
        let env = self.env();
        let touch = json!({ "metadata": { "annotations": { "example.com/touched": unique("at") } } });
        env.edit_engine(ENGINE, touch).await;
        let invariants = Invariants::watch(&env.cluster, &env.namespace, ENGINE).await;
        invariants.catch_up().await;
        invariants
    }

    /// The objects that the operator deleted after this number of writes.
    pub(super) fn deleted_since(&self, writes: usize) -> Vec<String> {
        let journal = self.proxied.proxy.writes();
        let deletes = journal[writes..].iter().filter(|write| write.call.verb == Verb::Delete);
        deletes.filter_map(|write| write.call.name.clone()).collect()
    }
}

async fn objects(env: &TestEnv) -> BTreeSet<String> {
    async fn names<K: Namespaced>(env: &TestEnv) -> Vec<String> {
        let all = env.list::<K>().await;
        let ours = all
            .iter()
            .filter(|object| object.labels().contains_key(Label::Engine.key()));
        ours.map(|object| format!("{} {}", K::kind(&()), object.name_any()))
            .collect()
    }
    let found = [
        names::<StatefulSet>(env).await,
        names::<Service>(env).await,
        names::<ConfigMap>(env).await,
    ];
    found.into_iter().flatten().collect()
}

/// What the children of a generation ask for, with neither its number nor the tag of its image: generations of the same
/// specification have the same shape, whatever happened before. None if a child is missing or on its way out.
pub(super) async fn shape(env: &TestEnv, generation: i64) -> Option<Value> {
    let names = EngineNames(ENGINE);
    let set = part::<StatefulSet>(env, &names.stateful_set(generation)).await?;
    let config = part::<ConfigMap>(env, &names.config_map(generation)).await?;
    let headless = part::<Service>(env, &names.headless_service(generation)).await?;
    let routing = part::<Service>(env, &names.routing_service()).await?;
    let text = json!([set, config, headless, routing]).to_string();
    let text = text.replace(&format!("{ENGINE}-g{generation}"), "a-gN");
    let label = |value: &str| format!("\"{}\":\"{value}\"", Label::Generation);
    // The routing Service is at another one until the switch.
    let text = (0..10).fold(text, |text, number| {
        text.replace(&label(&number.to_string()), &label("N"))
    });
    let tag = |tag: usize| format!("engine:changed-{tag}\"");
    let original = IMAGE.rsplit_once('/').map(|(_, image)| format!("{image}\""))?;
    let text = (0..10).fold(text, |text, number| text.replace(&tag(number), &original));
    serde_json::from_str(&text).ok()
}

async fn part<K: Namespaced>(env: &TestEnv, name: &str) -> Option<Value> {
    let object = env.get::<K>(name).await?;
    if object.meta().deletion_timestamp.is_some() {
        return None;
    }
    let value = serde_json::to_value(&object).ok()?;
    let mut spec = value["spec"].clone();
    // A Service that is created again gets another address, unless it has none.
    if let Some(spec) = spec
        .as_object_mut()
        .filter(|spec| spec.get("clusterIP") != Some(&json!("None")))
    {
        spec.retain(|key, _| !key.starts_with("clusterIP"));
    }
    Some(json!({
        "labels": object.labels(), "owners": object.owner_references(), "spec": spec, "data": value["data"],
    }))
}

/// The pods of a generation, by UID: other ones under the same names are not the same.
pub(super) async fn pods(env: &TestEnv, generation: i64) -> BTreeSet<String> {
    let number = generation.to_string();
    let pods = env.list::<Pod>().await;
    let own = pods
        .iter()
        .filter(|pod| pod.labels().get(Label::Generation.key()) == Some(&number));
    own.filter_map(ResourceExt::uid).collect()
}

/// The edit that gives the engine back what it had at first.
pub(super) fn original_image() -> Value {
    new_image(IMAGE)
}
