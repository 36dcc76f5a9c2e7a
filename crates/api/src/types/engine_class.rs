//! The FireboltEngineClass: defaults that many engines share.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::types::engine::{AutoStop, Rollout};
use crate::types::storage::Storage;

/// Defaults for the engines that reference the class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "compute.firebolt.io",
    version = "v1alpha1",
    kind = "FireboltEngineClass",
    plural = "fireboltengineclasses",
    shortname = "firengc",
    category = "firebolt",
    namespaced,
    status = "FireboltEngineClassStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A FireboltEngineClass provides defaults for the engines in its namespace that reference it. Fields that \
           are set on an engine take precedence. A change of the class that affects pods is rolled out to every \
           engine that references it.",
    printcolumn(name = "Bound", type_ = "integer", json_path = ".status.boundEngines"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
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
    validation = crate::rule::engine_class_name()
)]
#[serde(rename_all = "camelCase")]
pub struct FireboltEngineClassSpec {
    /// Template for the pods of every engine that references this class, in the format of a core/v1 PodTemplateSpec.
    /// The container named `engine` is the engine itself; other containers run as sidecars. May be `{}`.
    #[schemars(schema_with = "crate::schema::pod_template")]
    pub template: PodTemplateSpec,

    /// Adds the web UI as a sidecar container to each pod. If neither the engine nor the class sets this field, the value
    /// is `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ui_sidecar: Option<bool>,

    /// Whether to keep an old generation until its running queries have finished. No effect with `rollout: recreate`. If
    /// neither the engine nor the class sets this field, the value is `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_check_enabled: Option<bool>,

    /// Interval at which the running queries of an old generation are counted, for example `5s`. Must be at least `1s`.
    /// If neither the engine nor the class sets this field, the value is `5s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_check_interval: Option<Duration>,

    /// Strategy that replaces the old generation: `graceful` waits for its running queries to finish, `recreate` does
    /// not. If neither the engine nor the class sets this field, the value is `graceful`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::plain::<Rollout>")]
    pub rollout: Option<Rollout>,

    /// Storage for the data of each engine that does not configure its own. If neither the engine nor the class sets this
    /// field, the value is an emptyDir volume.
    #[serde(default)]
    pub storage: Storage,

    /// Settings that are merged into the configuration file of each engine. Settings of the engine take precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub custom_engine_config: Option<serde_json::Map<String, serde_json::Value>>,

    /// Policy that stops engines when they are idle and starts them again on demand. Used by engines without a policy
    /// of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_stop: Option<AutoStop>,
}

/// The observed state of a FireboltEngineClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FireboltEngineClassStatus {
    /// The `metadata.generation` that this status was computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Number of engines in the namespace that reference this class.
    #[serde(default)]
    pub bound_engines: i32,

    /// Current conditions of the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
