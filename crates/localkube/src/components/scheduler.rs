//! kube-scheduler.

use super::{connecting, serving};
use crate::identity;
use crate::state::layout::Layout;

pub(super) fn arguments(layout: &Layout) -> Vec<String> {
    let mut arguments = serving(layout, layout.ports().scheduler);
    arguments.extend(connecting(
        &identity::path_of_user(layout, identity::SCHEDULER, None)
            .display()
            .to_string(),
    ));
    // There is only one.
    arguments.push("--leader-elect=false".to_owned());
    arguments
}
