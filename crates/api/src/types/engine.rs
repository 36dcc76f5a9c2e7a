//! The FireboltEngine: compute nodes that serve queries.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter, IntoStaticStr};

use crate::duration::Duration;
use crate::rule;
use crate::types::storage::Storage;

/// What the engine should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "compute.firebolt.io",
    version = "v1alpha1",
    kind = "FireboltEngine",
    plural = "fireboltengines",
    shortname = "fireng",
    category = "firebolt",
    namespaced,
    status = "FireboltEngineStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A FireboltEngine is a set of compute nodes that serves queries. Every change of its specification rolls out \
           as a new generation beside the old one: created, awaited, switched to, drained, cleaned up.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Generation", type_ = "integer", json_path = ".status.activeGeneration"),
    printcolumn(name = "Instance", type_ = "string", json_path = ".spec.instanceRef", priority = 1),
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.engineClassRef", priority = 1),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = crate::rule::engine_name()
)]
#[x_kube(
    validation = rule::immutable_once_set("instanceRef"),
    validation = rule::immutable_once_set("metadataEndpointOverride")
)]
#[serde(rename_all = "camelCase")]
pub struct FireboltEngineSpec {
    /// The FireboltInstance in the same namespace that this engine belongs to. Cannot be changed.
    #[schemars(length(min = 1, max = 253))]
    pub instance_ref: String,

    /// The FireboltEngineClass in the same namespace that fills in what this engine leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub engine_class_ref: Option<String>,

    /// How many compute nodes run; 0 stops the engine. With `autoStop` enabled the operator sets this field.
    #[schemars(range(min = 0, max = crate::name::MAX_REPLICAS))]
    pub replicas: i32,

    /// Overrides for the pods of this engine, as in core/v1 PodTemplateSpec. The container named `engine` is the
    /// engine itself; others become sidecars. Settings of this template win over those of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::pod_template")]
    pub template: Option<PodTemplateSpec>,

    /// Adds the web UI as a container to each pod. Left out: as the class says, else false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ui_sidecar: Option<bool>,

    /// Whether an old generation is kept until its running queries have finished. Left out: as the class says, else
    /// true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_check_enabled: Option<bool>,

    /// How often the running queries of an old generation are counted, as in `5s`; at least `1s`. Left out: as the
    /// class says, else `5s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_check_interval: Option<Duration>,

    /// How a new generation takes over: `graceful` waits for the queries of the old one, `recreate` does not. Left
    /// out: as the class says, else `graceful`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::plain::<Rollout>")]
    pub rollout: Option<Rollout>,

    /// The address (host and port) of a metadata service to use in place of the instance's own, for engines that reach
    /// it by another way, such as a private link. Cannot be changed or removed once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub metadata_endpoint_override: Option<String>,

    /// Where pods keep their data. Left out or empty: as the class says, else an emptyDir volume.
    #[serde(default)]
    pub storage: Storage,

    /// Settings to merge into the configuration file of the engine. Paths that belong to the operator, such as
    /// `instance.id` and `engine.nodes`, are ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub custom_engine_config: Option<serde_json::Map<String, serde_json::Value>>,

    /// When the engine stops by itself and when it comes back. Left out: as the class says, else never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_stop: Option<AutoStop>,
}

/// How a new generation takes over from the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rollout {
    /// Waits until the queries of the old generation have finished.
    Graceful,
    /// Removes the old generation at once.
    Recreate,
}

/// When an engine stops by itself and when it comes back. While enabled, the operator owns `spec.replicas` and moves it
/// between `idleReplicas` and `activeReplicas`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = rule::active_covers_idle())]
#[serde(rename_all = "camelCase")]
pub struct AutoStop {
    /// Whether this policy is in force.
    #[serde(default)]
    pub enabled: bool,

    /// How many compute nodes run while the engine is in use, inside a schedule window, or woken by a query.
    #[schemars(range(min = 1, max = crate::name::MAX_REPLICAS))]
    pub active_replicas: i32,

    /// How many compute nodes run while the engine is idle; 0 stops it.
    #[serde(default)]
    #[schemars(range(min = 0, max = crate::name::MAX_REPLICAS))]
    pub idle_replicas: i32,

    /// How long the engine must be without queries before it counts as idle, as in `30m`; at least `1s`.
    #[serde(default = "default_idle_timeout")]
    pub idle_timeout: Duration,

    /// How often the running queries are counted, as in `1m`; at least `1s`.
    #[serde(default = "default_poll_interval")]
    pub poll_interval: Duration,

    /// Windows of time, in UTC, in which the engine stays at `activeReplicas` whether it is used or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<ScheduleWindow>,
}

fn default_idle_timeout() -> Duration {
    "30m".parse().expect("a valid duration")
}

fn default_poll_interval() -> Duration {
    "1m".parse().expect("a valid duration")
}

/// A window of time, in UTC. One that ends before it starts goes on past midnight; one that ends as it starts is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleWindow {
    /// When the window opens, as in `08:00`.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub start: String,

    /// When the window closes, as in `18:30`; `24:00` is the end of the day.
    #[schemars(regex(pattern = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"))]
    pub end: String,

    /// The days on which the window opens. Left out or empty: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Weekday>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// What the operator knows of the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FireboltEngineStatus {
    /// The `metadata.generation` that was last rolled out to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The newest generation of pods.
    pub current_generation: i64,

    /// The generation that serves queries; -1 while there is none yet.
    pub active_generation: i64,

    /// The generation that is finishing its queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining_generation: Option<i64>,

    /// Where the engine stands.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::tolerant::known"
    )]
    #[schemars(schema_with = "crate::schema::plain::<EnginePhase>")]
    pub phase: Option<EnginePhase>,

    /// How many pods the active generation has. Part of the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Which pods belong to the engine, as a label selector. Part of the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// When the operator last changed this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_reconciled: Option<Time>,

    /// When the engine was last seen in use. The idle time is counted from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_activity_time: Option<Time>,

    /// When auto-stop last changed `spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_scaled_at: Option<Time>,

    /// What auto-stop last decided, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::plain::<AutoStopReason>")]
    pub auto_stop_reason: Option<AutoStopReason>,

    /// What holds of the engine and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Where an engine stands. `stable` and `stopped` are ends; the others are steps of a rollout.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, Display, EnumIter, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum EnginePhase {
    /// The active generation serves and matches the specification.
    Stable,
    /// A new generation is being created.
    Creating,
    /// Queries are being sent to the new generation.
    Switching,
    /// The old generation finishes its queries.
    Draining,
    /// The old generation is being removed.
    Cleaning,
    /// As stable, with zero replicas.
    Stopped,
}

/// What auto-stop decided, and why.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, Display, EnumIter, IntoStaticStr,
)]
pub enum AutoStopReason {
    /// There is no policy, or it is not enabled.
    Disabled,
    /// A query asked for the engine.
    WakeRequested,
    /// A schedule window is open.
    ScheduleActive,
    /// The engine is stopped and nobody asks for it.
    Stopped,
    /// The engine was seen quiet for the first time.
    Initializing,
    /// Queries are running.
    ActivityObserved,
    /// The running queries could not be read, which counts as activity.
    ScrapeFailed,
    /// The engine was quiet for the whole idle time.
    Idle,
}
