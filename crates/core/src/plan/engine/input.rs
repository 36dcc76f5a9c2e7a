//! The input of a plan: the engine, its desired state, its observed state, and the time.
//!
//! # Requirements for the caller
//!
//! - A failed read is an error of the reconcile, never an absence in [`Observed`].
//! - Watch caches are sufficient for a first plan. As long as [`Plan::reads_needed`](super::Plan::reads_needed) asks for
//!   more, that is read live and the plan is made again.
//! - [`DrainSample`] and [`Observed::unrouted_since`] are kept in the memory of one process. A restart loses them,
//!   which costs one more sample and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use firebolt_api::name::EngineNames;
use firebolt_api::{AutoStop, FireboltEngine};
use jiff::Timestamp;

use crate::plan::{Meta, ObservedChild};

/// Everything that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The engine, as read in this reconcile.
    pub engine: &'a FireboltEngine,
    /// The desired state, or why nothing can be rendered at present.
    pub desired: &'a Result<Desired, Gate>,
    /// The auto-stop policy, if there is one and it is known: it does not depend on what can be rendered.
    pub auto_stop: Option<&'a AutoStop>,
    /// Whether the engine can use its instance, or why it cannot.
    pub instance: Result<(), &'a str>,
    /// How an old generation is drained. Known even while rendering is blocked: a rollout in progress is completed.
    pub drain: DrainSettings,
    /// How long a generation may take to become ready before this is reported.
    pub progress_deadline: Duration,
    /// How long gateways may still send queries to the old generation after the switch.
    pub switch_notice: Duration,
    /// How long after its grace period a terminating pod counts as lost, and its generation is replaced. Zero: never.
    pub lost_pod_timeout: Duration,
    /// The observed state of the cluster.
    pub observed: &'a Observed,
    /// What earlier reconciles limit this one to.
    pub limits: Limits<'a>,
    /// The current time.
    pub now: Timestamp,
}

/// What earlier reconciles of the same process limit this one to. The default limits nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// The rendering that the API server rejected, as long as it is not to be sent again.
    pub rejected: Option<Rejected<'a>>,
    /// How long a status has to wait that differs from the last one only in the wording of its messages, as in "3 of 128
    /// pods ready".
    pub wording: Duration,
    /// How long the next reconcile has to wait if this one corrects drift; `None` unless drift was corrected often lately,
    /// because another client keeps changing it back.
    pub drift: Option<Duration>,
    /// Whether the engine adopts the rendering of this version of the operator without a change of its own.
    pub adoption: Adoption,
    /// The deletes that the API server rejected.
    pub refused_deletes: &'a [RefusedDelete],
}

/// Whether an engine that another version of the operator rendered adopts the rendering of this one by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adoption {
    /// With its next change.
    #[default]
    OnNextChange,
    /// Later: others do so at present.
    Waits,
    /// Now.
    Now,
}

/// A delete that the API server rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedDelete {
    /// The object, such as `Service a-g0-hl`.
    pub object: String,
    /// Its UID.
    pub uid: String,
    /// What the API server answered, without a full stop.
    pub cause: String,
    /// When it is sent again.
    pub retry_after: Duration,
}

/// A rendering that the API server rejected.
#[derive(Clone, Copy, Debug)]
pub struct Rejected<'a> {
    /// The [identity](Desired::identity) of the rendering.
    pub identity: &'a str,
    /// The gate that is closed because of it.
    pub gate: &'a Gate,
    /// When it is sent again.
    pub retry_after: Duration,
}

/// The desired state, as resolved from engine, class, instance and operator defaults. The number of replicas is that of the
/// engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Identifies what users said: another hash starts a generation.
    pub template_hash: String,
    /// Identifies how this version of the operator renders it: another hash alone starts none.
    pub rendering_hash: String,
}

impl Desired {
    /// Identifies the rendered objects with this number of replicas.
    #[must_use]
    pub fn identity(&self, replicas: i32) -> String {
        format!("{}/{}/{replicas}", self.template_hash, self.rendering_hash)
    }
}

/// Why nothing can be rendered at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The requirement that is not met.
    pub cause: GateCause,
    /// What is wrong and how to solve it, in sentences.
    pub message: String,
}

