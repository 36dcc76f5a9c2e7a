//! A test environment whose operator reaches the API server through a proxy and is checked against the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

use firebolt_api::key::Label;
use firebolt_api::{EnginePhase, FireboltEngine};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;

use super::invariants::Invariants;
use crate::crash_env::CrashEnv;
use crate::fault_proxy::{Fault, Proxy, Rule, writes};
use crate::fixtures::{engine, new_image};
use crate::testenv::{Namespaced, TestEnv};

/// The name of the engine.
pub(crate) const ENGINE: &str = "a";

/// An operator behind a proxy, and the invariants of one engine. It does not run until it is started.
pub(crate) struct ProxiedEnv {
    pub invariants: Invariants,
    crash_env: CrashEnv<TestEnv>,
}

impl Deref for ProxiedEnv {
    type Target = CrashEnv<TestEnv>;

    fn deref(&self) -> &Self::Target {
        &self.crash_env
    }
}

impl DerefMut for ProxiedEnv {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.crash_env
    }
}

impl ProxiedEnv {
    /// An environment without an operator.
    pub(crate) async fn without_operator() -> Self {
        let env = TestEnv::without_operator().await;
        Self {
            invariants: Invariants::watch(&env.cluster, &env.namespace, ENGINE).await,
            crash_env: CrashEnv::new(env),
        }
    }

    /// An environment with a running operator.
    pub(crate) async fn start() -> Self {
        let mut proxied = Self::without_operator().await;
        proxied.start_operator();
        proxied
    }

    /// An environment with a running operator and a deployed engine.
    pub(crate) async fn deployed() -> Self {
        let proxied = Self::start().await;
        proxied.env.create(&engine(ENGINE).0).await;
        proxied.env.wait_for_generation(ENGINE, 0).await;
        proxied
    }

    /// Deploys the engine, changes it, and waits for generation 1. Each step is skipped if it is done already, so that
    /// this can be repeated from any point.
    pub(crate) async fn deploy_and_change(&self) {
        let found = match self.env.get::<FireboltEngine>(ENGINE).await {
            Some(found) => found,
            None => self.env.create(&engine(ENGINE).0).await,
        };
        let is_unchanged = found.metadata.generation == Some(1);
        if is_unchanged {
            self.env.wait_for_generation(ENGINE, 0).await;
            self.change(1).await;
        }
        self.env.wait_for_generation(ENGINE, 1).await;
    }

    /// Gives the engine another image, which asks for another generation.
    pub(crate) async fn change(&self, number: usize) {
        let image = format!("registry.example/engine:changed-{number}");
        self.env.edit_engine(ENGINE, new_image(&image)).await;
    }

    /// Waits until the engine is at rest with this generation and nothing else is left, and checks the invariants on
    /// all that happened. Returns what is there, to be compared with other runs.
    pub(crate) async fn at_rest(&self, generation: i64) -> FinalState {
        self.env.wait_for_generation(ENGINE, generation).await;
        let what = format!("nothing but generation {generation} is left");
        let rest = async || Some(self.rest().await).filter(|rest| rest.is_only(generation));
        let rest = self.env.eventually(&what, rest).await;
        self.invariants.hold().await;
        rest
    }

    async fn rest(&self) -> FinalState {
        let env = &self.env;
        let status = env.status(ENGINE).await;
        let routing = env.get::<Service>(&format!("{ENGINE}-service")).await;
        let selector = routing.and_then(|service| service.spec?.selector).unwrap_or_default();
        let mut objects = names::<StatefulSet>(env).await;
        objects.extend(names::<Service>(env).await);
        objects.extend(names::<ConfigMap>(env).await);
        objects.extend(names::<Pod>(env).await);
        FinalState {
            phase: status.phase,
            generations: [status.current_generation, status.active_generation],
            draining: status.draining_generation,
            selector,
            objects,
        }
    }

    /// Waits until the fault of the rule has happened to a request.
    pub(crate) async fn struck(&self, rule: &Rule) {
        let struck = async || (rule.struck() > 0).then_some(());
        self.env.eventually("the fault happens", struck).await;
    }

    /// Has the operator stand still right after it has stored a status of this phase, until the rule is released.
    pub(crate) fn hold_at(&self, phase: EnginePhase) -> Rule {
        hold_at(&self.proxy, phase)
    }
}

/// Like [`ProxiedEnv::hold_at`], for an operator of its own.
pub(crate) fn hold_at(proxy: &Proxy, phase: EnginePhase) -> Rule {
    let status = writes().of("fireboltengines").status();
    let write = status.saying(&format!("\"phase\":\"{phase}\""));
    proxy.on(write.next(1), Fault::HoldResponse)
}

/// An engine at rest, as far as it is the same in every run.
#[derive(Debug, PartialEq)]
pub(crate) struct FinalState {
    phase: Option<EnginePhase>,
    generations: [i64; 2],
    draining: Option<i64>,
    selector: BTreeMap<String, String>,
    objects: BTreeSet<String>,
}

impl FinalState {
    fn is_only(&self, generation: i64) -> bool {
        let expected = [
            format!("StatefulSet {ENGINE}-g{generation}"),
            format!("Service {ENGINE}-g{generation}-hl"),
            format!("Service {ENGINE}-service"),
            format!("ConfigMap {ENGINE}-g{generation}-config"),
            format!("Pod {ENGINE}-g{generation}-0"),
        ];
        let selected = self.selector.get(Label::Generation.key());
        self.objects == BTreeSet::from(expected) && self.draining.is_none() && selected == Some(&generation.to_string())
    }
}

/// The objects of one kind that claim to belong to an engine.
async fn names<K: Namespaced>(env: &TestEnv) -> BTreeSet<String> {
    let objects = env.list::<K>().await;
    let ours = objects
        .iter()
        .filter(|object| object.labels().contains_key(Label::Engine.key()));
    ours.map(|object| format!("{} {}", K::kind(&()), object.name_any()))
        .collect()
}
