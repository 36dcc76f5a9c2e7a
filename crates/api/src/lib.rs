//! The API types of the operator: the custom resources, and the names and keys of the objects that are derived from
//! them.
//!
//! This crate does not access the cluster or the clock and makes no decisions. It contains the three custom resources
//! ([`FireboltInstance`], [`FireboltEngine`], [`FireboltEngineClass`]), the names and keys that the parts of the system
//! agree on, each defined once, and exact parsers for the two text formats of Kubernetes manifests: durations and
//! quantities.
//!
//! Doc comments on the resource types are user documentation: `kubectl explain` prints them.

pub mod condition;
pub mod duration;
pub mod key;
pub mod name;
pub mod quantity;

mod crd;
mod rule;
mod schema;
mod tolerant;
#[expect(
    unreachable_pub,
    reason = "the schema derive repeats the types that have rules, where they are unreachable"
)]
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
/// The only version that is served and stored.
pub const VERSION: &str = "v1alpha1";
