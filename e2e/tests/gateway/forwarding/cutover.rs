//! A new generation of an engine takes over from the old one, under load.

use e2e::isolation::isolated;
use e2e::wait::eventually;
use firebolt_core::activity;
use hyper::body::Bytes;
use stand_ins::engine::{Engine, METRICS_PATH};

use crate::testenv::client::{Connection, empty, request};
use crate::testenv::load::{Executed, Load};
use crate::testenv::{TestEnv, address, pod};

const CUTOVERS: u8 = 10;
const QUERIES: usize = 10_000;
const CLIENTS: usize = 16;
/// Pods of each generation.
const PODS: u8 = 2;

struct Generation {
    pods: Vec<(String, Engine)>,
    addresses: Vec<u8>,
}

impl Generation {
    async fn start(number: u8) -> Self {
        let (mut pods, mut addresses) = (Vec::new(), Vec::new());
        for index in 0..PODS {
            let last = 10 + number * PODS + index;
            let name = format!("one-g{number}-{index}");
            pods.push((name.clone(), pod(&name, last).await));
            addresses.push(last);
        }
        Self { pods, addresses }
    }

    /// The running queries of all pods, by the gauges that the operator reads.
    async fn queries(&self) -> u64 {
        let mut sum = 0;
        for (_, pod) in &self.pods {
            sum += activity::queries(&metrics(pod).await).expect("the engine serves its gauges");
        }
        sum
    }

    /// What pods do when they are deleted. They turn queries away from the first moment on, and are gone when the
    /// gateway has noticed: the system resets connections that a process has not accepted at its end, and a query on
    /// one of those cannot be told from a query that was executed.
    async fn end(self, env: &TestEnv, executed: &mut Executed) {
        for (_, pod) in &self.pods {
            pod.begin_shutdown();
        }
        let left = async || {
            let known = env.envoy.hosts().await;
            !self.addresses.iter().any(|last| known.contains_key(&address(*last)))
        };
        eventually("the gateway has left the old pods", left).await;
        for (name, pod) in self.pods {
            pod.finished().await;
            executed.add(&name, &pod);
            pod.shut_down().await;
        }
    }
}

async fn metrics(engine: &Engine) -> Bytes {
    let mut connection = Connection::to(engine.metrics_address()).await;
    let reply = connection.send(empty(request(METRICS_PATH).method("GET"))).await;
    reply.expect("the metrics are served").body
}

/// Like the operator: the Service moves to the new generation, whose pods are ready; the old one is deleted when a
/// later sample shows no query. In every second cutover it is deleted at once, as with `drainCheckEnabled: false`.
#[test]
fn ten_thousand_queries_survive_ten_cutovers() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let mut executed = Executed::default();
        let mut serving = Generation::start(0).await;
        env.route("one", serving.addresses.clone()).await;
        let load = Load::start("one", CLIENTS);
        for number in 1..=CUTOVERS {
            load.answers(QUERIES / usize::from(CUTOVERS)).await;
            let new = Generation::start(number).await;
            env.route("one", new.addresses.clone()).await;
            let old = std::mem::replace(&mut serving, new);
            if number % 2 == 0 {
                eventually("the old generation is drained", async || old.queries().await == 0).await;
            }
            old.end(&env, &mut executed).await;
        }
        load.answers(QUERIES / usize::from(CUTOVERS)).await;
        let record = load.finish().await;
        for (name, pod) in &serving.pods {
            executed.add(name, pod);
        }
        assert!(record.len() >= QUERIES, "{} queries", record.len());
        record.assert_each_executed_once(&executed);
    });
}
