//! Images: no registry is reached, so nodes get theirs from archives.

use std::path::Path;
use std::process::Command;

use super::running::Running;
use crate::components::{containerd, debian_environment};
use crate::topology::Node;
use crate::{Error, Result, namespaces, process};

/// Imports a docker-archive into `node`.
pub(crate) fn import(running: &Running, node: Node, archive: &Path) -> Result<()> {
    let dir = running.layout.dir();
    let enter = namespaces::enter(dir, node, true)?;
    // The working folder of the caller is another one inside.
    let archive = std::path::absolute(archive).map_err(Error::io("find", archive))?;
    let mut command = Command::new(&enter[0]);
    command
        .args(&enter[1..])
        .arg(running.tools.debian().join("usr/bin/ctr"))
        .args(["--address", containerd::SOCKET])
        .args(["--namespace", "k8s.io", "images", "import"])
        .arg(&archive)
        .envs(debian_environment(&running.tools));
    let output = process::mark(&mut command, dir, "ctr")
        .output()
        .map_err(Error::io("run", "nsenter"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Import {
        path: archive,
        status: output.status,
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
