//! The operator on a real control plane: API server, controller manager and scheduler are the real ones, the operator is
//! its binary under the shipped permissions. Only the kubelet is played, by [`kubelet::Node`].

#![expect(
    clippy::disallowed_methods,
    reason = "tests write to the cluster as users and kubelets do"
)]

mod admission;
mod admitted_objects;
mod audit;
mod components;
mod crash_env;
mod engine;
mod engine_class;
mod fault_proxy;
mod fixtures;
mod gitops;
mod instance;
mod kubelet;
mod process;
mod shipped_manifests;
mod support;
mod testenv;
