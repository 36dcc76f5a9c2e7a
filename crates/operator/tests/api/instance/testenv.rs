//! A test environment with volumes for databases.

use std::borrow::Borrow;
use std::ops::{Deref, DerefMut};

use firebolt_api::condition::{Condition, InstanceCondition};
use firebolt_api::{FireboltInstance, FireboltInstanceStatus, InstancePhase};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use serde_json::Value;

use super::fixtures::MAIN;
use super::volumes::Volumes;
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::TestEnv;

/// One replica that waits for no lease.
const ALONE: &str = "--leader-elect=false";

/// A test environment for instances.
pub(super) struct InstanceEnv {
    base: TestEnv,
    _volumes: Volumes,
}

impl Deref for InstanceEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.base
    }
}

impl DerefMut for InstanceEnv {
    fn deref_mut(&mut self) -> &mut TestEnv {
        &mut self.base
    }
}

impl Borrow<TestEnv> for InstanceEnv {
    fn borrow(&self) -> &TestEnv {
        &self.base
    }
}

/// Whose pods are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    Postgres,
    Metadata,
    Gateway,
}

impl InstanceEnv {
    /// An environment with a running operator.
    pub(super) async fn start() -> Self {
        let mut env = Self::without_operator().await;
        env.start_operator();
        env
    }

    /// An environment without an operator.
    pub(super) async fn without_operator() -> Self {
        let base = TestEnv::without_instance().await;
        Self {
            _volumes: Volumes::provide(&base).await,
            base,
        }
    }

    /// Starts the operator, or another one.
    pub(super) fn start_operator(&mut self) {
        self.start_operator_with_flags(&[]);
    }

    /// Starts the operator with more flags than usual.
    pub(super) fn start_operator_with_flags(&mut self, more: &[&str]) {
        self.base.start_operator_with(&[&[ALONE], more].concat());
    }

    /// An environment with a running operator and an instance that is ready.
    pub(super) async fn deployed(instance: &FireboltInstance) -> Self {
        let env = Self::start().await;
        env.deploy(instance).await;
        env
    }

    /// Creates the instance and waits until it is ready, and its database with it: until then, its status can change.
    pub(super) async fn deploy(&self, instance: &FireboltInstance) -> FireboltInstance {
        self.create(instance).await;
        self.wait_until_ready_with_database(&instance.name_any()).await
    }

    /// The base, for the methods that engines have under the same name.
    pub(super) fn base(&self) -> &TestEnv {
        &self.base
    }

    pub(super) async fn edit_instance(&self, name: &str, patch: Value) -> FireboltInstance {
        self.edit(name, patch).await
    }

    /// From now on, those pods of the instance fare like this.
    pub(super) fn set_behaviour(&self, instance: &str, component: Component, behaviour: Behaviour) {
        let pods = |rest: &str| format!("{instance}-{rest}");
        match component {
            Component::Postgres => self
                .node
                .set_behaviour(&self.namespace, &pods("metadata-pg"), behaviour),
            Component::Gateway => self.node.set_behaviour(&self.namespace, &pods("gateway"), behaviour),
            Component::Metadata => {
                // The name stands for those of the database too.
                let (metadata, postgres) = (pods("metadata"), pods("metadata-pg"));
                let behaviours = [(metadata.as_str(), behaviour), (postgres.as_str(), Behaviour::Ready)];
                self.node.set_behaviours(&self.namespace, &behaviours);
            }
        }
    }

    /// Makes the operator reconcile an instance at rest, and waits until it has: the object that it repairs is the proof.
    pub(super) async fn force_reconcile(&self, instance: &str) {
        let name = format!("{instance}-gateway-config");
        let old = self.remove("ConfigMap", &name).await;
        self.wait_for_another("ConfigMap", &name, &old).await;
        self.wait_until_no_reconcile_is_scheduled().await;
    }

    /// Waits until the instance is as described, and says so of its latest edit.
    pub(super) async fn wait_for(
        &self,
        instance: &str,
        what: &str,
        is: impl Fn(&FireboltInstance) -> bool,
    ) -> FireboltInstance {
        let latest = |it: &FireboltInstance| speaks_of_latest(it) && is(it);
        self.wait_for_object(instance, what, latest).await
    }

    pub(super) async fn wait_for_phase(&self, instance: &str, phase: InstancePhase) -> FireboltInstance {
        self.wait_for(instance, &format!("is {phase}"), |it| status(it).phase == Some(phase))
            .await
    }

    /// Waits until the instance is ready, and its database with it. Without its database it can be ready, but reports
    /// that.
    pub(super) async fn wait_until_ready_with_database(&self, instance: &str) -> FireboltInstance {
        let is_ready = |it: &FireboltInstance| {
            let message = condition(it, InstanceCondition::Ready).message;
            status(it).phase == Some(InstancePhase::Ready) && !message.contains("PostgreSQL")
        };
        self.wait_for(instance, "is ready, with its database", is_ready).await
    }

    /// Waits until this number of gateway pods of [`MAIN`] are ready, according to their Deployment.
    pub(super) async fn wait_for_ready_gateways(&self, count: i32) {
        let counted = async || {
            let status = self.the::<Deployment>(&format!("{MAIN}-gateway")).await.status?;
            (status.ready_replicas == Some(count)).then_some(())
        };
        self.eventually(&format!("{count} gateway pods are ready"), counted)
            .await;
    }

    /// Waits until the condition of the instance has the reason.
    pub(super) async fn wait_for_reason(&self, instance: &str, kind: InstanceCondition, reason: &str) -> Condition {
        let what = format!("{kind} has the reason {reason}");
        let found = self
            .wait_for(instance, &what, |it| condition(it, kind).reason == reason)
            .await;
        condition(&found, kind)
    }

    /// Waits until the message of the `Ready` condition contains the text.
    pub(super) async fn wait_for_message(&self, instance: &str, text: &str) -> FireboltInstance {
        let says = |it: &FireboltInstance| condition(it, InstanceCondition::Ready).message.contains(text);
        self.wait_for(instance, &format!("says {text:?}"), says).await
    }
}

fn speaks_of_latest(instance: &FireboltInstance) -> bool {
    status(instance).observed_generation == instance.metadata.generation
}

pub(super) fn status(instance: &FireboltInstance) -> FireboltInstanceStatus {
    instance.status.clone().unwrap_or_default()
}

/// A condition of the instance; empty if it has none.
pub(super) fn condition(instance: &FireboltInstance, kind: InstanceCondition) -> Condition {
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
