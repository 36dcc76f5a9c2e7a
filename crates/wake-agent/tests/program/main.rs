//! The program as Kubernetes and Envoy use it, without a cluster.

mod agent;
mod flags;
mod lifecycle;
