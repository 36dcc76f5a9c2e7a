//! What the fault tests play on: a scene whose operator reaches the API server through a proxy, watched over by the
//! invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use firebolt_api::key::Label;
use firebolt_api::{EnginePhase, FireboltEngine};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use rustix::process::Signal;
use tokio::sync::OnceCell;

use super::invariants::Invariants;
use crate::fixture::{engine, new_image};
use crate::proxy::{Fault, Proxy, Rule, writes};
use crate::scene::{Namespaced, Scene};
use crate::support::{Operator, SOON, service_account};

/// The engine of every story.
pub const ENGINE: &str = "a";

/// An operator behind a proxy. It does not run until it is started.
pub struct Stage {
    operator: Option<Operator>,
    pub proxy: Proxy,
    pub invariants: Invariants,
    pub scene: Scene,
}

impl Stage {
    /// Sets the stage.
    pub async fn set() -> Self {
        let scene = Scene::without_operator().await;
        let kubeconfig = operator_kubeconfig(&scene).await;
        Self {
            operator: None,
            proxy: Proxy::start(&scene.cluster, &kubeconfig),
            invariants: Invariants::watch(&scene.cluster, &scene.namespace, ENGINE).await,
            scene,
        }
    }

    /// Sets the stage and starts the operator.
    pub async fn begin() -> Self {
        let mut stage = Self::set().await;
        stage.start();
        stage
    }

    /// Sets the stage, starts the operator and has it deploy the engine.
    pub async fn deployed() -> Self {
        let stage = Self::begin().await;
        stage.scene.create(&engine(ENGINE).0).await;
        stage.scene.wait_for_generation(ENGINE, 0).await;
        stage
    }

    /// Starts the operator, alone: nobody waits for a lease.
    pub fn start(&mut self) {
        let flags = ["--namespaces", &self.scene.namespace, "--leader-elect=false"];
        self.operator = Some(Operator::start(&self.scene.cluster, &self.proxy.kubeconfig(), &flags));
    }

    /// Kills the operator and waits until it is gone.
    pub fn kill(&mut self) {
        let mut operator = self.operator.take().expect("it runs");
        operator.signal(Signal::KILL);
        operator.wait(SOON);
    }

    /// The whole story: the engine is deployed, then changed, and ends with generation 1. With each of the steps done
    /// only if it has not been, it can be told again from any point.
    pub async fn story(&self) {
        let found = match self.scene.get::<FireboltEngine>(ENGINE).await {
            Some(found) => found,
            None => self.scene.create(&engine(ENGINE).0).await,
        };
        let is_unchanged = found.metadata.generation == Some(1);
        if is_unchanged {
            self.scene.wait_for_generation(ENGINE, 0).await;
            self.change(1).await;
        }
        self.scene.wait_for_generation(ENGINE, 1).await;
    }

    /// Gives the engine another image, which asks for another generation.
    pub async fn change(&self, number: usize) {
        let image = format!("registry.example/engine:changed-{number}");
        self.scene.edit_engine(ENGINE, new_image(&image)).await;
    }

    /// Waits until the engine is at rest with this generation and nothing else is left, and checks the invariants on
    /// all that happened. Returns what is there, to be compared with other runs.
    pub async fn at_rest(&self, generation: i64) -> Rest {
        self.scene.wait_for_generation(ENGINE, generation).await;
        let what = format!("nothing but generation {generation} is left");
        let rest = async || Some(self.rest().await).filter(|rest| rest.is_only(generation));
        let rest = self.scene.eventually(&what, rest).await;
        self.invariants.hold().await;
        rest
    }

    async fn rest(&self) -> Rest {
        let scene = &self.scene;
        let status = scene.status(ENGINE).await;
        let routing = scene.get::<Service>(&format!("{ENGINE}-service")).await;
        let selector = routing.and_then(|service| service.spec?.selector).unwrap_or_default();
        let mut objects = names::<StatefulSet>(scene).await;
        objects.extend(names::<Service>(scene).await);
        objects.extend(names::<ConfigMap>(scene).await);
        objects.extend(names::<Pod>(scene).await);
        Rest {
            phase: status.phase,
            generations: [status.current_generation, status.active_generation],
            draining: status.draining_generation,
            selector,
            objects,
        }
    }

    /// Waits until the fault of the rule has happened to a request.
    pub async fn struck(&self, rule: &Rule) {
        let struck = async || (rule.struck() > 0).then_some(());
        self.scene.eventually("the fault happens", struck).await;
    }

    /// Has the operator stand still right after it has stored a status of this phase, until the rule is released.
    pub fn hold_at(&self, phase: EnginePhase) -> Rule {
        hold_at(&self.proxy, phase)
    }
}

/// Like [`Stage::hold_at`], for an operator of its own.
pub fn hold_at(proxy: &Proxy, phase: EnginePhase) -> Rule {
    let status = writes().of("fireboltengines").status();
    let said = status.saying(&format!("\"phase\":\"{phase}\""));
    proxy.on(said.next(1), Fault::HoldResponse)
}

/// The kubeconfig of the shipped service account. One for all, because each new one replaces the file.
pub async fn operator_kubeconfig(scene: &Scene) -> PathBuf {
    static KUBECONFIG: OnceCell<PathBuf> = OnceCell::const_new();
    KUBECONFIG.get_or_init(|| service_account(&scene.cluster)).await.clone()
}

/// An engine at rest, as far as it is the same in every run.
#[derive(Debug, PartialEq)]
pub struct Rest {
    phase: Option<EnginePhase>,
    generations: [i64; 2],
    draining: Option<i64>,
    selector: BTreeMap<String, String>,
    objects: BTreeSet<String>,
}

impl Rest {
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
async fn names<K: Namespaced>(scene: &Scene) -> BTreeSet<String> {
    let objects = scene.list::<K>().await;
    let ours = objects
        .iter()
        .filter(|object| object.labels().contains_key(Label::Engine.key()));
    ours.map(|object| format!("{} {}", K::kind(&()), object.name_any()))
        .collect()
}
