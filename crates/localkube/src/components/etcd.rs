//! etcd: one member, listening on sockets in the folder of the cluster, where no other user and no port can clash.

use crate::state::layout::Layout;

/// A URL of this kind names a socket file, `etcd:1`, in the working folder, which is that of the cluster.
pub(super) const CLIENT_URL: &str = "unix://etcd:1";
const PEER_URL: &str = "unix://etcd:2";

pub(super) fn arguments(layout: &Layout) -> Vec<String> {
    vec![
        format!("--data-dir={}", layout.file("etcd").display()),
        // The data does not outlive the cluster, so no write needs to reach the disk.
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls={CLIENT_URL}"),
        format!("--advertise-client-urls={CLIENT_URL}"),
        format!("--listen-peer-urls={PEER_URL}"),
        format!("--initial-advertise-peer-urls={PEER_URL}"),
        format!("--initial-cluster=default={PEER_URL}"),
        "--log-level=warn".to_owned(),
    ]
}
