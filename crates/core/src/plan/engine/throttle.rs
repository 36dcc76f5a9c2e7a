//! What holds a plan back: a rendering that was just rejected is not sent again, the same status is not written in other
//! words all the time, and drift is not corrected at full speed against a client that keeps changing it back.

use std::time::Duration;

use firebolt_api::FireboltEngineStatus;

use super::input::{Adoption, Input, Rejected};
use super::output::{EngineWrite, Plan};
use super::{cleanup, lost_pod, shortage};

/// How often an engine that waits to adopt a rendering checks whether those before it are ready.
const ADOPTION_INTERVAL: Duration = Duration::from_secs(10);
/// How often to check whether another object still has the name of the routing Service. Its deletion causes no watch event:
/// an object without our label is not watched.
const NAME_TAKEN: Duration = Duration::from_secs(10);

/// The rejection that stands: it is about what would be rendered now.
pub(super) fn rejected<'a>(input: &Input<'a>) -> Option<Rejected<'a>> {
    let rejected = input
        .limits
        .rejected
        .filter(|rejected| !rejected.retry_after.is_zero())?;
    let desired = input.desired.as_ref().ok()?;
    (desired.identity(input.replicas()) == rejected.identity).then_some(rejected)
}

/// The plan within the limits, with all requeue times.
pub(super) fn limit(input: &Input, plan: Plan) -> Plan {
    let waits = !input.limits.wording.is_zero() && is_reworded(input, &plan);
    let taken = input
        .observed
        .routing
        .as_ref()
        .is_some_and(|routing| !routing.meta.owned);
    let requeue_after = [
        plan.requeue_after,
        rejected(input).map(|rejected| rejected.retry_after),
        waits.then_some(input.limits.wording),
        shortage::requeue_after(input),
        lost_pod::requeue_after(input),
        taken.then_some(NAME_TAKEN),
        cleanup::requeue_after(input),
        (input.limits.adoption == Adoption::Waits).then_some(ADOPTION_INTERVAL),
    ];
    let held = |write: &EngineWrite| {
        let mut refused = input.limits.refused_deletes.iter();
        let object = write.deleted();
        object.is_some_and(|object| refused.any(|refused| refused.uid == object.uid && !refused.retry_after.is_zero()))
    };
    let throttle = input.limits.drift.filter(|_| plan.corrects_drift());
    Plan {
        writes: plan.writes.into_iter().filter(|write| !held(write)).collect(),
        requeue_after: requeue_after.into_iter().flatten().min(),
        throttle,
        status: plan.status.filter(|_| !waits),
        events: plan.events,
    }
}

