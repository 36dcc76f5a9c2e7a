//! Development only: what the tests of several crates share.

pub mod cluster;
pub mod cost;
pub mod http;
pub mod invariant;
pub mod model;
pub mod program;
pub mod wait;

/// Defaults of the operator for tests that render objects and do not depend on the values.
///
/// A macro, because a function would make this crate depend on `firebolt-core`, whose tests depend on this crate.
#[macro_export]
macro_rules! defaults {
    () => {{
        let image = |name: &str| format!("registry.example/{name}:1");
        ::firebolt_core::resolve::Defaults {
            engine_image: image("engine"),
            ui_image: image("ui"),
            postgres_image: image("postgres"),
            metadata_image: image("metadata"),
            envoy_image: image("envoy"),
            wake_agent_image: image("wake-agent"),
            image_pull_secrets: ::std::vec::Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
        }
    }};
}
