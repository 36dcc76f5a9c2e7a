//! One pass over one engine: look, decide, carry out, report.

use std::time::Duration;

use firebolt_api::key::Annotation;
use firebolt_api::{AutoStopReason, FireboltEngine, FireboltEngineStatus};
use firebolt_core::plan::{Gate, GateCause, Input, Observed, Plan, Severity, Write, plan};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use tokio::time::Instant;
use tracing::{Instrument, debug, info, info_span, warn};

use super::apply::Apply;
use super::desired::{self, Wish};
use super::error::{Nature, PassError};
use super::memory::{Caught, Memories, Memory, Refused};
use super::observe::{self, Looking, Objects};
use super::{diagnose, probes};
use crate::backoff::jittered;
use crate::events::Recorder;
use crate::key::ObjectKey;
use crate::process::Context;
use crate::queue::Again;

/// The pause after a decision that was overtaken by events.
const SOON: Duration = Duration::from_millis(100);
/// The pause after a first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long after a failure events are not listened to, at most: what a failed pass did itself must not set off the next,
/// but whoever corrects what was wrong should not wait for long.
const LONGEST_DEAFNESS: Duration = Duration::from_secs(2);
/// How often a status is written that says nothing new but words.
const CHATTER: Duration = Duration::from_secs(2);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// What all passes share.
pub struct Controller {
    context: Context,
    recorder: Recorder,
    memories: Memories,
}

