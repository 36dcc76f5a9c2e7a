//! One pass over one engine: look, decide, carry out, report.

use std::time::Duration;

use firebolt_api::condition::{EngineCondition, EngineReason};
use firebolt_api::key::Annotation;
use firebolt_api::{AutoStopReason, EnginePhase, FireboltEngine};
use firebolt_core::plan::engine::{Gate, Observed, Plan, WAKE_IGNORED, Write, plan};
use firebolt_core::plan::{Event, Severity};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use strum::IntoEnumIterator;
use tokio::time::Instant;
use tracing::{Instrument, debug, info_span};

use super::apply::{self, Apply};
use super::decide::{self, Decision, current, decide};
use super::desired::{self, Wish};
use super::memory::Memory;
use super::observe::Objects;
use super::{diagnose, hold_back, observe, probes};
use crate::events::Recorder;
use crate::key::ObjectKey;
use crate::process::Context;
use crate::queue::{Again, Done, Memories};
use crate::write::{Caught, PassError, Writer, Written};

/// How often it is looked whether an object of somebody else still has the name of the routing Service. Nothing tells when
/// it goes: what is not labelled as ours is not watched.
const STILL_TAKEN: Duration = Duration::from_secs(10);

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
        let Some(guarded) = self.context.caches.engines.get(key) else {
            self.forget(key);
            return Again::default();
        };
        let Ok(engine) = &guarded.0 else {
            // It cannot be read, and is left alone until it changes.
            self.context.probes.assign(key, None);
            return Again::default();
        };
        let uid = engine.metadata.uid.as_deref().unwrap_or_default();
        let mut memory = self.memories.take(key, uid);
        let begun = Instant::now();
        let engine = memory.written.newest(engine.clone());
        let span = info_span!("engine", namespace = key.namespace, name = key.name);
        let done = Box::pin(self.pass(&engine, &mut memory)).instrument(span.clone()).await;
        let finished = done.is_ok().then(Timestamp::now);
        self.context
            .metrics
            .engines()
            .work
            .looked(key, begun.elapsed(), finished);
        let again = span.in_scope(|| match done {
            Ok(done) => memory.attempts.succeeded(&done, memory.refused.is_some()),
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
        self.context.probes.forget(key);
        self.context.metrics.engines().work.reconciled.forget(key);
    }

    async fn pass(&self, engine: &FireboltEngine, memory: &mut Memory) -> Result<Done, PassError> {
        let Context { settings, caches, .. } = &self.context;
        let mut wish = desired::wish(engine, caches, settings);
        let refused_until = hold_back::refused(&mut wish, memory);
        let key = ObjectKey::of(engine);
        let cached = match observe::cached(caches, &key) {
            Some(cached) if !memory.written.distrust => {
                match memory.written.caught_up(shown(&cached), Instant::now()) {
                    Caught::Up => Some(cached),
                    // Whatever it is that is not shown yet comes with an event.
                    Caught::Behind(left) => return Ok(Done::Unfinished(left)),
                    Caught::TooLate => None,
                }
            }
            Some(_) | None => None,
        };
        let Decision {
            mut plan,
            observed,
            routing_version,
            ..
        } = decide(&self.context, engine, &mut wish, memory, cached).await?;
        let quiet_for = hold_back::chatter(engine, &mut plan, memory);
        let apply = self.apply(engine, &wish, &plan, &observed, routing_version, memory);
        let after = Box::pin(apply).await?;
        if wish.desired.is_ok() {
            memory.refused = None;
        }
        self.report(engine, &after, &plan, memory);
        let unrouted = memory.unrouted_since.is_some();
        let assignment = probes::assignment(&after, &wish.desired, wish.drain, unrouted, wish.transport);
        self.context.probes.assign(&key, assignment);
        let missing = current(engine, &observed).and_then(|current| diagnose::wait(current, Timestamp::now()));
        let taken = observed.routing.is_some_and(|routing| !routing.meta.owned);
        let timers = [refused_until, quiet_for, missing, taken.then_some(STILL_TAKEN)];
        Ok(Done::Finished {
            again: plan.look_again.into_iter().chain(timers.into_iter().flatten()).min(),
            floor: hold_back::repairs(&plan, memory),
        })
    }

    /// Carries a plan out. What the API server refuses for good is said in the status; the rest of a plan that failed is
    /// for the next pass.
    async fn apply(
        &self,
        engine: &FireboltEngine,
        wish: &Wish,
        plan: &Plan,
        observed: &Observed,
        routing_version: Option<String>,
        memory: &mut Memory,
    ) -> Result<FireboltEngine, PassError> {
        let mut apply = Apply {
            writer: self.writer(engine.clone(), &mut memory.written),
            attempts: &mut memory.attempts,
            effective: &wish.effective,
            observed,
            routing_version,
            scaled: false,
        };
        let done = apply.plan(plan).await;
        let (after, scaled) = (apply.writer.root, apply.scaled);
        let Err(error) = done else {
            return Ok(after);
        };
        if scaled {
            // It has happened, and the next pass cannot know why.
            self.tell(&after, &plan.events, memory);
            self.measure_wake(&after, plan);
        }
        if let Some(gate) = hold_back::refusal(wish, memory, &error) {
            let said = self.plan_behind(gate, engine, wish, observed);
            self.say_refused(after, said, memory).await;
        }
        Err(error)
    }

    /// What there is to say while a gate keeps the engine from being rendered.
    fn plan_behind(&self, gate: Gate, engine: &FireboltEngine, wish: &Wish, observed: &Observed) -> Plan {
        let gated = wish.but(gate);
        plan(&decide::input(
            &self.context,
            engine,
            &gated,
            observed,
            Timestamp::now(),
        ))
    }

    /// Best effort: the refusal itself is what the pass ends in.
    async fn say_refused(&self, engine: FireboltEngine, said: Plan, memory: &mut Memory) {
        let Some(status) = &said.status else { return };
        let mut writer = self.writer(engine, &mut memory.written);
        match apply::conditions(&mut writer, status).await {
            Ok(()) => {
                let engine = writer.root;
                let warnings: Vec<Event> = said.events.into_iter().filter(is_warning).collect();
                self.tell(&engine, &warnings, memory);
            }
            Err(error) => debug!("cannot {error}"),
        }
    }

    fn writer<'a>(
        &'a self,
        engine: FireboltEngine,
        written: &'a mut Written<FireboltEngine>,
    ) -> Writer<'a, FireboltEngine> {
        Writer {
            client: &self.context.client,
            term: &self.context.term,
            metrics: &self.context.metrics.engines().work,
            root: engine,
            written,
        }
    }

    /// Tells people and metrics what a pass has done.
    fn report(&self, before: &FireboltEngine, after: &FireboltEngine, plan: &Plan, memory: &mut Memory) {
        let metrics = self.context.metrics.engines();
        self.tell(after, &plan.events, memory);
        if is_well(after) && !plan.events.iter().any(is_warning) {
            memory.told.forget();
        }
        if let Some(now_in) = phase(after)
            && phase(before) != Some(now_in)
        {
            let since = memory.phase.replace((now_in, Instant::now()));
            if let Some((left, since)) = since.filter(|(left, _)| phase(before) == Some(*left) && is_rolling(*left)) {
                metrics.left(left, since.elapsed());
            }
        }
        self.measure_wake(after, plan);
    }

    fn measure_wake(&self, engine: &FireboltEngine, plan: &Plan) {
        if let Some(waited) = woken_after(engine, plan) {
            self.context.metrics.engines().woke(waited);
        }
    }

    fn tell(&self, engine: &FireboltEngine, events: &[Event], memory: &mut Memory) {
        let metrics = self.context.metrics.engines();
        let object = engine.object_ref(&());
        let counted = |event: &Event| {
            metrics.work.decided(decision(event));
            if event.reason == WAKE_IGNORED {
                metrics.ignored_a_wake();
            }
        };
        self.recorder.tell_news(&object, events, &mut memory.told, counted);
    }
}

