use rstest::rstest;
use serde_json::json;

use super::*;

/// A history, recorded change by change.
#[derive(Default)]
struct Story(Vec<Change>);

impl Story {
    fn put(mut self, kind: &str, name: &str, object: &Value) -> Self {
        self.0.push(Change::new(kind, name, Some(object)));
        self
    }

    fn gone(mut self, kind: &str, name: &str) -> Self {
        self.0.push(Change::new(kind, name, None));
        self
    }

    fn status(self, phase: &str, current: i64, active: i64, draining: Option<i64>) -> Self {
        let status = json!({
            "phase": phase, "currentGeneration": current, "activeGeneration": active, "drainingGeneration": draining,
        });
        self.put(
            "FireboltEngine",
            "a",
            &json!({"metadata": {"uid": "engine"}, "status": status}),
        )
    }

    /// A StatefulSet with one pod.
    fn generation(self, number: i64, ready: bool) -> Self {
        let (name, uid) = (format!("a-g{number}"), format!("set-{number}"));
        let labels = json!({Label::Generation.key(): number.to_string()});
        let set = json!({"metadata": {"uid": uid, "labels": labels}, "spec": {"replicas": 1}});
        let ready = if ready { "True" } else { "False" };
        let pod = json!({
            "metadata": {"labels": labels, "ownerReferences": [{"uid": uid}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        self.put("StatefulSet", &name, &set)
            .put("Pod", &format!("{name}-0"), &pod)
    }

    fn route(self, generation: i64) -> Self {
        let selector = json!({Label::Generation.key(): generation.to_string()});
        self.put("Service", "a-service", &json!({"spec": {"selector": selector}}))
    }

    /// One generation that serves.
    fn serving() -> Self {
        Self::default()
            .generation(0, true)
            .route(0)
            .status("stable", 0, 0, None)
    }

    /// The invariant that is violated by the last change, if one is; all before must be good.
    fn violates(self) -> Option<Invariant> {
        let last = self.0.len();
        let changes: BTreeMap<u64, Change> = (1..).zip(self.0).collect();
        let violation = History::new("a").walk(&changes).err()?;
        assert_eq!(violation.timeline.len(), last, "{violation}");
        Some(violation.invariant)
    }
}

/// Each of them a thing that a bad operator would do.
#[rstest]
#[case::routed_too_early(
    Story::serving().generation(1, false).route(1),
    Invariant::RouteHasReadyPods
)]
#[case::routed_to_nothing(Story::serving().route(1), Invariant::RouteHasReadyPods)]
#[case::active_removed(
    Story::serving().gone("StatefulSet", "a-g0"),
    Invariant::NamedGenerationKept
)]
#[case::drained_one_removed_early(
    Story::serving().generation(1, true).route(1).status("draining", 1, 1, Some(0)).gone("StatefulSet", "a-g0"),
    Invariant::NamedGenerationKept
)]
#[case::routed_one_removed(
    Story::serving().generation(1, true).status("cleaning", 1, 1, Some(0)).gone("StatefulSet", "a-g0"),
    Invariant::NamedGenerationKept
)]
#[case::ends_between_two(
    Story::serving().generation(1, true).status("stable", 1, 0, None),
    Invariant::TerminalIsConsistent
)]
#[case::ends_without_a_set(
    Story::serving().status("stable", 1, 1, None),
    Invariant::TerminalIsConsistent
)]
#[case::drains_at_rest(
    Story::serving().generation(1, true).route(1).status("stable", 1, 1, Some(0)),
    Invariant::DrainingIsOlder
)]
#[case::drains_the_newest(
    Story::serving().status("draining", 0, 0, Some(0)),
    Invariant::DrainingIsOlder
)]
#[case::goes_back(
    Story::serving().status("creating", 1, 0, None).status("creating", 0, 0, None),
    Invariant::GenerationsAdvance
)]
#[case::piles_up(
    Story::serving().generation(1, true).generation(2, true).route(2).status("stable", 2, 2, None),
    Invariant::GenerationsAdvance
)]
fn a_violation_is_found_where_it_happens(#[case] test: Story, #[case] invariant: Invariant) {
    assert_eq!(test.violates(), Some(invariant));
}

#[test]
fn a_correct_rollout_violates_no_invariant() {
    let test = Story::serving()
        .status("creating", 1, 0, None)
        .generation(1, false)
        .generation(1, true)
        .status("switching", 1, 0, None)
        .route(1)
        .status("draining", 1, 1, Some(0))
        .status("cleaning", 1, 1, Some(0))
        .gone("StatefulSet", "a-g0")
        .gone("Pod", "a-g0-0")
        .status("stable", 1, 1, None);
    assert_eq!(test.violates(), None);
}

#[test]
fn a_deleted_engine_may_lose_all_its_objects() {
    let deleted = json!({"metadata": {"uid": "engine", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let test = Story::serving()
        .put("FireboltEngine", "a", &deleted)
        .gone("StatefulSet", "a-g0");
    assert_eq!(test.violates(), None);
}
