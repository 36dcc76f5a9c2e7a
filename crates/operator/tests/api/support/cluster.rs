//! What tests ask of a cluster: the CRDs and the permissions that the operator is shipped with, and namespaces.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use localkube::Cluster;
use tokio::sync::Mutex;

/// The namespace of the shipped service account, and of the leases it may use.
pub(crate) const OPERATOR_NAMESPACE: &str = "firebolt-system";
const RBAC: &str = include_str!("../../../../../deploy/rbac.yaml");

/// Whether the CRDs are installed and which kubeconfig the operator has, by the folder of the cluster. One kubeconfig for
/// all tests, because each new one replaces the file.
static PREPARED: LazyLock<Mutex<BTreeMap<PathBuf, PathBuf>>> = LazyLock::new(Mutex::default);

/// Installs CRDs and permissions, once for each cluster, and returns the kubeconfig of the operator.
pub(crate) async fn prepare(cluster: &Cluster) -> PathBuf {
    let mut prepared = PREPARED.lock().await;
    if let Some(kubeconfig) = prepared.get(cluster.dir()) {
        return kubeconfig.clone();
    }
    install_crds(cluster).await;
    let kubeconfig = service_account(cluster).await;
    prepared.insert(cluster.dir().to_owned(), kubeconfig.clone());
    kubeconfig
}

/// Installs the shipped permissions and returns the kubeconfig of the shipped service account.
pub(crate) async fn service_account(cluster: &Cluster) -> PathBuf {
    cluster
        .kubectl_with_input(&["apply", "--server-side", "-f", "-"], RBAC)
        .unwrap();
    cluster
        .service_account_kubeconfig(OPERATOR_NAMESPACE, "firebolt-operator")
        .await
        .unwrap()
}

/// Installs the CRDs as the binary prints them, and waits until they are served.
pub(crate) async fn install_crds(cluster: &Cluster) {
    let printed = Command::new(env!("CARGO_BIN_EXE_firebolt-operator"))
        .arg("crds")
        .output()
        .unwrap();
    assert!(printed.status.success());
    let text = String::from_utf8(printed.stdout).unwrap();
    // A test may have changed them by hand.
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    cluster.kubectl_with_input(&apply, &text).unwrap();
    testkit::cluster::wait_for_crds(&cluster.client().await.unwrap()).await;
}

/// Creates a namespace of its own for a test. It stays, like everything in it: the cluster goes with the tests.
pub(crate) async fn namespace(cluster: &Cluster) -> String {
    testkit::cluster::namespace(&cluster.client().await.unwrap(), "operator").await
}
