//! Every example of the repository, as users would apply it.

use std::path::PathBuf;

use rstest::rstest;

use crate::support::{kube, unique};

#[rstest]
#[case::client_side(&["apply"])]
#[case::server_side(&["apply", "--server-side"])]
#[tokio::test]
async fn every_example_is_accepted_without_a_warning(#[case] apply: &[&str]) {
    let kube = kube().await;
    let namespace = unique(&kube.namespace);
    kube.cluster
        .kubectl(&["create", "namespace", &namespace])
        .expect("create a namespace");
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let mut examples: Vec<_> = std::fs::read_dir(folder)
        .expect("read the examples")
        .map(|entry| entry.expect("read an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    examples.sort();
    assert!(!examples.is_empty());
    for example in examples {
        let file = example.to_str().expect("a plain path");
        // Strict: a misspelled field is an error and is not silently dropped.
        let output = kube
            .cluster
            .kubectl_command(&kube.cluster.kubeconfig_admin())
            .expect("find kubectl")
            .args(apply)
            .args(["--namespace", &namespace, "--validate=strict", "-f", file])
            .output()
            .expect("run kubectl");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaint.is_empty(), "{file}: {complaint}");
    }
}
