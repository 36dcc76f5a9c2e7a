//! The program as Kubernetes and Envoy meet it, without a cluster.

mod agent;
mod flags;
mod life;
