//! The tier with a whole cluster: the operator as it is installed, real pods, and clients that query without a pause.
//!
//! A test creates a [`TestEnv`], which is a namespace of its own, and changes objects in it as a user would. Conditions
//! to wait for have a description; if one is not met in time, objects, events and logs of the namespace are printed.
//!
//! ```no_run
//! use e2e::cluster::TestEnv;
//!
//! # async fn test() {
//! let env = TestEnv::with_instance().await;
//! let engine = env.engine("analytics");
//! env.deploy(&engine).await;
//! let traffic = env.traffic("analytics").await;
//! env.apply(&engine.clone().replicas(3)).await;
//! env.settles("analytics", 1).await;
//! traffic.assert_flawless().await;
//! # }
//! ```
//!
//! The process runs inside the network of the cluster (`cargo xtask test e2e` sees to that), so it reaches every pod
//! and every Service by its address.

#![expect(
    clippy::disallowed_methods,
    reason = "tests write to the cluster as people and machines do"
)]

mod agent;
mod client;
mod fixture;
mod history;
mod installation;
mod kill;
mod operator;
mod pods;
mod progress;
mod query;
mod quota;
mod report;
mod testenv;
mod traffic;

pub use agent::GatewayPod;
pub use client::{Connection, Reply};
pub use fixture::{Class, Engine, INSTANCE, Instance, NEXT_ENGINE_IMAGE};
pub use history::History;
pub use operator::Operator;
pub use pods::{is_ready, restarts};
pub use progress::ready;
pub use testenv::{Namespaced, TestEnv};
pub use traffic::Traffic;
