//! Components of the operator against a real API server and under the shipped permissions: server-side apply, caches, and
//! the certificates of the webhooks.

mod caches;
mod certificates;
mod field_ownership;

use kube::Client;
use localkube::Cluster;

/// A client with the permissions that the operator is shipped with.
async fn operator_client(cluster: &Cluster) -> Client {
    let kubeconfig = crate::support::prepare(cluster).await;
    cluster.client_for(&kubeconfig).await.unwrap()
}
