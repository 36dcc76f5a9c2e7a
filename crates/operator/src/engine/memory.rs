//! What the process remembers of an engine from one look to the next. All of it can be lost: a restart costs a look or
//! a sample more, and nothing else.

use firebolt_api::{EnginePhase, FireboltEngine};
use firebolt_core::plan::engine::{Gate, Observed, StatefulSetWarning};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::events::Told;
use crate::queue::{Attempts, Repairs};
use crate::write::Written;

/// The memory of one engine.
#[derive(Debug, Default)]
pub struct Memory {
    /// What was written and the caches may not show yet.
    pub written: Written<FireboltEngine>,
    /// How passes went so far.
    pub attempts: Attempts,
    /// Since when the draining generation has been seen outside of the routing Service.
    pub unrouted_since: Option<Timestamp>,
    /// What the API server refused, and until when it is not tried again.
    pub refused: Option<Refused>,
    /// Since when the engine has been in its phase, if this process saw the beginning.
    pub phase: Option<(EnginePhase, Instant)>,
    /// How often something was put right lately that somebody changed.
    pub repairs: Repairs,
    /// When a status was last written.
    pub told_at: Option<Instant>,
    /// The last look at the events of a StatefulSet: its UID, when, and what was found.
    pub warning: Option<(String, Instant, Option<StatefulSetWarning>)>,
    /// What people were told.
    pub told: Told,
}

/// A rendering that the API server does not take.
#[derive(Debug)]
pub struct Refused {
    /// The rendering.
    pub fingerprint: String,
    /// What is said about it.
    pub gate: Gate,
    /// How often it was refused before.
    pub attempts: u32,
    /// When it is tried again.
    pub retry_at: Instant,
}

impl Memory {
    /// Takes in where the routing Service was seen to point.
    pub fn saw_route(&mut self, draining: Option<i64>, observed: &Observed, now: Timestamp) {
        let target = observed
            .routing
            .as_ref()
            .filter(|routing| routing.meta.owned)
            .and_then(|routing| routing.target);
        let unrouted = draining.is_some() && target.is_some() && target != draining;
        self.unrouted_since = unrouted.then(|| self.unrouted_since.unwrap_or(now));
    }
}

#[cfg(test)]
mod tests {
    use firebolt_core::plan::Meta;
    use firebolt_core::plan::engine::Routing;

    use super::*;

    #[test]
    fn the_time_without_route_counts_from_the_first_look_and_breaks_with_every_other() {
        let to = |target: i64, owned| Observed {
            routing: Some(Routing {
                meta: Meta {
                    uid: String::new(),
                    owned,
                    terminating: false,
                    foreign_finalizers: Vec::new(),
                },
                target: Some(target),
                intact: true,
            }),
            ..Observed::default()
        };
        let time = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let mut memory = Memory::default();
        memory.saw_route(Some(0), &to(1, true), time(1));
        memory.saw_route(Some(0), &to(1, true), time(2));
        assert_eq!(memory.unrouted_since, Some(time(1)));
        memory.saw_route(Some(0), &to(0, true), time(3));
        assert_eq!(memory.unrouted_since, None);
        memory.saw_route(Some(0), &to(1, false), time(4));
        assert_eq!(memory.unrouted_since, None, "not our Service");
        memory.saw_route(Some(0), &Observed::default(), time(4));
        assert_eq!(memory.unrouted_since, None, "no Service");
        memory.saw_route(None, &to(1, true), time(5));
        assert_eq!(memory.unrouted_since, None, "nothing drains");
    }
}
