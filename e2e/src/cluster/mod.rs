//! The tier with a whole cluster: the operator as it is installed, real pods, and clients that query without a pause.
//!
//! A test sets a [`Scene`], which is a namespace of its own, and changes objects in it as a person would. What a test
//! waits for is a sentence; if it does not come true, objects, events and logs of the scene are shown.
//!
//! ```no_run
//! use e2e::cluster::Scene;
//!
//! # async fn test() {
//! let scene = Scene::with_instance().await;
//! let engine = scene.engine("analytics");
//! scene.deploy(&engine).await;
//! let traffic = scene.traffic("analytics").await;
//! scene.apply(&engine.clone().replicas(3)).await;
//! scene.settles("analytics", 1).await;
//! traffic.assert_flawless().await;
//! # }
//! ```
//!
//! The process runs inside the network of the cluster (`cargo xtask test e2e` sees to that), so it reaches every pod and
//! every Service by its address.

#![expect(
    clippy::disallowed_methods,
    reason = "tests write to the cluster as people and machines do"
)]

mod agent;
mod client;
mod fixture;
mod history;
mod kill;
mod operator;
mod pods;
mod progress;
mod query;
mod quota;
mod report;
mod scene;
mod traffic;

pub use agent::GatewayPod;
pub use client::Reply;
pub use fixture::{Class, Engine, Instance, NEXT_ENGINE_IMAGE};
pub use history::History;
pub use operator::Operator;
pub use pods::{is_ready, restarts};
pub use progress::ready;
pub use scene::{INSTANCE, Namespaced, Scene};
pub use traffic::Traffic;
