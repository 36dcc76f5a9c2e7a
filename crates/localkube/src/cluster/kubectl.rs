//! The pinned kubectl, run against a cluster.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use super::running::Running;
use crate::tools::Binary;
use crate::{Error, Result, process};

/// A kubectl that speaks as the bearer of `kubeconfig`.
pub(crate) fn command(running: &Running, kubeconfig: &Path) -> Result<Command> {
    let layout = &running.layout;
    let mut command = Command::new(running.tools.binary(Binary::Kubectl)?);
    process::mark(&mut command, layout.dir(), "kubectl")
        .env("KUBECONFIG", kubeconfig)
        // What it learns about this cluster must not be taken for true of the next one on the same port.
        .env("KUBECACHEDIR", layout.file("kubectl-cache"));
    Ok(command)
}

/// Runs `command` with `arguments`, gives it `input`, and returns what it printed.
pub(crate) fn run(mut command: Command, arguments: &[&str], input: &str) -> Result<String> {
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::io("run", command.get_program()))?;
    let mut stdin = child.stdin.take().expect("its input is piped");
    let output = thread::scope(|scope| {
        // Beside the reading of its output: it may print before it has read everything. It may also end without
        // reading, and then its own words are the better error.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    })
    .map_err(Error::io("run", Path::new(OsStr::new("kubectl"))))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Kubectl {
        arguments: arguments.join(" "),
        status: output.status,
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
