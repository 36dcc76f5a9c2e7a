//! The operator as users install it: from the manifests in `deploy`, into a local Kubernetes that has a node.

use std::error::Error;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use localkube::Cluster;

/// What is applied, in this order.
const MANIFESTS: [&str; 5] = [DEFINITIONS, "rbac.yaml", "operator.yaml", "webhooks.yaml", POLICY];
const DEFINITIONS: &str = "crds";
const POLICY: &str = "admission-policy.yaml";
/// How long the operator may take to run, and its webhooks to be trusted.
const LIMIT: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(200);
/// An object that the webhooks accept.
const HARMLESS: &str = "
apiVersion: compute.firebolt.io/v1alpha1
kind: FireboltEngineClass
metadata: { name: dry-run, namespace: default }
spec: { template: { spec: { containers: [{ name: engine }] } } }
";

/// Installs the kinds of objects and what gateways may do with them, for those who play the operator.
pub(crate) fn definitions(root: &Path, cluster: &Cluster) -> Result<(), Box<dyn Error>> {
    apply(root, cluster, &[DEFINITIONS, POLICY])?;
    let established = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
    cluster.kubectl(&established)?;
    Ok(())
}

/// Installs the operator, and waits until all replicas are ready and the API server trusts their webhooks. The images have
/// to be there already.
pub(crate) fn operator(root: &Path, cluster: &Cluster) -> Result<(), Box<dyn Error>> {
    apply(root, cluster, &MANIFESTS)?;
    let timeout = format!("--timeout={}s", LIMIT.as_secs());
    let deployment = "deployment/firebolt-operator";
    cluster.kubectl(&["rollout", "status", deployment, "-n", "firebolt-system", &timeout])?;
    wait_for_trust(cluster)?;
    wait_for_answer(cluster)
}

fn apply(root: &Path, cluster: &Cluster, manifests: &[&str]) -> Result<(), Box<dyn Error>> {
    let paths = manifests.iter().map(|name| root.join("deploy").join(name));
    let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    let files = paths.iter().flat_map(|path| ["-f", path]);
    // What an earlier version has left is replaced.
    let apply = ["apply", "--server-side", "--force-conflicts"];
    cluster.kubectl(&apply.into_iter().chain(files).collect::<Vec<_>>())?;
    Ok(())
}

/// Waits until every webhook has the certificate authority of the operator.
fn wait_for_trust(cluster: &Cluster) -> Result<(), Box<dyn Error>> {
    let registered = [
        "get",
        "validatingwebhookconfiguration/firebolt-operator",
        "mutatingwebhookconfiguration/firebolt-operator",
        "-o",
    ];
    let words = |path: &str| -> Result<usize, Box<dyn Error>> {
        let path = format!("jsonpath={{.items[*].webhooks[*].{path}}}");
        Ok(cluster
            .kubectl(&[&registered[..], &[&path]].concat())?
            .split_whitespace()
            .count())
    };
    let deadline = Instant::now() + LIMIT;
    while words("clientConfig.caBundle")? < words("name")? {
        if Instant::now() > deadline {
            return Err("wait for the caBundle of the webhooks".into());
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// Waits until the API server reaches a webhook: a Service takes a moment to lead to pods that are ready.
fn wait_for_answer(cluster: &Cluster) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = cluster.kubectl_with_input(&["create", "--dry-run=server", "-f", "-"], HARMLESS) {
        if Instant::now() > deadline {
            return Err(error.into());
        }
        thread::sleep(POLL);
    }
    Ok(())
}
