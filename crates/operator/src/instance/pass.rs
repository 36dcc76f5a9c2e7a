//! One pass over one instance: look, decide, carry out, report.

use std::time::Duration;

use firebolt_api::condition::{InstanceCondition, InstanceReason};
use firebolt_api::{FireboltInstance, InstancePhase};
use firebolt_core::plan::Event;
use firebolt_core::plan::instance::{Component, Input, Observed, Write, stuck};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use strum::IntoEnumIterator;
use tokio::time::Instant;
use tracing::{Instrument, debug, info_span, warn};

use super::apply::{Apply, writer};
use super::decide::{Decision, decide};
use super::desired::wish;
use super::found;
use super::memory::Memory;
use crate::error::shortened;
use crate::events::Recorder;
use crate::key::ObjectKey;
use crate::process::Context;
use crate::queue::{Again, Done, Memories};
use crate::watches::Credentials;
use crate::write::{Caught, Nature, PassError};

/// The most that is told of what the API server says.
const LONGEST_REFUSAL: usize = 1000;

/// What all passes share.
pub struct Controller {
    context: Context,
    recorder: Recorder,
    memories: Memories<Memory>,
}

impl Controller {
    pub fn new(context: Context, recorder: Recorder) -> Self {
        Self {
            context,
            recorder,
            memories: Memories::default(),
        }
    }

    /// Makes one pass and says when the next is due, if nothing is seen before.
    pub async fn look(&self, key: &ObjectKey) -> Again {
        let Some(guarded) = self.context.caches.instances.get(key) else {
            self.forget(key);
            return Again::default();
        };
        let Ok(instance) = &guarded.0 else {
            // It cannot be read, and is left alone until it changes.
            return Again::default();
        };
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        let mut memory: Memory = self.memories.take(key, uid);
        let begun = Instant::now();
        let instance = memory.written.newest(instance.clone());
        let span = info_span!("instance", namespace = key.namespace, name = key.name);
        let done = Box::pin(self.pass(&instance, &mut memory))
            .instrument(span.clone())
            .await;
        let finished = done.is_ok().then(Timestamp::now);
        self.context
            .metrics
            .instances()
            .work
            .looked(key, begun.elapsed(), finished);
        let again = span.in_scope(|| match done {
            Ok(done) => memory.attempts.succeeded(&done, !memory.refusals.is_empty()),
            Err(error) => {
                memory.written.distrust = true;
                memory.attempts.failed(&error)
            }
        });
        self.memories.put(key, uid, memory);
        again
    }

    fn forget(&self, key: &ObjectKey) {
        self.memories.forget(key);
        self.context.caches.credentials.follow(key, "", None);
        self.context.metrics.instances().work.reconciled.forget(key);
    }

    async fn pass(&self, instance: &FireboltInstance, memory: &mut Memory) -> Result<Done, PassError> {
        let caches = &self.context.caches;
        let (key, uid) = (ObjectKey::of(instance), instance.uid().unwrap_or_default());
        let expected = wish(instance, &self.context.settings.defaults, false);
        caches
            .credentials
            .follow(&key, &uid, Some(&expected.wanted.credentials));
        let shown = match found::cached(caches, &key) {
            // Credentials that nobody has looked for yet must not look as if they were not there.
            Some(found) if matches!(found.credentials, Credentials::Unknown(None)) => None,
            // What stands in the way may be an object that the caches do not show.
            Some(_) if has_failed(instance) => None,
            Some(found) if !memory.written.distrust => {
                let version = |kind: &str, name: &str| found.version(kind, name);
                match memory.written.caught_up(version, Instant::now()) {
                    Caught::Up => Some(found),
                    // Whatever it is that is not shown yet comes with an event.
                    Caught::Behind(left) => return Ok(Done::Unfinished(left)),
                    Caught::TooLate => None,
                }
            }
            Some(_) | None => None,
        };
        let decision = match Box::pin(decide(&self.context, instance, memory, shown)).await {
            Ok(decision) => decision,
            Err(error) => {
                self.say_stuck(instance, &error, memory).await;
                return Err(error);
            }
        };
        let after = match self.apply(instance, &decision, memory).await {
            Ok(after) => after,
            Err(Stopped::Refused) => {
                return Ok(Done::Finished {
                    again: Some(Duration::ZERO),
                    floor: None,
                });
            }
            Err(Stopped::Failed(error)) => {
                self.say_stuck(instance, &error, memory).await;
                return Err(error);
            }
        };
        self.report(&after, &decision, memory);
        Ok(Done::Finished {
            again: decision
                .plan
                .look_again
                .into_iter()
                .chain(memory.refusals.next_attempt())
                .min(),
            floor: (!decision.plan.writes.is_empty())
                .then(|| memory.repairs.made())
                .flatten(),
        })
    }

