//! kube-controller-manager, each controller under the service account that it has in a real cluster.

use super::{connecting, serving};
use crate::identity;
use crate::state::layout::Layout;

pub(super) fn arguments(layout: &Layout) -> Vec<String> {
    let mut arguments = serving(layout, layout.ports().controller_manager);
    arguments.extend(connecting(
        &identity::path_of_user(layout, identity::CONTROLLER_MANAGER, None)
            .display()
            .to_string(),
    ));
    arguments.extend([
        "--use-service-account-credentials=true".to_owned(),
        // There is only one.
        "--leader-elect=false".to_owned(),
        format!("--root-ca-file={}", layout.pki("ca.crt").display()),
        format!(
            "--service-account-private-key-file={}",
            layout.pki("service-accounts.key").display()
        ),
        format!("--cluster-signing-cert-file={}", layout.pki("ca.crt").display()),
        format!("--cluster-signing-key-file={}", layout.pki("ca.key").display()),
    ]);
    if layout.nodes().is_empty() {
        // Nothing routes to Services without a node. With the addresses that tests give to pods, which endpoints may not
        // have, these controllers would try again and again.
        let none =
            "--controllers=*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller";
        arguments.push(none.to_owned());
    }
    arguments
}
