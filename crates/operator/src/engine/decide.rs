//! A decision: from the caches if they can be believed, and again from a live look if it is grave.

use firebolt_api::FireboltEngine;
use firebolt_api::name::EngineNames;
use firebolt_core::plan::engine::{Generation, Input, Observed, Plan, plan};
use jiff::Timestamp;
use kube::ResourceExt;

use super::desired::{self, Wish};
use super::diagnose;
use super::memory::Memory;
use super::observe::{self, Looking, Objects};
use crate::key::ObjectKey;
use crate::process::Context;
use crate::write::PassError;

/// What was seen and what follows from it.
pub struct Decision {
    /// What to do.
    pub plan: Plan,
    /// What it was decided from.
    pub observed: Observed,
    /// The version in which the routing Service was seen.
    pub routing_version: Option<String>,
    grave: bool,
    starts_generation: bool,
}

/// Decides about one engine. A new generation is decided on from the newest class and instance too, so `wish` may change:
/// from old ones, every engine of a class would be rolled back.
pub async fn decide(
    context: &Context,
    engine: &FireboltEngine,
    wish: &mut Wish,
    memory: &mut Memory,
    cached: Option<Objects>,
) -> Result<Decision, PassError> {
    if let Some(cached) = cached {
        let decision = decide_from(context, &cached, engine, wish, memory).await;
        if !decision.grave {
            return Ok(decision);
        }
    }
    let live = observe::live(&context.client, engine, memory.written.distrust).await?;
    memory.written.looked_live();
    let decision = decide_from(context, &live, engine, wish, memory).await;
    if !decision.starts_generation {
        return Ok(decision);
    }
    let newest = desired::live(&context.client, engine, &context.settings).await?;
    if newest.desired == wish.desired {
        return Ok(decision);
    }
    *wish = newest;
    Ok(decide_from(context, &live, engine, wish, memory).await)
}

async fn decide_from(
    context: &Context,
    objects: &Objects,
    engine: &FireboltEngine,
    wish: &Wish,
    memory: &mut Memory,
) -> Decision {
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
    observed.drain = context.probes.drain_sample(&key);
    observed.activity = context.probes.activity_sample(&key);
    observed.pod_causes = diagnose::pod_causes(current(engine, &observed), &objects.pods);
    let generation = current(engine, &observed);
    observed.warning = diagnose::warning(&context.client, &key.namespace, generation, memory, now).await;
    let input = input(context, engine, wish, &observed, now);
    let plan = plan(&input);
    let name = EngineNames(&key.name).routing_service();
    let routing = objects.services.iter().find(|service| service.name_any() == name);
    Decision {
        grave: plan.needs_live_reads(&input),
        starts_generation: plan.starts_generation(&input),
        routing_version: routing.and_then(ResourceExt::resource_version),
        plan,
        observed,
    }
}

/// What `plan` is asked.
pub fn input<'a>(
    context: &Context,
    engine: &'a FireboltEngine,
    wish: &'a Wish,
    observed: &'a Observed,
    now: Timestamp,
) -> Input<'a> {
    Input {
        engine,
        desired: &wish.desired,
        drain: wish.drain,
        progress_deadline: context.settings.rollout_progress_deadline,
        observed,
        now,
    }
}

/// The generation that the status says is the newest.
pub fn current<'a>(engine: &FireboltEngine, observed: &'a Observed) -> Option<&'a Generation> {
    let number = engine.status.as_ref()?.current_generation;
    observed.generations.get(&number)
}
