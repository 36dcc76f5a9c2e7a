//! The process that holds the namespaces of a node. It does nothing else.

pub(crate) const PROGRAM: &str = "unshare";
/// What it becomes once it is in the namespaces.
pub(super) const IDLE: &str = "sleep";

pub(crate) fn arguments() -> Vec<String> {
    ["--net", "--mount", "--propagation", "private", IDLE, "infinity"]
        .map(str::to_owned)
        .to_vec()
}