/// What can prevent a generation from being rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GateCause {
    /// The instance is missing or not ready.
    InstanceNotReady,
    /// The class is missing or rejected.
    ClassUnready,
    /// The pod template sets fields that the operator manages.
    TemplateRejected,
    /// The engine container requests more resources than the operator allows.
    BoundsExceeded,
    /// The API server rejects a rendered object.
    WriteRefused,
}

/// How an old generation is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainSettings {
    /// Whether to wait for its running queries: the drain check is enabled and the rollout is graceful.
    pub waits: bool,
    /// How often its running queries are counted.
    pub interval: Duration,
}

/// The observed state of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Every generation of which an object exists, by label or by name, or an orphaned pod.
    pub generations: BTreeMap<i64, Generation>,
    /// The Service that clients connect to.
    pub routing: Option<Routing>,
    /// The latest count of the running queries of the draining generation.
    pub drain: Option<DrainSample>,
    /// Since when this process has continuously observed that the status names a draining generation *and* that the
    /// routing Service selects another one. This is the time of the switch as far as draining is concerned: never
    /// earlier than the real one, precise (times in a status are whole seconds), and reset when the Service is found to
    /// select the draining generation again.
    pub unrouted_since: Option<Timestamp>,
    /// The latest count of the running queries of the active generation.
    pub activity: Option<ActivitySample>,
    /// The newest Warning event of the current generation's StatefulSet.
    pub warning: Option<StatefulSetWarning>,
    /// Why the pods of the current generation are not ready, one sentence each.
    pub pod_causes: Vec<String>,
    /// The objects of the engine that are being deleted.
    pub deletions: Vec<Deletion>,
}

/// An object of the engine that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The object, such as `StatefulSet a-g0`.
    pub object: String,
    /// Since when.
    pub since: Timestamp,
    /// The finalizers of other controllers, which may be what it waits for.
    pub finalizers: Vec<String>,
}

/// The objects of one generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    /// The StatefulSet.
    pub stateful_set: Option<StatefulSet>,
    /// The ConfigMap.
    pub config_map: Option<ObservedChild>,
    /// The headless Service.
    pub headless_service: Option<ObservedChild>,
    /// The pods that the StatefulSet owns by UID and that are not terminating.
    pub pods: Pods,
    /// The pods that the StatefulSet left behind: it was deleted without them.
    pub orphans: Vec<OrphanedPod>,
    /// Of the other pods that it owns, the one whose grace period ends first.
    pub terminating: Option<TerminatingPod>,
}

/// A pod of the engine that has no controller any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanedPod {
    /// Its name.
    pub name: String,
    /// Metadata. It counts as owned.
    pub meta: Meta,
    /// Whether it accepts queries.
    pub ready: bool,
}

/// A pod that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminatingPod {
    /// Its name.
    pub name: String,
    /// The node that it was bound to.
    pub node: Option<String>,
    /// When it was deleted.
    pub since: Timestamp,
    /// The end of its grace period.
    pub deadline: Timestamp,
}

/// A StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatefulSet {
    /// Metadata.
    pub meta: Meta,
    /// The template hash that was recorded when it was created.
    pub template_hash: Option<String>,
    /// Whether a field has another value than was rendered.
    pub tampered: bool,
    /// The parts that this version of the operator renders differently, for the same inputs of users.
    pub outdated: Vec<&'static str>,
    /// What changed since it was rendered, as in "`spec.storage` changed". The first ones are described, the others only
    /// counted. Empty if that is unknown, and as long as it is current.
    pub changes: Vec<String>,
    /// Number of desired pods.
    pub replicas: i32,
    /// When it was created. The progress deadline is measured from here.
    pub created: Timestamp,
}

/// The Service that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Metadata.
    pub meta: Meta,
    /// The generation in its selector, if any.
    pub target: Option<i64>,
    /// Whether every other rendered field has the rendered value.
    pub intact: bool,
}

/// Number of pods of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pods {
    /// All pods.
    pub total: i32,
    /// Pods that are ready.
    pub ready: i32,
}

/// A count of the running queries of a draining generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainSample {
    /// The generation whose queries were counted.
    pub generation: i64,
    /// When the counting began.
    pub began: Timestamp,
    /// The result.
    pub outcome: Drain,
}

/// Result of a drain sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drain {
    /// This number of queries is still running.
    Busy(u64),
    /// No query is running.
    Drained,
    /// A pod could not be scraped.
    Failed {
        /// The pod.
        pod: String,
        /// The cause, without a full stop.
        cause: String,
    },
}

