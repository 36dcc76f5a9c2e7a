//! Leader election of the operator: field manager, and what users can do about failures.

use firebolt_api::key::FIELD_MANAGER;
use firebolt_runtime::leader::{LeaseClient, LeaseError, Remedies, Timing};
use kube::Client;

use crate::settings::LeaseSettings;

pub(crate) const REMEDIES: Remedies = Remedies {
    request: remedy,
    watch: "Check that list and watch on leases.coordination.k8s.io are granted (deploy/rbac.yaml does).",
};

/// The client of the Lease for the process with this identity.
pub(crate) fn lease_client(client: Client, lease: &LeaseSettings, identity: &str) -> LeaseClient {
    let timing = Timing {
        duration: lease.duration,
    };
    LeaseClient::new(client, &lease.namespace, &lease.name, identity, FIELD_MANAGER, timing)
}

/// What users can do about a request for the Lease that failed.
fn remedy(error: &LeaseError) -> String {
    match error {
        LeaseError::Forbidden { lease, .. } => format!(
            "Grant get, list, watch, create and update on leases.coordination.k8s.io in the namespace of {lease} \
             (deploy/rbac.yaml does), choose another namespace with --lease-namespace, or run a single replica with \
             --leader-elect=false."
        ),
        LeaseError::NoNamespace { namespace, .. } => {
            format!("Create the namespace {namespace}, or name an existing one with --lease-namespace.")
        }
        LeaseError::Failed {
            source: kube::Error::Api(status),
            ..
        } if status.code == 401 => {
            "Check the credentials in the kubeconfig, or the service account of the pod.".to_owned()
        }
        LeaseError::Changed { .. } | LeaseError::TimedOut { .. } | LeaseError::Failed { .. } => {
            "Check that the API server is reachable and healthy; the operator retries.".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use firebolt_runtime::ObjectKey;
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(401, "Check the credentials")]
    #[case(500, "Check that the API server is reachable")]
    fn the_response_of_the_api_server_leads_to_the_remedy(#[case] code: u16, #[case] expected: &str) {
        let mut status = Status::failure("no", "Reason");
        status.code = code;
        let error = LeaseError::Failed {
            verb: "get",
            lease: ObjectKey::new("a", "b"),
            source: kube::Error::Api(Box::new(status)),
        };
        assert!(remedy(&error).starts_with(expected), "{}", remedy(&error));
    }

    #[test]
    fn a_missing_namespace_has_a_remedy_of_its_own() {
        let error = LeaseError::NoNamespace {
            lease: ObjectKey::new("ns", "operator"),
            namespace: "ns".to_owned(),
        };
        assert_eq!(
            remedy(&error),
            "Create the namespace ns, or name an existing one with --lease-namespace."
        );
    }
}
