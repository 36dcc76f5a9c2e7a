//! The namespaces of tests.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use testkit::cluster::{RESTRICTED, namespace_with};

use crate::support::cleanup::remove_namespace;

/// What tells them from others.
const NAMESPACE_LABEL: &str = "tests.firebolt.io/test";

/// A namespace in which every pod has to pass the `restricted` standard.
pub(crate) async fn create(client: &Client) -> String {
    namespace_with(client, "test", &[(NAMESPACE_LABEL, "true"), RESTRICTED]).await
}

/// Removes what a killed process left: its pods would go on to run on our node.
pub(crate) async fn clear_earlier(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let earlier = namespaces.list(&ListParams::default().labels(NAMESPACE_LABEL)).await;
    for namespace in earlier.expect("list namespaces") {
        remove_namespace(client, &namespace.name_any()).await;
    }
}
