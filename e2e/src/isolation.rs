//! A network of its own for each test, so that programs run unchanged: with the ports that they have in a pod, and with
//! a resolver of our own behind `/etc/resolv.conf`.
//!
//! The test runs its own program again, for itself alone, in fresh namespaces. The process is the first of a process
//! namespace: whatever it started ends with it, however it ends.

use std::env;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, geteuid, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::api_server::Outside;

/// Set in the process inside the network of the test.
const INSIDE_VARIABLE: &str = "E2E_ISOLATED";
/// The timeout of a test. It catches tests that hang, and measures nothing.
const LIMIT: Duration = Duration::from_mins(3);
/// The resolver options that the kubelet writes for a pod: names with fewer than five dots are completed first.
const RESOLV_CONF: &str = "search pods.svc.cluster.local svc.cluster.local cluster.local\n\
                           nameserver 127.0.0.1\noptions ndots:5\n";
/// The only steps that need rights over the namespaces.
const PREPARE: &str = r#"ip link set lo up && mount --bind "$0" /etc/resolv.conf && exec "$@""#;

/// Runs the body of the calling test in a network of its own.
pub fn isolated(body: impl Future<Output = ()>) {
    run(body, |_folder| None);
}

/// Runs the body of the calling test in a network of its own, from which the
/// [`ApiServer`](crate::api_server::ApiServer) of the tier can be reached.
pub fn isolated_with_api_server(body: impl Future<Output = ()>) {
    run(body, |folder| Some(Outside::open(folder)));
}

fn run(body: impl Future<Output = ()>, outside: impl FnOnce(&Path) -> Option<Outside>) {
    if env::var_os(INSIDE_VARIABLE).is_some() {
        raise_file_limit();
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("start a runtime");
        runtime
            .block_on(async { tokio::time::timeout(LIMIT, body).await })
            .unwrap_or_else(|_| panic!("the test is not done after {LIMIT:?}"));
        return;
    }
    let thread = thread::current();
    // The test harness gives each test a thread of its name.
    let name = thread.name().expect("a test runs in a thread that has its name");
    let output = run_again(name, outside);
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    print!("{text}");
    // No test at all would be a success too.
    let ran = text.contains("test result: ok. 1 passed");
    assert!(
        output.status.success() && ran,
        "{name} failed in its network: {}",
        output.status
    );
}

/// Clients, gateway and engines of a test under load hold more connections than a process is allowed by default.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("raise the limit of open files");
}

/// Runs the test called `name`, and no other, of this program in fresh namespaces.
fn run_again(name: &str, outside: impl FnOnce(&Path) -> Option<Outside>) -> Output {
    let folder = TempDir::new().expect("create a folder");
    let outside = outside(folder.path());
    let resolv_conf = folder.path().join("resolv.conf");
    fs::write(&resolv_conf, RESOLV_CONF).expect("write resolv.conf");
    // Who is killed has no time to tidy up: the chain of death signals does it.
    let mut command = Command::new("setpriv");
    command.args([
        "--pdeathsig",
        "KILL",
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--kill-child",
    ]);
    if !geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command
        .args(["sh", "-c", PREPARE])
        .arg(resolv_conf)
        .arg(env::current_exe().expect("a program knows its path"))
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .env(INSIDE_VARIABLE, "1")
        // Whatever the test leaves behind goes with this folder.
        .env("TMPDIR", folder.path())
        .envs(outside.as_ref().map(Outside::variable))
        .stdin(Stdio::null());
    command
        .output()
        .expect("run setpriv and unshare, which util-linux brings")
}
