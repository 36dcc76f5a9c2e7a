//! Single gateway pods, and the metrics of the agent in each.

use std::net::SocketAddr;

use firebolt_api::key::{Component, Label};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::client;
use super::pods::is_ready;
use super::query::get;
use super::testenv::TestEnv;

/// The query port of a gateway pod.
const QUERY_PORT: u16 = 8080;
/// The default metrics port of a gateway pod.
const METRICS_PORT: u16 = 9090;
/// The prefix of the metrics of the agent.
const PREFIX: &str = "firebolt_gateway_wake_";

/// A pod of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayPod {
    /// The name of the pod.
    pub name: String,
    address: std::net::IpAddr,
}

impl TestEnv {
    /// Waits until the gateway of an instance has this many ready pods, and returns them.
    pub async fn gateway_pods<const COUNT: usize>(&self, instance: &str) -> [GatewayPod; COUNT] {
        let component = Component::Gateway;
        let labels = format!("{}={instance},{}={component}", Label::Instance, Label::Component);
        let ready = async || {
            let mut pods = self.list::<Pod>(&labels).await;
            pods.retain(is_ready);
            let pods: Option<Vec<GatewayPod>> = pods.iter().map(GatewayPod::of).collect();
            pods?.try_into().ok()
        };
        let sentence = format!("the gateway of {instance} has {COUNT} pods that are ready");
        self.eventually(&sentence, ready).await
    }
}

impl GatewayPod {
    fn of(pod: &Pod) -> Option<Self> {
        let address = pod.status.as_ref()?.pod_ip.as_ref()?;
        Some(Self {
            name: pod.name_any(),
            address: address.parse().expect("an address"),
        })
    }

    /// The address of this pod for queries.
    #[must_use]
    pub fn queries(&self) -> SocketAddr {
        (self.address, QUERY_PORT).into()
    }

    /// The value of a metric of the agent, such as `holds_total` or `patches_total{outcome="stored"}`.
    pub async fn counts(&self, name: &str) -> u64 {
        let reply = client::send((self.address, METRICS_PORT).into(), get("/stats/prometheus")).await;
        let reply = reply.unwrap_or_else(|error| panic!("ask {} for metrics: {error}", self.name));
        let mut lines = reply.body.lines();
        let value = lines.find_map(|line| line.strip_prefix(PREFIX)?.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("find {name} in the metrics of {}", self.name));
        value.parse().unwrap_or_else(|error| panic!("read {value:?}: {error}"))
    }
}