    /// Carries a plan out. What the API server refuses for good is remembered: the next pass reports it and goes on with
    /// the other components.
    async fn apply(
        &self,
        instance: &FireboltInstance,
        decision: &Decision,
        memory: &mut Memory,
    ) -> Result<FireboltInstance, Stopped> {
        let mut apply = Apply::new(&self.context, instance.clone(), decision, memory);
        let (done, at) = (apply.plan(&decision.plan).await, apply.at);
        let error = match done {
            Ok(after) => {
                for component in written(&decision.plan.writes) {
                    memory.refusals.overcome(component);
                }
                return Ok(after);
            }
            Err(error) => error,
        };
        let (Nature::Refused(message), PassError::Write { verb, kind, object, .. }, Some(component)) =
            (error.nature(), &error, at)
        else {
            return Err(Stopped::Failed(error));
        };
        let message = format!(
            "The API server refuses to {verb} {kind} {}: {}. Correct the specification of the instance, or whatever \
             refuses it; the operator keeps trying.",
            object.name,
            shortened(message.trim_end_matches('.'), LONGEST_REFUSAL)
        );
        warn!("cannot {error}");
        memory.written.distrust = true;
        memory.refusals.add(component, instance.metadata.generation, message);
        Err(Stopped::Refused)
    }

    /// Says in the status that the API server does not let us look after the instance. Best effort: the error itself is what
    /// the pass ends in.
    async fn say_stuck(&self, instance: &FireboltInstance, error: &PassError, memory: &mut Memory) {
        let Some(refusal) = error.refusal() else { return };
        let message = format!(
            "The operator cannot {}: {}. Correct what refuses it; the operator keeps trying.",
            error.attempt(),
            shortened(refusal.trim_end_matches('.'), LONGEST_REFUSAL)
        );
        let wish = wish(instance, &self.context.settings.defaults, false);
        let input = Input {
            instance,
            wanted: &wish.wanted,
            observed: &Observed::default(),
            fresh_id: "",
            now: Timestamp::now(),
        };
        let Some(status) = stuck(&input, message.clone()) else {
            return;
        };
        let mut writer = writer(&self.context, instance.clone(), &mut memory.written);
        match writer.patch_status(&status).await {
            Ok(()) => {
                let event = Event::warning(<&str>::from(InstanceReason::EnsureFailed), message);
                let object = instance.object_ref(&());
                let metrics = self.context.metrics.instances();
                self.recorder.tell_news(&object, &[event], &mut memory.told, |event| {
                    metrics.work.decided(&event.reason);
                });
            }
            Err(error) => debug!("cannot {error}"),
        }
    }

    /// Tells people and metrics what a pass has done.
    fn report(&self, after: &FireboltInstance, decision: &Decision, memory: &mut Memory) {
        let metrics = self.context.metrics.instances();
        let object = after.object_ref(&());
        self.recorder
            .tell_news(&object, &decision.plan.events, &mut memory.told, |event| {
                metrics.work.decided(&event.reason);
            });
        for component in Component::iter() {
            let is_ready = match component {
                Component::Postgres => {
                    let workload = decision.observed.workloads.get(&component);
                    workload.is_none_or(|workload| workload.serves(component))
                }
                Component::Metadata => holds(after, InstanceCondition::MetadataReady),
                Component::Gateway => holds(after, InstanceCondition::GatewayReady),
            };
            if !is_ready {
                memory.waiting_since.entry(component).or_insert_with(Instant::now);
            } else if let Some(since) = memory.waiting_since.remove(&component) {
                metrics.became_ready(component, since.elapsed());
            }
        }
        if holds(after, InstanceCondition::Ready) {
            memory.told.forget();
        }
    }
}

/// Why a plan was not carried out to its end.
enum Stopped {
    /// The API server does not take an object, which is remembered.
    Refused,
    /// Anything else.
    Failed(PassError),
}

fn has_failed(instance: &FireboltInstance) -> bool {
    let phase = instance.status.as_ref().and_then(|status| status.phase);
    phase == Some(InstancePhase::Failed)
}

fn written(writes: &[Write]) -> impl Iterator<Item = Component> {
    writes.iter().filter_map(|write| match write {
        Write::Create(object) | Write::Apply(object) => Some(object.component()),
        Write::AddFinalizer | Write::RemoveFinalizer | Write::SetId(_) | Write::Delete { .. } => None,
    })
}

fn holds(instance: &FireboltInstance, kind: InstanceCondition) -> bool {
    let type_: &str = kind.into();
    let conditions = instance.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|known| known.type_ == type_ && known.status == "True")
}