/// Looks objects up among those that a pass starts from.
fn shown(objects: &Objects) -> impl Fn(&str, &str) -> Option<String> {
    |kind, name| objects.version(kind, name)
}

fn phase(engine: &FireboltEngine) -> Option<EnginePhase> {
    engine.status.as_ref()?.phase
}

fn is_rolling(phase: EnginePhase) -> bool {
    match phase {
        EnginePhase::Creating | EnginePhase::Switching | EnginePhase::Draining | EnginePhase::Cleaning => true,
        EnginePhase::Stable | EnginePhase::Stopped => false,
    }
}

/// There is nothing to warn of.
fn is_well(engine: &FireboltEngine) -> bool {
    let ready: &str = EngineCondition::Ready.into();
    let conditions = engine.status.iter().flat_map(|status| &status.conditions);
    let is_ready = conditions
        .into_iter()
        .any(|known| known.type_ == ready && known.status == "True");
    is_ready || phase(engine) == Some(EnginePhase::Stopped)
}

fn is_warning(event: &Event) -> bool {
    match event.severity {
        Severity::Warning => true,
        Severity::Normal => false,
    }
}

/// What an event counts as. Reasons of others are of any number.
fn decision(event: &Event) -> &str {
    const WARNINGS: [&str; 3] = [WAKE_IGNORED, "StatusRecovered", "ExternalFinalizerOnOwnedResource"];
    let reason = event.reason.as_str();
    let known = WARNINGS.contains(&reason) || EngineReason::iter().any(|own| reason == <&str>::from(own));
    if known || !is_warning(event) {
        reason
    } else {
        EngineReason::StatefulSetWarning.into()
    }
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
