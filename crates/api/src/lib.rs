//! The wire contract of the operator: what users write, what the operator answers, and how everything it creates is
//! named.
//!
//! This crate knows nothing of the cluster, the clock or the operator's decisions. It holds the three custom resources
//! ([`FireboltInstance`], [`FireboltEngine`], [`FireboltEngineClass`]), the names and keys that parts of the system
//! agree on, each spelled once, and exact readers for the two text formats that Kubernetes manifests carry: durations
//! and quantities.
//!
//! Doc comments on the resource types are user documentation: `kubectl explain` shows them.

pub mod condition;
pub mod duration;
pub mod key;
pub mod name;
pub mod quantity;

mod crd;
mod rule;
mod schema;
mod tolerant;
mod types;

pub use crd::{crd_file_name, crds, crds_yaml, to_yaml};
pub use duration::Duration;
pub use types::engine::{
    AutoStop, AutoStopReason, EnginePhase, FireboltEngine, FireboltEngineSpec, FireboltEngineStatus, Rollout,
    ScheduleWindow, Weekday,
};
pub use types::engine_class::{FireboltEngineClass, FireboltEngineClassSpec, FireboltEngineClassStatus};
pub use types::instance::{
    ConfigFormat, ExternalPostgres, FireboltInstance, FireboltInstanceSpec, FireboltInstanceStatus, GatewaySpec,
    InstancePhase, MetadataSpec, MetricScrapeMode, SecretReference,
};
pub use types::storage::{
    AccessMode, EmptyDirStorage, HostPathStorage, HostPathType, PersistentVolumeClaimStorage, Storage, StorageMedium,
};

/// The API group of all three kinds.
pub const GROUP: &str = "compute.firebolt.io";
/// The one version that is served and stored.
pub const VERSION: &str = "v1alpha1";
