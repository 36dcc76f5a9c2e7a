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

/// The desired state of a FireboltEngine.
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
    doc = "A FireboltEngine is a set of compute nodes that serve queries. A change of its spec that affects the \
           pods is rolled out as a new generation next to the current one. Once the new pods are ready, queries are \
           switched to them and the old generation is drained and deleted.",
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
    printcolumn(name = "Ready-Pods", type_ = "integer", json_path = ".status.readyReplicas", priority = 1),
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
    /// Name of the FireboltInstance that this engine belongs to, in the same namespace. Immutable.
    #[schemars(length(min = 1, max = 253))]
    pub instance_ref: String,

    /// Name of the FireboltEngineClass that provides defaults for this engine, in the same namespace. Fields that are
    /// set on the engine take precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub engine_class_ref: Option<String>,

    /// Number of compute nodes. 0 stops the engine. While `autoStop` is enabled, the operator manages this field. Leave it
    /// out of manifests that a tool applies again and again.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = crate::name::MAX_REPLICAS))]
    pub replicas: i32,

    /// Overrides for the pods of this engine, in the format of a core/v1 PodTemplateSpec. The container named `engine`
    /// is the engine itself; other containers run as sidecars. Takes precedence over the template of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::pod_template")]
    pub template: Option<PodTemplateSpec>,

    /// Adds the web UI as a sidecar container to each pod. Defaults to the value of the class, or to `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ui_sidecar: Option<bool>,

    /// Whether to keep an old generation until its running queries have finished. No effect with `rollout: recreate`.
    /// Defaults to the value of the class, or to `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_check_enabled: Option<bool>,

    /// Interval at which the running queries of an old generation are counted, for example `5s`. Must be at least `1s`.
    /// Defaults to the value of the class, or to `5s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_check_interval: Option<Duration>,

    /// Strategy that replaces the old generation: `graceful` waits for its running queries to finish, `recreate` does
    /// not. Defaults to the value of the class, or to `graceful`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::plain::<Rollout>")]
    pub rollout: Option<Rollout>,

    /// Address (host and port) of a metadata service to use instead of the one of the instance, for engines that reach
    /// it over a different path such as a private link. Immutable once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub metadata_endpoint_override: Option<String>,

    /// Storage for the data of the engine. Defaults to the value of the class, or to an emptyDir volume.
    #[serde(default)]
    pub storage: Storage,

    /// Settings that are merged into the configuration file of the engine. Paths that the operator manages, such as
    /// `instance.id` and `engine.nodes`, are ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub custom_engine_config: Option<serde_json::Map<String, serde_json::Value>>,

    /// Policy that stops the engine when it is idle and starts it again on demand. Defaults to the value of the class.
    /// Without a policy, the operator never stops the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_stop: Option<AutoStop>,
}

fn default_replicas() -> i32 {
    1
}

/// Strategy that replaces the old generation of an engine with the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rollout {
    /// Waits until the running queries of the old generation have finished.
    Graceful,
    /// Deletes the old generation immediately.
    Recreate,
}

/// Policy that stops an engine when it is idle and starts it again on demand. While it is enabled, the operator manages
/// `spec.replicas` and switches it between `idleReplicas` and `activeReplicas`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = rule::active_covers_idle())]
#[serde(rename_all = "camelCase")]
pub struct AutoStop {
    /// Enables the policy.
    #[serde(default)]
    pub enabled: bool,

    /// Number of compute nodes while the engine is in use, within a schedule window, or after a wake request.
    #[schemars(range(min = 1, max = crate::name::MAX_REPLICAS))]
    pub active_replicas: i32,

    /// Number of compute nodes while the engine is idle. 0 stops the engine.
    #[serde(default)]
    #[schemars(range(min = 0, max = crate::name::MAX_REPLICAS))]
    pub idle_replicas: i32,

    /// Time without queries after which the engine is idle, for example `30m`. Must be at least `1s`.
    #[serde(default = "default_idle_timeout")]
    pub idle_timeout: Duration,

    /// Interval at which the running queries are counted, for example `1m`. Must be at least `1s`.
    #[serde(default = "default_poll_interval")]
    pub poll_interval: Duration,

    /// Time windows, in UTC, during which the engine runs at least `activeReplicas` nodes regardless of its use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<ScheduleWindow>,
}

fn default_idle_timeout() -> Duration {
    "30m".parse().expect("a valid duration")
}

fn default_poll_interval() -> Duration {
    "1m".parse().expect("a valid duration")
}

/// A time window, in UTC. A window whose end is before its start continues past midnight. A window whose end equals its
/// start is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleWindow {
    /// Start of the window, for example `08:00`.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub start: String,

    /// End of the window, for example `18:30`. `24:00` is the end of the day.
    #[schemars(regex(pattern = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"))]
    pub end: String,

    /// Days on which the window starts. Defaults to every day.
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

/// The observed state of a FireboltEngine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FireboltEngineStatus {
    /// The `metadata.generation` that was last rolled out completely, or that is not rolled out until a person acts (the
    /// condition `Stalled`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Number of the newest generation of pods.
    pub current_generation: i64,

    /// Number of the generation that the routing Service selects, or -1 if there is none yet. A stopped engine has one as
    /// well, without pods.
    pub active_generation: i64,

    /// Number of the generation that is being drained, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining_generation: Option<i64>,

    /// Current phase of the engine.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::tolerant::known"
    )]
    #[schemars(schema_with = "crate::schema::plain::<EnginePhase>")]
    pub phase: Option<EnginePhase>,

    /// Why the newest generation was rolled out, such as "`spec.replicas` changed from 1 to 3".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_cause: Option<String>,

    /// Number of pods of the active generation. Reported in the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Number of pods of the active generation that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,

    /// Label selector that matches the pods of the engine. Reported in the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// Time at which the operator last updated this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_reconciled: Option<Time>,

    /// Time at which the engine was last observed to be in use. `idleTimeout` is measured from this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_activity_time: Option<Time>,

    /// Time at which auto-stop last changed `spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_scaled_at: Option<Time>,

    /// Reason for the most recent auto-stop decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::plain::<AutoStopReason>")]
    pub auto_stop_reason: Option<AutoStopReason>,

    /// Current conditions of the engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Phase of an engine. `stable` and `stopped` are final; the others are steps of a rollout.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, Display, EnumIter, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum EnginePhase {
    /// The active generation serves queries and matches the spec.
    Stable,
    /// A new generation is being created.
    Creating,
    /// Queries are being switched to the new generation.
    Switching,
    /// The old generation is finishing its running queries.
    Draining,
    /// The old generation is being deleted.
    Cleaning,
    /// The active generation matches the spec and has zero replicas.
    Stopped,
}

/// Reason for an auto-stop decision.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, Display, EnumIter, IntoStaticStr,
)]
pub enum AutoStopReason {
    /// There is no policy, or the policy is not enabled.
    Disabled,
    /// A wake request of the last five minutes starts the engine or keeps it running.
    WakeRequested,
    /// A schedule window is open.
    ScheduleActive,
    /// The engine is stopped and no wake request is pending.
    Stopped,
    /// The operator has not read the running queries yet, or has read them for the first time.
    Initializing,
    /// Queries are running, or the engine has not been idle for the whole `idleTimeout` yet.
    ActivityObserved,
    /// The running queries could not be read, which counts as activity.
    ScrapeFailed,
    /// The engine had no queries for the whole `idleTimeout`.
    Idle,
}
