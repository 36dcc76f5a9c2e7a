//! The controllers on a real control plane: API server, controller manager and scheduler are the real ones, the
//! operator is its binary under the shipped permissions. Only the kubelet is played, by [`node::Node`].

#![expect(
    clippy::disallowed_methods,
    reason = "tests write to the cluster as users and kubelets do"
)]

#[path = "../support/mod.rs"]
mod support;

mod audit;
mod engine;
mod engine_class;
mod fixture;
mod harness;
mod instance;
mod kubelet;
mod metrics_server;
mod namespace;
mod node;
mod pod_status;
mod proxy;
mod scene;