/// What a pass saw and decided on.
struct Decision {
    plan: Plan,
    observed: Observed,
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
        let Some(guarded) = self.context.caches.engines.get(key) else {
            self.forget(key);
            return Again::default();
        };
        let Ok(engine) = &guarded.0 else {
            // It cannot be read, and is left alone until it changes.
            self.context.probes.assign(key, None);
            return Again::default();
        };
        let mut memory = self
            .memories
            .take(key, engine.metadata.uid.as_deref().unwrap_or_default());
        let begun = Instant::now();
        let engine = memory.newest(engine.clone());
        let span = info_span!("engine", namespace = key.namespace, name = key.name);
        let done = Box::pin(self.pass(&engine, &mut memory)).instrument(span.clone()).await;
        let finished = done.is_ok().then(Timestamp::now);
        self.context.metrics.engines().looked(key, begun.elapsed(), finished);
        let again = span.in_scope(|| match done {
            Ok(again) => Self::succeeded(&mut memory, again),
            Err(error) => Self::failed(&mut memory, &error),
        });
        self.memories.put(key, memory);
        again
    }

    fn forget(&self, key: &ObjectKey) {
        self.memories.forget(key);
        self.context.probes.forget(key);
        self.context.metrics.engines().gauges.forget(key);
    }

    async fn pass(&self, engine: &FireboltEngine, memory: &mut Memory) -> Result<Option<Duration>, PassError> {
        let Context { settings, caches, .. } = &self.context;
        let mut wish = desired::wish(engine, caches, &settings.defaults, &settings.bounds);
        let refused_until = hold_back_refused(&mut wish, memory);
        let key = ObjectKey::of(engine);
        let cached = match observe::cached(caches, &key) {
            Some(cached) if !memory.distrust => match memory.caught_up(&cached, Instant::now()) {
                Caught::Up => Some(cached),
                // Whatever it is that is not shown yet comes with an event.
                Caught::Behind(left) => return Ok(Some(left)),
                Caught::TooLate => None,
            },
            Some(_) | None => None,
        };
        let Decision { mut plan, observed } = self.decide(engine, &wish, memory, cached).await?;
        let quiet_for = hold_back_chatter(engine, &mut plan, memory);
        let stuck = current(engine, &observed).is_some_and(|current| diagnose::is_stuck(current, Timestamp::now()));

        let mut apply = Apply {
            client: &self.context.client,
            term: &self.context.term,
            metrics: self.context.metrics.engines(),
            engine: engine.clone(),
            effective: &wish.effective,
            observed: &observed,
            memory,
        };
        let applied = apply.plan(&plan).await;
        let after = apply.engine;
        if let Err(error) = applied {
            remember_refusal(memory, &wish, &error);
            return Err(error);
        }
        self.report(engine, &after, &plan, memory);
        let unrouted = memory.unrouted_since.is_some();
        let assignment = probes::assignment(&after, &wish.desired, wish.drain, unrouted, wish.transport);
        self.context.probes.assign(&key, assignment);
        let extra = [refused_until, quiet_for, stuck.then_some(diagnose::EVERY)];
        Ok(plan.look_again.into_iter().chain(extra.into_iter().flatten()).min())
    }

    /// Decides from the caches, if they can be believed; and again from a live look if the decision is grave.
    async fn decide(
        &self,
        engine: &FireboltEngine,
        wish: &Wish,
        memory: &mut Memory,
        cached: Option<Objects>,
    ) -> Result<Decision, PassError> {
        if let Some(cached) = cached {
            let (decision, grave) = self.decide_from(&cached, engine, wish, memory).await;
            if !grave {
                return Ok(decision);
            }
        }
        let live = observe::live(&self.context.client, engine, memory.distrust).await?;
        memory.looked_live();
        Ok(self.decide_from(&live, engine, wish, memory).await.0)
    }

    async fn decide_from(
        &self,
        objects: &Objects,
        engine: &FireboltEngine,
        wish: &Wish,
        memory: &mut Memory,
    ) -> (Decision, bool) {
        let key = ObjectKey::of(engine);
        let looking = Looking {
            effective: &wish.effective,
            renders: wish.desired.is_ok(),
        };
        let mut observed = looking.at(objects);
        let now = Timestamp::now();
        let draining = engine.status.as_ref().and_then(|status| status.draining_generation);
        memory.saw_route(draining, &observed, now);
        observed.unrouted_since = memory.unrouted_since;
        observed.drain = self.context.probes.drain_sample(&key);
        observed.activity = self.context.probes.activity_sample(&key);
        observed.pod_causes = diagnose::pod_causes(current(engine, &observed), &objects.pods);
        let generation = current(engine, &observed);
        observed.warning = diagnose::warning(&self.context.client, &key.namespace, generation, memory, now).await;
        let input = Input {
            engine,
            desired: &wish.desired,
            drain: wish.drain,
            progress_deadline: self.context.settings.rollout_progress_deadline,
            observed: &observed,
            now,
        };
        let plan = plan(&input);
        let grave = plan.needs_live_reads(&input);
        (Decision { plan, observed }, grave)
    }

    /// Tells people and metrics what a pass has done.
    fn report(&self, before: &FireboltEngine, after: &FireboltEngine, plan: &Plan, memory: &mut Memory) {
        let metrics = self.context.metrics.engines();
        let object = after.object_ref(&());
        for event in &plan.events {
            if memory.told.is_news(event) {
                match event.severity {
                    Severity::Normal => info!(reason = event.reason, "{}", event.message),
                    Severity::Warning => warn!(reason = event.reason, "{}", event.message),
                }
                metrics.decided(&event.reason);
                self.recorder.tell(&object, event.clone());
            }
        }
        let phase = |engine: &FireboltEngine| engine.status.as_ref().and_then(|status| status.phase);
        if let Some(now_in) = phase(after)
            && phase(before) != Some(now_in)
        {
            let since = memory.phase.replace((now_in, Instant::now()));
            if let Some((left, since)) = since.filter(|(left, _)| phase(before) == Some(*left)) {
                metrics.left(left, since.elapsed());
            }
        }
        if let Some(waited) = woken_after(after, plan) {
            metrics.woke(waited);
        }
    }

    fn succeeded(memory: &mut Memory, again: Option<Duration>) -> Again {
        memory.failures = 0;
        if memory.error.take().is_some() {
            info!("the engine can be looked after again");
        }
        Again {
            due: again.map(|again| Instant::now() + again),
            not_before: None,
        }
    }

    /// Every failure is told, once as long as it stays the same, and tried again with growing pauses.
    fn failed(memory: &mut Memory, error: &PassError) -> Again {
        memory.distrust = true;
        memory.failures = memory.failures.saturating_add(1);
        let pause = FIRST_PAUSE
            .saturating_mul(1 << (memory.failures - 1).min(10))
            .min(LONGEST_PAUSE);
        let mut floor = pause.min(LONGEST_DEAFNESS);
        let (pause, expected) = match error.nature() {
            Nature::TermOver => return Again::default(),
            // Somebody was quicker; that is how things go, unless it goes on.
            Nature::Outdated if memory.failures <= 3 => {
                floor = SOON;
                (SOON, true)
            }
            Nature::Outdated | Nature::Refused(_) => (jittered(pause), false),
            Nature::Transient { not_before } => {
                floor = floor.max(not_before.unwrap_or_default());
                (jittered(pause).max(floor), false)
            }
        };
        let text = error.to_string();
        if expected || memory.error.as_ref() == Some(&text) {
            debug!("cannot {text}; trying again in {pause:?}");
        } else {
            warn!("cannot {text}; trying again in {pause:?}");
            memory.error = Some(text);
        }
        let now = Instant::now();
        Again {
            due: Some(now + pause),
            not_before: Some(now + floor),
        }
    }
}

