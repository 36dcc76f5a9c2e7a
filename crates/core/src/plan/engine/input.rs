//! What a decision is made from: the engine, what the resolver made of it, what was seen in the cluster, and the time.
//!
//! # What the caller owes
//!
//! - A failed read is an error of the pass, never an absence in [`Observed`].
//! - Watch caches will do for a first decision. If [`Plan::needs_live_reads`](super::Plan::needs_live_reads) says so,
//!   everything is read live and the decision is made again.
//! - [`DrainSample`] and [`Observed::unrouted_since`] live in the memory of one process. A restart forgets them, which
//!   costs one more sample and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use firebolt_api::name::EngineNames;
use firebolt_api::{AutoStop, FireboltEngine};
use jiff::Timestamp;

use crate::plan::{Child, Meta};

/// Everything that one decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The engine, as read in this pass.
    pub engine: &'a FireboltEngine,
    /// What to roll out, or why nothing can be rendered at present.
    pub desired: &'a Result<Desired, Gate>,
    /// How an old generation is given up. Known even while rendering is blocked: a rollout under way runs to its end.
    pub drain: DrainSettings,
    /// How long a generation may take to become ready before that is reported.
    pub progress_deadline: Duration,
    /// What was seen in the cluster.
    pub observed: &'a Observed,
    /// The time of the decision.
    pub now: Timestamp,
}

/// What the resolver made of engine, class, instance and operator defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// Identifies the rendered generation: two renders are the same if and only if their fingerprints are.
    pub fingerprint: String,
    /// When the engine stops by itself, if it ever does.
    pub auto_stop: Option<AutoStop>,
}

/// Why nothing can be rendered at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Which condition is not met.
    pub cause: GateCause,
    /// What is wrong and what to do next, as sentences.
    pub message: String,
}

/// What can keep a generation from being rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GateCause {
    /// The instance is missing or not ready.
    InstanceNotReady,
    /// The class is missing or itself rejected.
    ClassUnready,
    /// The pod template sets what belongs to the operator.
    TemplateRejected,
    /// The engine container asks for more than the operator allows.
    BoundsExceeded,
    /// The API server refuses an object that was rendered.
    WriteRefused,
}

/// How an old generation is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainSettings {
    /// Whether its running queries are waited for: the check is on and the rollout is graceful.
    pub waits: bool,
    /// How often its running queries are counted.
    pub interval: Duration,
}

/// What was seen in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Every generation of which an object was seen, by label or by name.
    pub generations: BTreeMap<i64, Generation>,
    /// The Service that clients talk to.
    pub routing: Option<Routing>,
    /// The latest count of the running queries of the draining generation.
    pub drain: Option<DrainSample>,
    /// Since when this process has seen the status name a draining generation *and* the routing Service select another
    /// one, without a break. This is the time of the switch as far as draining is concerned: never earlier than the
    /// real one, exact to the clock (times in a status end at whole seconds), and reset when the Service is found to
    /// select the draining generation again.
    pub unrouted_since: Option<Timestamp>,
    /// The latest count of the running queries of the active generation.
    pub activity: Option<ActivitySample>,
    /// The newest Warning event of the current generation's StatefulSet.
    pub warning: Option<StatefulSetWarning>,
    /// What the pods of the current generation say about why they are not ready, one sentence each.
    pub pod_causes: Vec<String>,
}

/// The objects of one generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    /// The StatefulSet.
    pub stateful_set: Option<StatefulSet>,
    /// The ConfigMap.
    pub config_map: Option<Child>,
    /// The headless Service.
    pub headless_service: Option<Child>,
    /// The pods that the StatefulSet owns by UID and that are not terminating.
    pub pods: Pods,
}

/// A StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatefulSet {
    /// Identity, owner, deletion.
    pub meta: Meta,
    /// The fingerprint that was recorded when it was created.
    pub fingerprint: Option<String>,
    /// Whether a field that we render has another value now.
    pub tampered: bool,
    /// How many pods it asks for.
    pub replicas: i32,
    /// When it was created. Progress is measured from here.
    pub created: Timestamp,
}

/// The Service that clients talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Identity, owner, deletion.
    pub meta: Meta,
    /// The generation in its selector; none if the selector names none.
    pub target: Option<i64>,
    /// Whether everything else that we render has the rendered value.
    pub intact: bool,
}

/// How many pods a generation has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pods {
    /// All of them.
    pub total: i32,
    /// Those that report ready.
    pub ready: i32,
}

/// A count of the running queries of a draining generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainSample {
    /// Whose queries were counted.
    pub generation: i64,
    /// When the counting began.
    pub began: Timestamp,
    /// What was found.
    pub outcome: Drain,
}

/// What a drain sample found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drain {
    /// So many queries are still running.
    Busy(u64),
    /// No query is running.
    Drained,
    /// A pod could not be asked.
    Failed {
        /// Which pod.
        pod: String,
        /// Why, without a full stop.
        cause: String,
    },
}

/// A count of the running queries of the active generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivitySample {
    /// Whose queries were counted.
    pub generation: i64,
    /// When.
    pub taken: Timestamp,
    /// What was found.
    pub outcome: Activity,
}

/// What an activity sample found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Activity {
    /// So many queries are running.
    Busy(u64),
    /// No query is running, and none was in any sample since then, with no poll missed: an idle time counts only as far
    /// as it was watched.
    Quiet {
        /// The first sample of the unbroken run.
        since: Timestamp,
    },
    /// A pod could not be asked.
    Failed {
        /// Why, without a full stop.
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
    /// How often it happened.
    pub count: i32,
}

impl Generation {
    const NONE: &Self = &Self {
        stateful_set: None,
        config_map: None,
        headless_service: None,
        pods: Pods { total: 0, ready: 0 },
    };

    /// The StatefulSet, if it is ours and here to stay.
    #[must_use]
    pub fn live_set(&self) -> Option<&StatefulSet> {
        let set = self.stateful_set.as_ref()?;
        (set.meta.owned && !set.meta.terminating).then_some(set)
    }

    /// Every pod that the StatefulSet asks for is there and ready. A StatefulSet of zero replicas always is.
    #[must_use]
    pub fn all_ready(&self) -> bool {
        self.live_set()
            .is_some_and(|set| self.pods.ready == set.replicas && self.pods.total == set.replicas)
    }

    /// A query sent here would find a pod.
    pub(super) fn any_ready(&self) -> bool {
        self.live_set().is_some() && self.pods.ready > 0
    }

    /// A query sent here would find no pod, although there should be one.
    pub(super) fn unserved(&self) -> bool {
        !self.any_ready() && self.live_set().is_none_or(|set| set.replicas > 0)
    }

    /// Somebody scaled it to nothing: no pod is missing, and none is there.
    pub(super) fn emptied(&self) -> bool {
        self.live_set().is_some_and(|set| set.tampered && set.replicas == 0)
    }

    /// An object of somebody else has the name of one of ours.
    pub(super) fn name_taken(&self) -> bool {
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

    /// The generation that the routing Service selects, if the Service is ours.
    pub(super) fn routed_to(&self) -> Option<i64> {
        let routing = self.observed.routing.as_ref()?;
        routing.target.filter(|_| routing.meta.owned)
    }
}
