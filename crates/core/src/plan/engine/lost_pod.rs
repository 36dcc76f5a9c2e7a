//! A pod that stays terminating after its grace period: its node is lost, but its Node object is not deleted, so Kubernetes
//! cannot know that the pod does not run any more. The StatefulSet controller never replaces it. A new generation does.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::input::{Input, TerminatingPod};
use crate::pods::AFTER_GRACE;

/// Why the generation is to be replaced, if it has lost a pod. Its successor has other pods, so it is replaced once.
pub(super) fn cause(input: &Input, generation: i64) -> Option<String> {
    let pod = terminating(input, generation)?;
    lost_at(input, pod).filter(|&at| input.now >= at)?;
    let timeout = SignedDuration::try_from(input.lost_pod_timeout).ok()?;
    Some(format!(
        "pod {} has been terminating for {timeout:#} after its grace period; its node may be lost",
        place(pod)
    ))
}

/// What a person can do about it, as a sentence, once the grace period is certainly over. Contains nothing that changes
/// with the time.
pub(super) fn advice(input: &Input, generation: i64) -> Option<String> {
    let pod = terminating(input, generation).filter(|pod| input.now >= overdue_at(pod))?;
    let next = match lost_at(input, pod) {
        Some(at) => format!("Otherwise, a new generation replaces it after {at}."),
        None => "No other pod replaces it until then.".to_owned(),
    };
    Some(format!(
        "Pod {} has been terminating since {} and does not end; its node may be lost. If the node does not come back, delete \
         its Node object, or delete the pod with --force. {next}",
        place(pod),
        pod.since
    ))
}

/// When there is something new to say or to do about it. Nothing else triggers a reconcile then.
pub(super) fn requeue_after(input: &Input) -> Option<Duration> {
    let current = input.engine.status.as_ref()?.current_generation;
    let pod = terminating(input, current)?;
    let times = [Some(overdue_at(pod)), lost_at(input, pod)];
    let left = times.into_iter().flatten().map(|at| at.duration_since(input.now));
    left.filter_map(|left| Duration::try_from(left).ok())
        .filter(|left| !left.is_zero())
        .min()
}

/// The pod that a generation is waiting for.
fn terminating<'a>(input: &Input<'a>, generation: i64) -> Option<&'a TerminatingPod> {
    let seen = input.generation(generation);
    let waits = seen.live_set().is_some() && !seen.all_ready();
    seen.terminating.as_ref().filter(|_| waits)
}

fn overdue_at(pod: &TerminatingPod) -> Timestamp {
    pod.deadline + AFTER_GRACE
}

fn lost_at(input: &Input, pod: &TerminatingPod) -> Option<Timestamp> {
    let timeout = Some(input.lost_pod_timeout).filter(|timeout| !timeout.is_zero())?;
    pod.deadline.checked_add(timeout).ok()
}

fn place(pod: &TerminatingPod) -> String {
    match &pod.node {
        Some(node) => format!("{} on node {node}", pod.name),
        None => pod.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Draining, Stable};
    use rstest::rstest;

    use super::*;
    use crate::plan::engine::fixture::{Case, engine, now};
    use crate::plan::engine::{GateCause, Pods, plan};

    /// The grace period of one of two pods of generation 1 ended this many seconds ago.
    fn losing(case: Case, seconds: i64) -> Case {
        case.but(|case| {
            let deadline = now() - SignedDuration::from_secs(seconds);
            let seen = case.observed.generations.get_mut(&1).unwrap();
            seen.pods = Pods { total: 1, ready: 1 };
            seen.terminating = Some(TerminatingPod {
                name: "a-g1-1".to_owned(),
                node: Some("n2".to_owned()),
                since: deadline - SignedDuration::from_secs(60),
                deadline,
            });
        })
    }

    fn stable(seconds: i64) -> Case {
        losing(engine("a").serving(1).at(Stable), seconds)
    }

    fn creating(seconds: i64) -> Case {
        losing(engine("a").serving(0).complete(1).at(Creating), seconds)
    }

    #[rstest]
    #[case::stable(stable(600))]
    #[case::creating(creating(600))]
    fn a_generation_that_has_lost_a_pod_is_replaced(#[case] case: Case) {
        let status = case.status();
        assert_eq!((status.phase, status.current_generation), (Some(Creating), 2));
        let expected =
            "pod a-g1-1 on node n2 has been terminating for 10m after its grace period; its node may be lost";
        assert_eq!(status.rollout_cause.as_deref(), Some(expected));
        assert_eq!(status.active_generation, case.engine.status.unwrap().active_generation);
    }

    #[rstest]
    #[case::in_time(stable(599))]
    #[case::creating_in_time(creating(599))]
    #[case::replaced(stable(600).but(|case| case.observed.generations.get_mut(&1).unwrap().pods = Pods { total: 2, ready: 2 }))]
    #[case::draining(losing(engine("a").complete(0).serving(1).at(Draining), 600))]
    #[case::of_the_old_generation(losing(engine("a").serving(1).complete(2).at(Creating), 600))]
    #[case::behind_a_gate(stable(600).gate(GateCause::ClassUnready))]
    fn otherwise_it_is_kept(#[case] case: Case) {
        let before = case.engine.status.as_ref().unwrap().current_generation;
        assert_eq!(case.status().current_generation, before);
    }

    #[test]
    fn a_timeout_of_zero_turns_it_off() {
        let case = stable(1_000_000);
        let off = Input {
            lost_pod_timeout: Duration::ZERO,
            ..case.input()
        };
        let plan = plan(&off);
        let status = plan.status.unwrap();
        assert_eq!(status.current_generation, 1);
        let message = &status.conditions.iter().find(|it| it.type_ == "Ready").unwrap().message;
        assert!(message.ends_with("No other pod replaces it until then."), "{message}");
    }

    #[rstest]
    #[case::stable(stable(30), "PodsNotReady")]
    #[case::creating(creating(30), "Rolling")]
    fn the_message_names_the_pod_its_node_and_what_to_do(#[case] case: Case, #[case] reason: &str) {
        let ready = case.ready();
        assert_eq!(ready.reason, reason);
        let expected = "Pod a-g1-1 on node n2 has been terminating since 2026-11-16T11:58:30Z and does not end; its node may be \
                        lost. If the node does not come back, delete its Node object, or delete the pod with --force. \
                        Otherwise, a new generation replaces it after 2026-11-16T12:09:30Z.";
        assert!(ready.message.ends_with(expected), "{}", ready.message);
    }

    #[test]
    fn a_pod_within_its_grace_period_is_not_reported() {
        let message = stable(29).ready().message;
        assert_eq!(message, "Generation 1 is serving queries with 1 of 2 pods ready.");
    }

    #[rstest]
    #[case::until_it_is_reported(28, Some(2))]
    #[case::until_it_is_lost(598, Some(2))]
    #[case::never_again(600, None)]
    fn the_next_reconcile_is_due_at_the_deadline(#[case] seconds: i64, #[case] left: Option<u64>) {
        assert_eq!(requeue_after(&stable(seconds).input()), left.map(Duration::from_secs));
    }

    #[test]
    fn a_plan_asks_for_that_reconcile() {
        let requeue_after = stable(598).reported().plan().requeue_after;
        assert_eq!(requeue_after, Some(Duration::from_secs(2)));
    }
}
