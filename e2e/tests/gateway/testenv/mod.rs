//! The test environment: a gateway with its engines, and clients.

pub(crate) mod bodies;
pub(crate) mod client;
pub(crate) mod known_bad_configuration;
pub(crate) mod load;
pub(crate) mod misbehaving_agent;
pub(crate) mod scripted_engine;
pub(crate) mod waking;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use e2e::dns::Dns;
use e2e::envoy::Envoy;
use firebolt_api::to_yaml;
use firebolt_core::render::instance::gateway::envoy;
use serde_json::Value;
use stand_ins::engine::{Engine, Settings};

/// The namespace of the instance.
pub(crate) const NAMESPACE: &str = "analytics";
/// The domain of the cluster. It is not the default, so that hard-coded names fail.
pub(crate) const DOMAIN: &str = "cluster.example";
/// The port of the gateway that serves metrics.
pub(crate) const METRICS_PORT: u16 = 9191;

/// How long a request may be held.
const HOLD_TIMEOUT: Duration = Duration::from_mins(2);

/// A running gateway and the name server that it uses.
pub(crate) struct TestEnv {
    pub envoy: Envoy,
    pub dns: Dns,
}

impl TestEnv {
    /// Starts a gateway for a cluster without any engine.
    pub(crate) async fn start() -> Self {
        Self::start_from(configuration(false, HOLD_TIMEOUT)).await
    }

    /// Starts a gateway with this hold timeout.
    pub(crate) async fn start_holding(hold_timeout: Duration) -> Self {
        Self::start_from(configuration(false, hold_timeout)).await
    }

    /// Starts a gateway for a cluster whose pods have IPv6 addresses.
    pub(crate) async fn start_with_ipv6() -> Self {
        Self::start_from(configuration(true, HOLD_TIMEOUT)).await
    }

    /// Starts a gateway with an altered configuration.
    pub(crate) async fn start_altered(alter: impl FnOnce(&mut Value)) -> Self {
        let mut configuration = configuration(false, HOLD_TIMEOUT);
        let before = configuration.clone();
        alter(&mut configuration);
        assert_ne!(configuration, before, "nothing was altered");
        Self::start_from(configuration).await
    }

    async fn start_from(configuration: Value) -> Self {
        Self {
            dns: Dns::start(&format!("{NAMESPACE}.svc.{DOMAIN}")).await,
            envoy: Envoy::start(&to_yaml(&configuration)).await,
        }
    }

    /// Sets the addresses of the Service of an engine.
    pub(crate) async fn route(&mut self, engine: &str, addresses: impl IntoIterator<Item = u8>) {
        self.route_to(engine, addresses.into_iter().map(address)).await;
    }

    /// Sets the addresses of the Service of an engine, of any IP family.
    pub(crate) async fn route_to(&mut self, engine: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        self.dns.set(&format!("{engine}-service"), addresses).await;
    }

    /// Starts an engine with one pod, and routes to it.
    pub(crate) async fn engine(&mut self, name: &str, last: u8) -> Engine {
        let engine = pod(name, last).await;
        self.route(name, [last]).await;
        engine
    }
}

fn configuration(ipv6: bool, hold_timeout: Duration) -> Value {
    let rendered = envoy::bootstrap(&envoy::Envoy {
        namespace: NAMESPACE,
        cluster_domain: DOMAIN,
        metrics_port: METRICS_PORT,
        ipv6,
        hold_timeout,
    });
    serde_json::to_value(rendered).expect("a configuration is an object")
}

/// A loopback address by its last octet. The first one belongs to the gateway pod.
pub(crate) fn address(last: u8) -> IpAddr {
    assert!(last > 1, "127.0.0.1 is the gateway's own address");
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
}

/// Starts an engine pod.
pub(crate) async fn pod(name: &str, last: u8) -> Engine {
    let settings = Settings::of_pod(name, address(last));
    Engine::start(&settings).await.expect("start an engine")
}
