//! A decision: from the caches if they can be believed, and again from a live look if it is grave.

use std::collections::BTreeMap;

use firebolt_api::FireboltInstance;
use firebolt_core::plan::instance::{Input, Object, Observed, Plan, plan};
use jiff::Timestamp;

use super::desired::{Wish, wish};
use super::found::{self, Found};
use super::identity::fresh_id;
use super::memory::Memory;
use super::observe::{Looking, Sight};
use crate::key::ObjectKey;
use crate::process::Context;
use crate::write::{Fields, PassError};

/// What was seen and what follows from it.
pub struct Decision {
    /// What to do.
    pub plan: Plan,
    /// What it was decided from.
    pub observed: Observed,
    /// What is wanted.
    pub wish: Wish,
    /// How our fields of each object are recorded.
    pub fields: BTreeMap<Object, Fields>,
    /// What stands for the credentials in the pods that use them.
    pub credentials_hash: Option<String>,
    grave: bool,
    depends_on_engines: bool,
}

/// Decides about one instance.
pub async fn decide(
    context: &Context,
    instance: &FireboltInstance,
    memory: &mut Memory,
    cached: Option<Found>,
) -> Result<Decision, PassError> {
    let key = ObjectKey::of(instance);
    let pods = match cached {
        Some(found) => {
            let decision = decide_from(context, instance, &found, memory);
            if !decision.grave {
                return Ok(decision);
            }
            found.objects.pods
        }
        None => found::cached_pods(&context.caches, &key),
    };
    let expected = wish(instance, &context.settings.defaults, false);
    let mut found = found::live(&context.client, instance, &expected, pods).await?;
    memory.written.looked_live();
    found.engines = found::cached_engines(&context.caches, &key);
    let decision = decide_from(context, instance, &found, memory);
    if !decision.depends_on_engines {
        return Ok(decision);
    }
    found.engines = found::live_engines(&context.client, instance).await?;
    Ok(decide_from(context, instance, &found, memory))
}

fn decide_from(context: &Context, instance: &FireboltInstance, found: &Found, memory: &mut Memory) -> Decision {
    let key = ObjectKey::of(instance);
    let service = Object::GatewayService.name(&key.name);
    let ipv6 = found::has_ipv6(&found.objects, &service);
    let wish = wish(instance, &context.settings.defaults, ipv6);
    let looking = Looking {
        effective: &wish.effective,
        settled: &memory.settled,
    };
    let Sight {
        mut observed,
        fields,
        credentials_hash,
    } = looking.at(found);
    observed.refused = memory.refusals.standing(instance.metadata.generation);
    let now = Timestamp::now();
    let fresh_id = fresh_id(now);
    let input = Input {
        instance,
        wanted: &wish.wanted,
        observed: &observed,
        fresh_id: &fresh_id,
        now,
    };
    let plan = plan(&input);
    let switches = observed.database.is_some_and(|used| used != wish.wanted.database);
    Decision {
        depends_on_engines: switches || instance.metadata.deletion_timestamp.is_some(),
        grave: plan.needs_live_reads(&input),
        plan,
        observed,
        wish,
        fields,
        credentials_hash,
    }
}
