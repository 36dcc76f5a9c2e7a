//! Objects whose manifests are applied again and again, and tools that wait for them.

mod engine;
mod engine_class;
pub(crate) mod health;
mod replicas;
