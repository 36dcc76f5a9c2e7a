//! What users can do about a watch that fails.

use firebolt_runtime::informer::WatchError;

/// The cause of the failure and its remedy, to follow the name of the kind and a colon.
pub(crate) fn explain(error: &WatchError) -> String {
    let cause = error.cause();
    match error {
        WatchError::NotFound => {
            format!("{cause}: run `firebolt-operator crds | kubectl apply --server-side -f -`")
        }
        WatchError::Unauthorized(_) => {
            format!("{cause}: check the credentials in the kubeconfig, or the service account of the pod")
        }
        WatchError::Forbidden(_) => format!(
            "{cause}: grant get, list and watch to the service account of the operator (deploy/rbac.yaml does), or \
             narrow the scope with --namespaces"
        ),
        WatchError::BadSelector(_) => format!("{cause}: check --watch-label-selector"),
        WatchError::Expired => cause.to_owned(),
        WatchError::Other(_) => format!("{cause}: check that the API server is reachable and healthy; retrying"),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::runtime::watcher::Error;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(404, false, "firebolt-operator crds | kubectl apply --server-side -f -")]
    #[case(403, false, "grant get, list and watch")]
    #[case(
        401,
        false,
        "check the credentials in the kubeconfig, or the service account of the pod"
    )]
    #[case(400, true, "check --watch-label-selector")]
    #[case::without_a_selector(400, false, "no (400): check that the API server is reachable and healthy")]
    #[case(500, false, "check that the API server is reachable and healthy")]
    fn the_response_of_the_api_server_leads_to_the_remedy(
        #[case] code: u16,
        #[case] has_user_selector: bool,
        #[case] expected: &str,
    ) {
        let mut status = Status::failure("no", "Reason");
        status.code = code;
        let text = explain(&WatchError::new(
            &Error::WatchError(Box::new(status)),
            has_user_selector,
        ));
        assert!(text.contains(expected), "{text}");
    }
}
