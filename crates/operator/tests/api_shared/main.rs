//! What the controllers stand on, against a real API server and under the shipped permissions: their writes, the
//! caches that they read, and the certificates of the webhooks.

#![expect(
    clippy::disallowed_methods,
    reason = "tests write to the cluster as users and other controllers do"
)]

#[path = "../support/mod.rs"]
mod support;

mod caches;
mod certificates;
mod ownership;

use kube::Client;
use localkube::Cluster;

/// A client with the permissions that the operator is shipped with.
async fn operator_client(cluster: &Cluster) -> Client {
    let kubeconfig = support::service_account(cluster).await;
    cluster.client_for(&kubeconfig).await.unwrap()
}