/// The next status differs from the last one in the wording of its messages and in the number of ready pods alone, and
/// no event is emitted.
fn is_reworded(input: &Input, plan: &Plan) -> bool {
    let wordless = |status: &FireboltEngineStatus| {
        let mut status = status.clone();
        status.last_reconciled = None;
        status.ready_replicas = None;
        status
            .conditions
            .iter_mut()
            .for_each(|condition| condition.message.clear());
        status
    };
    let next = plan.status.as_ref().map(wordless);
    next.is_some() && next == input.engine.status.as_ref().map(wordless) && plan.events.is_empty()
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Stable};
    use rstest::rstest;

    use super::*;
    use crate::plan::Reads;
    use crate::plan::engine::fixture::{Case, engine};
    use crate::plan::engine::{Gate, GateCause, Limits, plan};

    const SECOND: Duration = Duration::from_secs(1);

    /// A rollout of which one pod is ready, with everything reported.
    fn rolling() -> Case {
        engine("a").generation(0, 1).at(Creating).reported()
    }

    fn limited(case: &Case, limits: Limits) -> Plan {
        plan(&Input { limits, ..case.input() })
    }

    fn wording(case: &Case, wording: Duration) -> Plan {
        let limits = Limits {
            wording,
            ..Limits::default()
        };
        limited(case, limits)
    }

    #[test]
    fn another_wording_has_to_wait() {
        let one_more_ready = rolling().but(|case| case.observed.generations.get_mut(&0).unwrap().pods.ready = 0);
        let held = wording(&one_more_ready, SECOND);
        assert_eq!((held.status, held.requeue_after), (None, Some(SECOND)));
        assert!(wording(&one_more_ready, Duration::ZERO).status.is_some());
    }

    #[test]
    fn another_number_of_ready_pods_has_to_wait() {
        let recovering = engine("a").generation(0, 0).routed(0).at(Stable).reported();
        let ready = |case: &mut Case| case.observed.generations.get_mut(&0).unwrap().pods.ready = 1;
        let more_ready = recovering.but(ready);
        assert_eq!(wording(&more_ready, SECOND).status, None);
        let status = wording(&more_ready, Duration::ZERO).status;
        assert_eq!(status.unwrap().ready_replicas, Some(1));
    }

    #[rstest]
    #[case::another_phase(rolling().but(|case| case.observed.generations.get_mut(&0).unwrap().pods.ready = 2))]
    #[case::another_reason(rolling().gate(GateCause::ClassUnready))]
    #[case::the_first_status(engine("a"))]
    fn anything_else_is_written_at_once(#[case] case: Case) {
        assert!(wording(&case, SECOND).status.is_some());
    }

    #[test]
    fn a_rejected_rendering_is_reported_and_sent_again_later() {
        let gate = Gate {
            cause: GateCause::WriteRefused,
            message: "No room.".to_owned(),
        };
        let rejected = |identity, retry_after| Limits {
            rejected: Some(Rejected {
                identity,
                gate: &gate,
                retry_after,
            }),
            ..Limits::default()
        };
        let missing = engine("a").counting(Creating, 0, -1, None);
        let held = limited(&missing, rejected("same/rendered/2", SECOND));
        assert_eq!((held.writes, held.requeue_after), (Vec::new(), Some(SECOND)));
        let conditions = held.status.unwrap().conditions;
        assert!(conditions.iter().any(|condition| condition.message == gate.message));
        for now in [rejected("same/rendered/2", Duration::ZERO), rejected("another", SECOND)] {
            assert_eq!(limited(&missing, now).writes.len(), 3);
        }
        let closed = missing.gate(GateCause::ClassUnready);
        assert_eq!(
            limited(&closed, rejected("same/rendered/2", SECOND)).requeue_after,
            None
        );
    }

    #[test]
    fn only_a_correction_of_drift_is_throttled() {
        let limits = Limits {
            drift: Some(SECOND),
            ..Limits::default()
        };
        let stable = engine("a").serving(0).at(Stable);
        assert_eq!(limited(&stable, limits).throttle, None);
        let lost = stable.lost_config(0);
        assert_eq!(limited(&lost, limits).throttle, Some(SECOND));
        assert_eq!(lost.plan().throttle, None);
    }

    #[test]
    fn a_name_that_is_taken_is_checked_every_so_often() {
        let taken = engine("a")
            .serving(0)
            .at(Stable)
            .routing(|routing| routing.meta.owned = false);
        assert_eq!(taken.plan().requeue_after, Some(NAME_TAKEN));
    }

    #[test]
    fn a_new_generation_is_planned_from_live_reads_alone() {
        let needed = |case: &Case, reads| case.plan().reads_needed(&case.input(), reads);
        let starts = engine("a").serving(0).at(Stable).desired_hash("new");
        assert_eq!(needed(&starts, Reads::Cached), Some(Reads::Live));
        assert_eq!(needed(&starts, Reads::LiveChildren), Some(Reads::Live));
        assert_eq!(needed(&starts, Reads::Live), None);
        let moves = engine("a").serving(0).at(Stable).unrouted();
        assert_eq!(
            moves.plan().writes,
            [EngineWrite::ApplyRoutingService { generation: 0 }]
        );
        assert_eq!(needed(&moves, Reads::Cached), Some(Reads::LiveChildren));
        assert_eq!(needed(&moves, Reads::LiveChildren), None);
        let rests = engine("a").serving(0).at(Stable);
        assert_eq!(needed(&rests, Reads::Cached), None);
    }
}
