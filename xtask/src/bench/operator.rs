//! The operator as a process of its own, under the service account and permissions that it is shipped with.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use localkube::Cluster;
use rustix::process::{Pid, Signal, kill_process};

use super::Result;
use super::programs::Programs;

/// The namespace of the service account, and of the lease.
const NAMESPACE: &str = "firebolt-system";
const ACCOUNT: &str = "firebolt-operator";
const DEFINITIONS: [&str; 3] = ["engines", "instances", "engineclasses"];
/// How long the operator may take to end when it is asked to.
const LAST_WORDS: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

/// What it takes to start an operator, as often as one likes.
pub(super) struct Starter<'a> {
    cluster: &'a Cluster,
    program: PathBuf,
    kubeconfig: PathBuf,
}

/// A running operator. It is killed when it is dropped.
pub(super) struct Operator {
    child: Child,
}

impl<'a> Starter<'a> {
    /// Installs definitions and permissions.
    pub(super) async fn prepare(programs: &Programs, cluster: &'a Cluster) -> Result<Self> {
        let manifests = ["deploy/crds", "deploy/rbac.yaml"].map(|path| programs.source(path));
        let [definitions, permissions] = manifests.each_ref().map(String::as_str);
        cluster.kubectl(&["apply", "--server-side", "-f", definitions, "-f", permissions])?;
        let names = DEFINITIONS.map(|kind| format!("crd/firebolt{kind}.compute.firebolt.io"));
        let served = ["wait", "--for=create", "--for=condition=Established", "--timeout=60s"];
        cluster.kubectl(
            &served
                .into_iter()
                .chain(names.iter().map(String::as_str))
                .collect::<Vec<_>>(),
        )?;
        Ok(Self {
            cluster,
            program: programs.operator(),
            kubeconfig: cluster.service_account_kubeconfig(NAMESPACE, ACCOUNT).await?,
        })
    }

    /// Starts one.
    pub(super) fn start(&self) -> Result<Operator> {
        let child = Command::new(&self.program)
            .args(["run", "--lease-namespace", NAMESPACE, "--kubeconfig"])
            .arg::<&Path>(&self.kubeconfig)
            .args([
                "--health-probe-bind-address=127.0.0.1:0",
                "--metrics-bind-address=127.0.0.1:0",
                "--webhook-bind-address=0",
                "--log-level=error",
            ])
            // The cleanup of the cluster ends the operator as well.
            .env(localkube::DIR_VARIABLE, self.cluster.dir())
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("start {}: {error}", self.program.display()))?;
        Ok(Operator { child })
    }
}

impl Operator {
    /// Asks it to end, as Kubernetes does, and waits until it has.
    pub(super) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.ok_or("find the operator")?, Signal::TERM)?;
        let deadline = Instant::now() + LAST_WORDS;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                return Err("wait for the end of the operator".into());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _already_gone = self.child.wait();
    }
}
