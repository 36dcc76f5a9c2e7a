//! Rollout status of a component.

use std::fmt::Write;

use super::object::Component;

/// Rollout status of a Deployment or StatefulSet, from its status and its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Number of desired pods.
    pub desired: i32,
    /// Whether Kubernetes has observed the newest spec. Until then, the counts are about an older one.
    pub observed: bool,
    /// Number of pods with the newest spec.
    pub updated: i32,
    /// Total number of pods.
    pub total: i32,
    /// Number of ready pods, with any spec.
    pub ready: i32,
    /// Whether the rollout of the newest spec exceeded its progress deadline.
    pub(crate) overdue: bool,
    /// Whether a scheduled pod fails to start.
    pub broken: bool,
    /// Why pods are missing or not ready, in sentences.
    pub causes: Vec<String>,
}

impl Workload {
    /// Whether all pods have the newest spec.
    pub(super) fn is_rolled_out(&self) -> bool {
        self.observed && self.updated >= self.desired && self.total <= self.updated
    }

    /// Whether it serves requests. Pods of an older spec serve as well, unless those of the newest fail to start, which
    /// must be reported. Where old pods are deleted before new ones start, an old one is about to be deleted.
    #[must_use]
    pub fn serves(&self, component: Component) -> bool {
        let stuck = !self.is_rolled_out() && (self.overdue || self.broken);
        match component {
            Component::Gateway => self.ready > 0 && !stuck,
            Component::Postgres | Component::Metadata => self.ready > 0 && self.is_rolled_out(),
        }
    }

    /// The rollout status, as text.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{} of {} pods ready", self.ready, self.desired);
        if self.observed && self.updated < self.desired && self.total > 0 {
            let _ = write!(text, ", {} of {} updated", self.updated, self.desired);
        }
        if self.overdue {
            text.push_str(", progress deadline exceeded");
        }
        text.push('.');
        for cause in &self.causes {
            text.push(' ');
            text.push_str(cause);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn settled(desired: i32, ready: i32) -> Workload {
        Workload {
            desired,
            observed: true,
            updated: desired,
            total: desired,
            ready,
            ..Workload::default()
        }
    }

    fn rolling() -> Workload {
        Workload {
            updated: 1,
            total: 3,
            ..settled(2, 2)
        }
    }

    #[rstest]
    #[case::all_ready(settled(2, 2), true)]
    #[case::one_is_enough(settled(2, 1), true)]
    #[case::one_crashes(Workload { broken: true, ..settled(2, 1) }, true)]
    #[case::none_ready(settled(2, 0), false)]
    #[case::none_desired(settled(0, 0), false)]
    #[case::rolls(rolling(), true)]
    #[case::is_about_to_roll(Workload { observed: false, ..settled(2, 2) }, true)]
    #[case::new_pod_waits_for_a_node(Workload { causes: vec!["Pod a cannot be scheduled.".to_owned()], ..rolling() }, true)]
    #[case::new_pod_crashes(Workload { broken: true, ..rolling() }, false)]
    #[case::no_progress(Workload { overdue: true, ..rolling() }, false)]
    fn a_gateway_serves_during_a_rollout_unless_that_is_stuck(#[case] gateway: Workload, #[case] serves: bool) {
        assert_eq!(gateway.serves(Component::Gateway), serves);
    }

    #[rstest]
    #[case::ready(settled(1, 1), true)]
    #[case::not_ready(settled(1, 0), false)]
    #[case::about_to_be_replaced(Workload { observed: false, ..settled(1, 1) }, false)]
    #[case::old_pod_on_its_way_out(Workload { updated: 0, ..settled(1, 1) }, false)]
    fn a_single_pod_serves_only_if_it_is_the_newest(#[case] workload: Workload, #[case] serves: bool) {
        assert_eq!(workload.serves(Component::Metadata), serves);
        assert_eq!(workload.serves(Component::Postgres), serves);
    }

    #[rstest]
    #[case(settled(2, 1), "1 of 2 pods ready.")]
    #[case(rolling(), "2 of 2 pods ready, 1 of 2 updated.")]
    #[case(Workload { overdue: true, causes: vec!["Pod a crashes.".to_owned()], ..rolling() },
        "2 of 2 pods ready, 1 of 2 updated, progress deadline exceeded. Pod a crashes.")]
    fn the_description_contains_the_rollout_status(#[case] workload: Workload, #[case] text: &str) {
        assert_eq!(workload.describe(), text);
    }
}
