//! Gateway pods, one by one, and what the agent in each of them counts.

use std::net::SocketAddr;

use firebolt_api::key::{Component, Label};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::client;
use super::pods::is_ready;
use super::query::get;
use super::scene::Scene;

/// Where Envoy takes queries in a gateway pod.
const QUERY_PORT: u16 = 8080;
/// Where a gateway pod offers metrics unless its instance says otherwise.
const METRICS_PORT: u16 = 9090;
/// What the names of everything begin with that the agent counts.
const PREFIX: &str = "firebolt_gateway_wake_";

/// A pod of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayPod {
    /// The name of the pod.
    pub name: String,
    address: std::net::IpAddr,
}

impl Scene {
    /// Waits until the gateway of an instance has so many pods that are ready, and returns those that stay.
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

    /// Where this pod takes queries.
    #[must_use]
    pub fn queries(&self) -> SocketAddr {
        (self.address, QUERY_PORT).into()
    }

    /// What the agent counts under this name, such as `holds_total` or `patches_total{outcome="stored"}`.
    pub async fn counts(&self, name: &str) -> u64 {
        let reply = client::send((self.address, METRICS_PORT).into(), get("/stats/prometheus")).await;
        let reply = reply.unwrap_or_else(|error| panic!("ask {} for metrics: {error}", self.name));
        let mut lines = reply.body.lines();
        let value = lines.find_map(|line| line.strip_prefix(PREFIX)?.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("find {name} in the metrics of {}", self.name));
        value.parse().unwrap_or_else(|error| panic!("read {value:?}: {error}"))
    }
}
