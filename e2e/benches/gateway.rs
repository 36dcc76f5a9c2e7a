//! What the wake hook costs on a running engine: the rendered configuration in the real Envoy, with the hook and
//! without, the real agent on a real API server, and a stand-in engine. `cargo xtask bench` runs it in a network of its
//! own and shows what it prints.
//!
//! Both gateways run all the time and take turns under load, so that other load on the machine affects both.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::dns::Dns;
use e2e::envoy::Envoy;
use e2e::wait::eventually;
use firebolt_api::to_yaml;
use firebolt_core::render::instance::gateway::envoy::{self, ADMIN_PORT, CLIENT_PORT, PROBE_PORT};
use localkube::{Cluster, Options};
use serde_json::{Value, json};
use stand_ins::engine::{Engine, Settings};
use stand_ins::load::{self, Load};

const NAMESPACE: &str = "bench";
const DOMAIN: &str = "cluster.local";
const INSTANCE: &str = "main";
const ENGINE: &str = "analytics";
const ENGINE_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const METRICS_PORT: u16 = 9191;
/// The ports of the gateway without the hook are those of the other, and so much more.
const APART: u64 = 10_000;
const HOLD_TIMEOUT: Duration = Duration::from_mins(2);
/// Queries a second, with the clients that send them.
const RATES: [(u32, u32); 3] = [(1, 1), (100, 4), (1_000, 16)];
/// A process is charged for its time in units of this.
const TICK: Duration = Duration::from_millis(10);

const OBJECTS: &str = "
apiVersion: v1
kind: Namespace
metadata: { name: bench }
---
apiVersion: compute.firebolt.io/v1alpha1
kind: FireboltEngine
metadata: { name: analytics, namespace: bench }
spec: { instanceRef: main, replicas: 1 }
";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(definitions), Some(agent), Some(rounds), Some(seconds)) =
        (arguments.next(), arguments.next(), arguments.next(), arguments.next())
    else {
        println!("this program is run by `cargo xtask bench`");
        return;
    };
    let rounds = rounds.parse().expect("a number of rounds");
    let length = Duration::from_secs(seconds.parse().expect("a number of seconds"));
    let runtime = tokio::runtime::Runtime::new().expect("start a runtime");
    let measured = runtime.block_on(measure(&definitions, Path::new(&agent), rounds, length));
    println!("{measured}");
}

async fn measure(definitions: &str, agent: &Path, rounds: usize, length: Duration) -> Value {
    let cluster = Cluster::start(Options::default())
        .await
        .unwrap_or_else(|error| panic!("start a control plane: {error}"));
    store_engine(&cluster, definitions).await;
    let settings = Settings::of_pod("analytics-g0-0", ENGINE_ADDRESS);
    let _engine = Engine::start(&settings).await.expect("start an engine");
    let mut dns = Dns::start(&format!("{NAMESPACE}.svc.{DOMAIN}")).await;
    dns.set(&format!("{ENGINE}-service"), [ENGINE_ADDRESS.into()]).await;

    let with = Gateway::start(configuration(), CLIENT_PORT).await;
    let without = Gateway::start(without_hook(configuration()), beside(CLIENT_PORT)).await;
    let agent = Agent::start(agent, &cluster.kubeconfig_admin());
    eventually("the agent knows the engine", async || {
        hold().is_ok_and(|answer| answer.contains("x-firebolt-wake: ready"))
    })
    .await;

    let mut rates = Vec::new();
    let mut spent = [Duration::ZERO; 2];
    for (rate, clients) in RATES {
        // Slow rates need longer rounds, to have something to count.
        let length = if rate == 1 { length * 2 } else { length };
        let mut turns = Vec::new();
        for _ in 0..rounds {
            let before = [with.spent() + agent.spent(), without.spent()];
            let on = with.query(rate, clients, length).await;
            let off = without.query(rate, clients, length).await;
            if rate == 1_000 {
                spent[0] += (with.spent() + agent.spent()).saturating_sub(before[0]);
                spent[1] += without.spent().saturating_sub(before[1]);
            }
            turns.push(json!({ "on": on, "off": off }));
        }
        rates.push(json!({ "rate": rate, "turns": turns }));
    }
    let [on, off] = spent.map(|spent| spent.as_secs_f64());
    json!({ "rates": rates, "processor_seconds": { "on": on, "off": off } })
}

/// Has the API server show an engine that serves.
async fn store_engine(cluster: &Cluster, definitions: &str) {
    let kubectl = |arguments: &[&str]| cluster.kubectl(arguments);
    kubectl(&["apply", "--server-side", "-f", definitions]).expect("install the definitions");
    eventually("the definitions are served", async || {
        cluster.kubectl_with_input(&["apply", "-f", "-"], OBJECTS).is_ok()
    })
    .await;
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "EngineReady", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "status": {
        "phase": "stable", "currentGeneration": 0, "activeGeneration": 0, "conditions": [ready],
    } });
    let status = status.to_string();
    let patch = [
        "patch",
        "fireng",
        ENGINE,
        "-n",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    kubectl(&patch).expect("set the status of the engine");
}

