//! The schema of pod templates against the one that the running API server publishes.

use std::fs;
use std::process::Command;

use localkube::Cluster;

#[test]
fn the_pod_template_is_that_of_the_running_kubernetes() {
    let published = Cluster::attach()
        .kubectl(&["get", "--raw", "/openapi/v3/apis/apps/v1"])
        .expect("get the document");
    let folder = tempfile::tempdir().expect("create a folder");
    let document = folder.path().join("openapi.json");
    fs::write(&document, published).expect("write the document");
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["generate", "--check", "--openapi"])
        .arg(&document)
        .output()
        .expect("run xtask");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
