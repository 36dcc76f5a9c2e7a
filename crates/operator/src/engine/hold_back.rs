//! What a pass does not do although it was decided: say the same in other words all the time, send again what was just
//! refused, or fight over an object with somebody who never gives in.

use std::time::Duration;

use firebolt_api::{FireboltEngine, FireboltEngineStatus};
use firebolt_core::plan::engine::{Gate, GateCause, Plan, Write};
use tokio::time::Instant;

use super::desired::Wish;
use super::memory::{Memory, Refused};
use crate::error::shortened;
use crate::write::{Nature, PassError};

/// How often a status is written that says nothing new but words.
const CHATTER: Duration = Duration::from_secs(2);
/// The first pause after a refusal; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The most that is told of what the API server says.
const LONGEST_REFUSAL: usize = 1000;

/// A status that differs in its wording alone, as in "3 of 128 pods ready", is not written more than once in a while. Says
/// when it is time.
pub fn chatter(engine: &FireboltEngine, plan: &mut Plan, memory: &mut Memory) -> Option<Duration> {
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

/// A rendering that the API server has just refused is not sent again at once; what it said is reported instead. Says when
/// it is time.
pub fn refused(wish: &mut Wish, memory: &mut Memory) -> Option<Duration> {
    let refused = memory.refused.as_ref()?;
    let same = (wish.desired.as_ref()).is_ok_and(|desired| desired.fingerprint == refused.fingerprint);
    if !same {
        memory.refused = None;
        return None;
    }
    let left = refused.retry_at.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return None;
    }
    wish.desired = Err(refused.gate.clone());
    Some(left)
}

/// Whether the API server does not take what was rendered. Then a gate that says so, remembered for the next passes.
pub fn refusal(wish: &Wish, memory: &mut Memory, error: &PassError) -> Option<Gate> {
    let (Nature::Refused(message), PassError::Write { verb, kind, object, .. }) = (error.nature(), error) else {
        return None;
    };
    if kind.starts_with("FireboltEngine") {
        return None;
    }
    let gate = Gate {
        cause: GateCause::WriteRefused,
        message: format!(
            "The API server refuses to {verb} {kind} {}: {}. Correct the specification of the engine or its class, or \
             whatever refuses it; the operator keeps trying.",
            object.name,
            shortened(message.trim_end_matches('.'), LONGEST_REFUSAL)
        ),
    };
    if let Ok(desired) = &wish.desired {
        let before = memory.refused.take();
        let before = before.filter(|before| before.fingerprint == desired.fingerprint);
        let attempts = before.map_or(0, |before| before.attempts + 1);
        let pause = FIRST_PAUSE.saturating_mul(1 << attempts.min(10)).min(LONGEST_PAUSE);
        memory.refused = Some(Refused {
            fingerprint: desired.fingerprint.clone(),
            gate: gate.clone(),
            attempts,
            retry_at: Instant::now() + pause,
        });
    }
    Some(gate)
}

/// Counts a pass that put something right. Says how long the next one must wait, if that happens too often: somebody else
/// keeps changing it back.
pub fn repairs(plan: &Plan, memory: &mut Memory) -> Option<Duration> {
    let repaired = plan.writes.iter().any(|write| match write {
        Write::ApplyConfigMap { .. } | Write::ApplyHeadlessService { .. } | Write::ApplyRoutingService { .. } => true,
        Write::AddFinalizer
        | Write::RemoveFinalizer
        | Write::CreateStatefulSet { .. }
        | Write::Delete(_)
        | Write::SetReplicas { .. } => false,
    });
    repaired.then(|| memory.repairs.made()).flatten()
}

#[cfg(test)]
#[path = "hold_back_tests.rs"]
mod tests;
