//! The process that holds the namespaces of a node. It does nothing else.

pub(super) const PROGRAM: &str = "unshare";

pub(super) fn arguments() -> Vec<String> {
    ["--net", "--mount", "--propagation", "private", "sleep", "infinity"]
        .map(str::to_owned)
        .to_vec()
}