/// The generation that the status says is the newest.
fn current<'a>(engine: &FireboltEngine, observed: &'a Observed) -> Option<&'a firebolt_core::plan::Generation> {
    let number = engine.status.as_ref()?.current_generation;
    observed.generations.get(&number)
}

/// A status that differs in its wording alone, as in "3 of 128 pods ready", is not written more than once in a while.
fn hold_back_chatter(engine: &FireboltEngine, plan: &mut Plan, memory: &mut Memory) -> Option<Duration> {
    let next = plan.status.as_ref()?;
    let wordless = |status: &FireboltEngineStatus| {
        let mut status = status.clone();
        status.last_reconciled = None;
        status
            .conditions
            .iter_mut()
            .for_each(|condition| condition.message.clear());
        status
    };
    let only_words = engine.status.as_ref().map(wordless) == Some(wordless(next)) && plan.events.is_empty();
    let left = memory
        .told_at
        .map_or(Duration::ZERO, |told| CHATTER.saturating_sub(told.elapsed()));
    if !only_words || left.is_zero() {
        memory.told_at = Some(Instant::now());
        return None;
    }
    plan.status = None;
    Some(left)
}

/// A rendering that the API server has just refused is not sent again at once; what it said is reported instead.
fn hold_back_refused(wish: &mut Wish, memory: &mut Memory) -> Option<Duration> {
    let refused = memory.refused.as_ref()?;
    let same = wish
        .desired
        .as_ref()
        .is_ok_and(|desired| desired.fingerprint == refused.fingerprint);
    let left = refused.retry_at.saturating_duration_since(Instant::now());
    if !same {
        memory.refused = None;
        return None;
    }
    if left.is_zero() {
        return None;
    }
    wish.desired = Err(refused.gate.clone());
    Some(left)
}

fn remember_refusal(memory: &mut Memory, wish: &Wish, error: &PassError) {
    let (Nature::Refused(message), PassError::Write { kind, object, .. }, Ok(desired)) =
        (error.nature(), error, &wish.desired)
    else {
        return;
    };
    if kind.starts_with("FireboltEngine") {
        return;
    }
    let pause = FIRST_PAUSE
        .saturating_mul(2 << memory.failures.min(10))
        .min(LONGEST_PAUSE);
    memory.refused = Some(Refused {
        fingerprint: desired.fingerprint.clone(),
        gate: Gate {
            cause: GateCause::WriteRefused,
            message: format!(
                "The API server refuses {kind} {}: {message}. Correct the specification of the engine or its class, or \
                 whatever refuses it; the operator keeps trying.",
                object.name
            ),
        },
        retry_at: Instant::now() + pause,
    });
}

/// How long after the request the engine was woken, if this pass did it.
fn woken_after(engine: &FireboltEngine, plan: &Plan) -> Option<Duration> {
    let grown = plan
        .writes
        .iter()
        .any(|write| matches!(write, Write::SetReplicas { from, to, .. } if to > from));
    let status = plan.status.as_ref().filter(|_| grown)?;
    if status.auto_stop_reason != Some(AutoStopReason::WakeRequested) {
        return None;
    }
    let asked: Timestamp = engine
        .annotations()
        .get(Annotation::WakeRequested.key())?
        .parse()
        .ok()?;
    Some(Duration::try_from(Timestamp::now().duration_since(asked)).unwrap_or_default())
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