fn configuration() -> Value {
    let rendered = envoy::bootstrap(&envoy::Envoy {
        namespace: NAMESPACE,
        cluster_domain: DOMAIN,
        metrics_port: METRICS_PORT,
        ipv6: false,
        hold_timeout: HOLD_TIMEOUT,
    });
    serde_json::to_value(rendered).expect("a configuration is an object")
}

/// The same gateway on other ports, whose script does not call the agent.
fn without_hook(mut configuration: Value) -> Value {
    let listeners = configuration["static_resources"]["listeners"].as_array_mut();
    let listeners = listeners.expect("listeners");
    listeners.retain(|listener| port(listener) != Some(u64::from(PROBE_PORT)));
    for listener in listeners.iter_mut() {
        shift(listener);
    }
    let filters = &mut listeners[0]["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"];
    let lua = filters.as_array_mut().expect("filters").iter_mut();
    let lua = lua
        .into_iter()
        .find(|filter| filter["name"] == "envoy.filters.http.lua");
    let script = &mut lua.expect("a script")["typed_config"]["default_source_code"]["inline_string"];
    let text = script.as_str().expect("the text of the script");
    let silent = text.replace("\nwake(request, headers, engine)\n", "\n");
    assert_ne!(silent, text, "the script calls its hook");
    *script = silent.into();
    shift(&mut configuration["admin"]);
    assert_eq!(port(&configuration["admin"]), Some(u64::from(ADMIN_PORT) + APART));
    configuration
}

fn port(owner: &Value) -> Option<u64> {
    owner["address"]["socket_address"]["port_value"].as_u64()
}

fn shift(owner: &mut Value) {
    let shifted = port(owner).expect("a port") + APART;
    owner["address"]["socket_address"]["port_value"] = shifted.into();
}

fn beside(port: u16) -> u16 {
    u16::try_from(u64::from(port) + APART).expect("a port")
}

/// A gateway under load.
struct Gateway {
    _envoy: Envoy,
    process: u32,
    port: u16,
}

impl Gateway {
    async fn start(configuration: Value, port: u16) -> Self {
        let before = children();
        let envoy = Envoy::start(&to_yaml(&configuration)).await;
        let process = children().difference(&before).next().copied().expect("Envoy runs");
        eventually("the gateway listens", async || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        })
        .await;
        Self {
            _envoy: envoy,
            process,
            port,
        }
    }

    /// Sends queries for a while, and says how long the answers took, in milliseconds.
    async fn query(&self, rate: u32, clients: u32, length: Duration) -> Value {
        let settings = load::Settings {
            clients,
            pause: Duration::from_secs(1) * clients / rate,
            duration: Duration::ZERO,
        };
        let gateway = format!("http://127.0.0.1:{}", self.port);
        let load = Load::start(gateway.parse().expect("a URL"), ENGINE, settings);
        tokio::time::sleep(length).await;
        let report = load.stop().await;
        let failed = report.failures.len();
        assert!(
            failed == 0,
            "{failed} queries failed, the first: {:?}",
            report.failures[0]
        );
        let latency = report.latency();
        let milliseconds = |length: Duration| length.as_secs_f64() * 1_000.0;
        json!({
            "queries": report.answered.len(), "p50": milliseconds(latency.p50), "p99": milliseconds(latency.p99),
        })
    }

    fn spent(&self) -> Duration {
        spent(self.process)
    }
}

/// The agent. It is killed when it is dropped.
struct Agent(Child);

impl Agent {
    fn start(program: &Path, kubeconfig: &PathBuf) -> Self {
        let suffix = format!("-service.{NAMESPACE}.svc.{DOMAIN}:3473");
        let child = Command::new(program)
            .args([
                "--namespace",
                NAMESPACE,
                "--instance",
                INSTANCE,
                "--engine-suffix",
                &suffix,
            ])
            .args(["--log-level", "error"])
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("start {}: {error}", program.display())))
    }

    fn spent(&self) -> Duration {
        spent(self.0.id())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_gone = self.0.wait();
    }
}

/// What the agent says about the engine.
fn hold() -> std::io::Result<String> {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, envoy::AGENT_PORT))?;
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(
        connection,
        "GET /hold HTTP/1.1\r\nHost: wake-agent\r\nx-firebolt-engine: {ENGINE}\r\nx-firebolt-bytes: 0\r\n\
         Connection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The processes that this one has started.
fn children() -> BTreeSet<u32> {
    let tasks = fs::read_dir("/proc/self/task").expect("list the threads");
    let lists = tasks
        .flatten()
        .map(|task| fs::read_to_string(task.path().join("children")));
    let lists: Vec<String> = lists.flatten().collect();
    let numbers = lists.iter().flat_map(|list| list.split_whitespace());
    numbers.map(|number| number.parse().expect("a number")).collect()
}

/// The time of processors that a process has had.
fn spent(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("read what a process has used");
    // Its name may hold anything, and stands in brackets.
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let ticks = fields
        .split(' ')
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u32>().expect("a number"));
    TICK * ticks.sum::<u32>()
}
