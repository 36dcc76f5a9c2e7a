//! How far the pods of a component are.

use std::fmt::Write;

use super::output::Component;

/// A Deployment or StatefulSet, as far as its own status and its pods say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// How many pods it asks for.
    pub wanted: i32,
    /// Whether Kubernetes has taken in the newest specification. Until then, the counts are about an older one.
    pub observed: bool,
    /// How many pods run the newest specification.
    pub updated: i32,
    /// How many pods there are in all.
    pub total: i32,
    /// How many pods are ready, whichever specification they run.
    pub ready: i32,
    /// Whether Kubernetes has given up waiting for the newest specification.
    pub overdue: bool,
    /// Whether a pod that found its node does not come up.
    pub broken: bool,
    /// Why pods are not there or not ready, in sentences.
    pub causes: Vec<String>,
}

impl Workload {
    /// All pods run the newest specification.
    pub(super) fn is_rolled_out(&self) -> bool {
        self.observed && self.updated >= self.wanted && self.total <= self.updated
    }

    /// Whether it serves. Pods of an older specification serve too, unless those of the newest do not come up: then nobody
    /// may take it for well. Where pods are replaced only after they are gone, an older one is on its way out.
    #[must_use]
    pub fn serves(&self, component: Component) -> bool {
        let stuck = !self.is_rolled_out() && (self.overdue || self.broken);
        match component {
            Component::Gateway => self.ready > 0 && !stuck,
            Component::Postgres | Component::Metadata => self.ready > 0 && self.is_rolled_out(),
        }
    }

    /// Where it stands, in words.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{} of {} pods ready", self.ready, self.wanted);
        if self.observed && self.updated < self.wanted && self.total > 0 {
            let _ = write!(text, ", {} of {} updated", self.updated, self.wanted);
        }
        if self.overdue {
            text.push_str(", and Kubernetes reports no progress");
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

    fn settled(wanted: i32, ready: i32) -> Workload {
        Workload {
            wanted,
            observed: true,
            updated: wanted,
            total: wanted,
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
    #[case::none_wanted(settled(0, 0), false)]
    #[case::rolls(rolling(), true)]
    #[case::is_about_to_roll(Workload { observed: false, ..settled(2, 2) }, true)]
    #[case::new_pod_waits_for_a_node(Workload { causes: vec!["Pod a cannot be scheduled.".to_owned()], ..rolling() }, true)]
    #[case::new_pod_crashes(Workload { broken: true, ..rolling() }, false)]
    #[case::no_progress(Workload { overdue: true, ..rolling() }, false)]
    fn a_gateway_serves_while_it_rolls_but_not_if_it_is_stuck(#[case] gateway: Workload, #[case] serves: bool) {
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
        "2 of 2 pods ready, 1 of 2 updated, and Kubernetes reports no progress. Pod a crashes.")]
    fn it_says_where_it_stands(#[case] workload: Workload, #[case] text: &str) {
        assert_eq!(workload.describe(), text);
    }
}
