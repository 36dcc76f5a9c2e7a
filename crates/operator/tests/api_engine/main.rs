//! The engine controller on a real control plane: API server, controller manager and scheduler are the real ones, the
//! operator is its binary under the shipped permissions. Only the kubelet is played, by [`node::Node`].

#![expect(
    clippy::disallowed_methods,
    reason = "tests write to the cluster as users and kubelets do"
)]

#[path = "../support/mod.rs"]
mod support;

mod appearance;
mod audit;
mod auto_stop;
mod drain;
mod edits;
mod faults;
mod fixture;
mod harness;
mod kubelet;
mod limits;
mod meddling;
mod metrics_server;
mod moments;
mod namespace;
mod never_ready;
mod node;
mod pod_status;
mod pods;
mod proxy;
mod rest;
mod scene;
mod scrapes;
mod stories;
mod upkeep;
