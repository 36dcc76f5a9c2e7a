//! What the stories of instances play on: a scene with volumes for databases, and the operator.

use std::ops::{Deref, DerefMut};

use firebolt_api::condition::{Condition, InstanceCondition};
use firebolt_api::{FireboltInstance, FireboltInstanceStatus, InstancePhase};
use kube::ResourceExt;
use serde_json::Value;

use super::volumes::Volumes;
use crate::pod_status::Behaviour;
use crate::scene::Scene;

/// One replica that waits for no lease.
const ALONE: &str = "--leader-elect=false";

/// A scene for instances.
pub struct Stage {
    scene: Scene,
    _volumes: Volumes,
}

impl Deref for Stage {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl DerefMut for Stage {
    fn deref_mut(&mut self) -> &mut Scene {
        &mut self.scene
    }
}

/// Whose pods are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    Postgres,
    Metadata,
    Gateway,
}

impl Stage {
    /// Sets the stage and starts the operator.
    pub async fn begin() -> Self {
        let mut stage = Self::set().await;
        stage.start();
        stage
    }

    /// Sets the stage.
    pub async fn set() -> Self {
        let scene = Scene::empty().await;
        Self {
            _volumes: Volumes::provide(&scene).await,
            scene,
        }
    }

    /// Starts the operator, or another one.
    pub fn start(&mut self) {
        self.scene.start_operator_with(&[ALONE]);
    }

    /// Sets the stage, starts the operator, and waits until the instance is ready.
    pub async fn deployed(instance: &FireboltInstance) -> Self {
        let stage = Self::begin().await;
        stage.deploy(instance).await;
        stage
    }

    /// Creates the instance and waits until it is ready.
    pub async fn deploy(&self, instance: &FireboltInstance) -> FireboltInstance {
        self.create(instance).await;
        self.wait_for_phase(&instance.name_any(), InstancePhase::Ready).await
    }

    /// The scene itself, for what goes by the same name for engines.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    pub async fn edit_instance(&self, name: &str, patch: Value) -> FireboltInstance {
        self.edit(name, patch).await
    }

    /// From now on, those pods of the instance fare like this.
    pub fn fares(&self, instance: &str, component: Component, behaviour: Behaviour) {
        let plan = |pods: &str, behaviour| {
            let pods = format!("{instance}-{pods}");
            self.node.plan(&self.namespace, &pods, behaviour);
        };
        match component {
            Component::Postgres => plan("metadata-pg", behaviour),
            Component::Gateway => plan("gateway", behaviour),
            Component::Metadata => {
                // The name stands for those of the database too.
                plan("metadata", behaviour);
                plan("metadata-pg", Behaviour::Ready);
            }
        }
    }

    /// Has the operator look at everything of an instance at rest, and waits until it has: what it repairs is the proof.
    pub async fn force_a_look(&self, instance: &str) {
        let name = format!("{instance}-gateway-config");
        let old = self.remove("ConfigMap", &name).await;
        self.wait_for_another("ConfigMap", &name, &old).await;
        self.wait_until_nothing_is_planned().await;
    }

    /// Waits until the instance is as described, and says so of its latest edit.
    pub async fn wait_for(
        &self,
        instance: &str,
        what: &str,
        is: impl Fn(&FireboltInstance) -> bool,
    ) -> FireboltInstance {
        let what = format!("instance {instance}: {what}");
        let found = async || self.get(instance).await.filter(&speaks_of_latest).filter(&is);
        self.eventually(&what, found).await
    }

    pub async fn wait_for_phase(&self, instance: &str, phase: InstancePhase) -> FireboltInstance {
        self.wait_for(instance, &format!("is {phase}"), |it| status(it).phase == Some(phase))
            .await
    }

    /// Waits until the condition of the instance has the reason.
    pub async fn wait_for_reason(&self, instance: &str, kind: InstanceCondition, reason: &str) -> Condition {
        let what = format!("{kind} has the reason {reason}");
        let found = self
            .wait_for(instance, &what, |it| condition(it, kind).reason == reason)
            .await;
        condition(&found, kind)
    }

    /// Waits until the message of the `Ready` condition contains the text.
    pub async fn wait_for_message(&self, instance: &str, text: &str) -> FireboltInstance {
        let says = |it: &FireboltInstance| condition(it, InstanceCondition::Ready).message.contains(text);
        self.wait_for(instance, &format!("says {text:?}"), says).await
    }
}

fn speaks_of_latest(instance: &FireboltInstance) -> bool {
    status(instance).observed_generation == instance.metadata.generation
}

pub fn status(instance: &FireboltInstance) -> FireboltInstanceStatus {
    instance.status.clone().unwrap_or_default()
}

/// A condition of the instance; empty if it has none.
pub fn condition(instance: &FireboltInstance, kind: InstanceCondition) -> Condition {
    let conditions = status(instance).conditions;
    let found = conditions.into_iter().find(|it| it.type_ == <&str>::from(kind));
    found.unwrap_or_else(|| Condition {
        last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
        message: String::new(),
        observed_generation: None,
        reason: String::new(),
        status: String::new(),
        type_: String::new(),
    })
}
