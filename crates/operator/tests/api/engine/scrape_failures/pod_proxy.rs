//! Metrics through the pod proxy of the API server, for clusters in which the operator cannot reach pods itself.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, id};

use firebolt_api::EnginePhase::Stable;
use firebolt_api::FireboltInstance;
use k8s_openapi::api::apps::v1::StatefulSet;
use localkube::Cluster;
use serde_json::json;

use crate::fixtures::{INSTANCE, engine, new_image};
use crate::testenv::TestEnv;

const ROLE: &str = "firebolt-operator-apiserver-proxy";
/// As the documentation has it: all but the first word, in which the cluster is.
const MANUAL: &str = include_str!("../../../../../../docs/operations/engines.md");
/// What tells the addresses of tests from others: the label, which names the process that added it.
const LABEL: &str = "lo:fb";

/// An address of this machine that is no loopback one, which the API server would refuse to ask. It is one of those that
/// are set aside for documentation, on the loopback device, so that nothing leaves the machine.
struct Address {
    ip: Ipv4Addr,
}

impl Address {
    fn add() -> Self {
        let (kept, left): (Vec<_>, Vec<_>) = of_tests().into_iter().partition(|(_, owner)| runs(*owner));
        for (address, _) in left {
            remove(&address);
        }
        let is_free = |ip: &Ipv4Addr| !kept.iter().any(|(address, _)| *address == whole(*ip));
        let mut all = (1..=254).map(|last| Ipv4Addr::new(192, 0, 2, last));
        let ip = all.find(is_free).expect("a free address");
        let label = format!("{LABEL}{}", id());
        ip_address(&["add", &whole(ip), "dev", "lo", "label", &label]);
        Self { ip }
    }
}

/// The network of one address.
fn whole(ip: Ipv4Addr) -> String {
    format!("{ip}/32")
}

fn runs(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

impl Drop for Address {
    fn drop(&mut self) {
        remove(&whole(self.ip));
    }
}

/// Addresses that tests have added, with the processes that did.
fn of_tests() -> Vec<(String, u32)> {
    let listed = ip_address(&["show", "dev", "lo"]);
    let read = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let owner = words.last()?.strip_prefix(LABEL)?.parse().ok()?;
        Some((words.get(1)?.to_string(), owner))
    };
    listed.lines().filter_map(read).collect()
}

fn remove(address: &str) {
    let _best_effort = Command::new("ip")
        .args(["address", "delete", address, "dev", "lo"])
        .output();
}

fn ip_address(arguments: &[&str]) -> String {
    let output = Command::new("ip").arg("address").args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("run ip: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip address {arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// The permission, which is taken away again: other tests run under the same account.
struct Binding<'a>(&'a Cluster);

impl Binding<'_> {
    /// Grants it with the very command of the documentation.
    fn create(&self) {
        let from = MANUAL
            .find("kubectl create clusterrolebinding")
            .expect("the command is documented");
        let command = MANUAL[from..]
            .split("\n\n")
            .next()
            .unwrap_or_default()
            .replace("\\\n", " ");
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(words[0], "kubectl");
        self.0.kubectl(&words[1..]).unwrap();
    }

    fn remove(&self) {
        let delete = ["delete", "clusterrolebinding", ROLE, "--ignore-not-found"];
        let _best_effort = self.0.kubectl(&delete);
    }
}

impl Drop for Binding<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The same through the API server: without the permission no generation counts as drained, and the condition names the
/// missing permission; once it is granted as documented, the drain ends.
#[tokio::test(flavor = "multi_thread")]
async fn pods_are_scraped_through_the_api_server_once_that_is_permitted() {
    let env = TestEnv::start().await;
    let binding = Binding(&env.cluster);
    binding.remove();
    let address = Address::add();
    let mode = json!({ "spec": { "metricScrapeMode": "ApiserverProxy" } });
    env.edit::<FireboltInstance>(INSTANCE, mode).await;
    env.node.set_address(&env.namespace, "a-g0", address.ip);
    env.deploy(&engine("a")).await;
    env.edit_engine("a", new_image("registry.example/engine:2")).await;

    let reported = env.wait_for_reason("a", "DrainCheckFailing").await;
    let lacking = format!(
        "the operator lacks the permission to get pods/proxy in namespace {}",
        env.namespace
    );
    assert!(
        reported.message.contains(&lacking) && reported.message.contains("a-g0-0"),
        "{reported:?}"
    );
    env.wait_for_failed_counts("a", 2.0).await;
    assert_eq!(env.generations("a").await, [0, 1]);
    assert_eq!(env.node.scrapes(&env.namespace, "a"), 0);

    binding.create();
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    env.wait_until_gone::<StatefulSet>("a-g0").await;
    // The pod has no address of its own: only the API server scraped it.
    assert!(env.node.scrapes(&env.namespace, "a-g0-0") > 0);
}