/// A count of the running queries of the active generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivitySample {
    /// The generation whose queries were counted.
    pub generation: i64,
    /// When they were counted.
    pub taken: Timestamp,
    /// The result.
    pub outcome: Activity,
}

/// Result of an activity sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Activity {
    /// This number of queries is running.
    Busy(u64),
    /// No query is running, and none was running in any sample since then, with no poll missed: an idle time counts
    /// only if it was observed without a gap.
    Quiet {
        /// Time of the first sample of this sequence.
        since: Timestamp,
    },
    /// A pod could not be scraped.
    Failed {
        /// The cause, without a full stop.
        cause: String,
    },
}

/// A Warning event of a StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatefulSetWarning {
    /// The reason of the event.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Number of occurrences.
    pub count: i32,
}

impl Generation {
    const NONE: &Self = &Self {
        stateful_set: None,
        config_map: None,
        headless_service: None,
        pods: Pods { total: 0, ready: 0 },
        orphans: Vec::new(),
        terminating: None,
    };

    /// The StatefulSet, if the engine owns it and it is not being deleted.
    #[must_use]
    pub(crate) fn live_set(&self) -> Option<&StatefulSet> {
        let set = self.stateful_set.as_ref()?;
        (set.meta.owned && !set.meta.terminating).then_some(set)
    }

    /// Every desired pod of the StatefulSet exists and is ready. This is always true for a StatefulSet with zero
    /// replicas.
    #[must_use]
    pub(crate) fn all_ready(&self) -> bool {
        self.live_set()
            .is_some_and(|set| self.pods.ready == set.replicas && self.pods.total == set.replicas)
    }

    /// A query that is sent to this generation would reach a pod.
    pub(super) fn any_ready(&self) -> bool {
        self.live_set().is_some() && self.pods.ready > 0
    }

    /// Like [`Self::any_ready`], or it would reach a pod that the StatefulSet left behind. No route is moved to such a pod.
    pub(super) fn any_serving(&self) -> bool {
        self.any_ready() || self.orphans.iter().any(|pod| pod.ready)
    }

    /// A query that is sent to this generation would reach no pod, although it should have pods.
    pub(super) fn unserved(&self) -> bool {
        !self.any_ready() && self.live_set().is_none_or(|set| set.replicas > 0)
    }

    /// The engine was stopped when it was created.
    pub(super) fn has_no_replicas(&self) -> bool {
        self.live_set().is_some_and(|set| set.replicas == 0)
    }

    /// Another client scaled it to zero: no pod is missing, and none exists.
    pub(super) fn emptied(&self) -> bool {
        self.has_no_replicas() && self.live_set().is_some_and(|set| set.tampered)
    }

    /// An object that the engine does not own has the name of one of its objects.
    fn has_foreign_object(&self) -> bool {
        let set = self.stateful_set.as_ref().map(|set| &set.meta);
        let children = [&self.config_map, &self.headless_service].map(|child| child.as_ref().map(|child| &child.meta));
        [set].into_iter().chain(children).flatten().any(|meta| !meta.owned)
    }
}

impl<'a> Input<'a> {
    pub(super) fn names(&self) -> EngineNames<'a> {
        EngineNames(self.engine.metadata.name.as_deref().unwrap_or_default())
    }

    pub(super) fn replicas(&self) -> i32 {
        self.engine.spec.replicas
    }

    pub(super) fn generation(&self, number: i64) -> &'a Generation {
        self.observed.generations.get(&number).unwrap_or(Generation::NONE)
    }

    /// Whether another object has the name of an object of this generation: that of another owner, or of a generation so old
    /// that the names have started again.
    pub(super) fn name_taken(&self, number: i64) -> bool {
        let name = self.names().stateful_set(number);
        let others = self.observed.generations.keys().filter(|&&other| other != number);
        self.generation(number).has_foreign_object()
            || others
                .into_iter()
                .any(|&other| self.names().stateful_set(other) == name)
    }

    /// The generation that the routing Service selects, if the engine owns the Service.
    pub(super) fn routed_to(&self) -> Option<i64> {
        let routing = self.observed.routing.as_ref()?;
        routing.target.filter(|_| routing.meta.owned)
    }
}
