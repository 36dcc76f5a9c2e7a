//! The FireboltEngineClass: defaults that many engines share.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::types::engine::{AutoStop, Rollout};
use crate::types::storage::Storage;

/// What engines of this class start from.
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
    doc = "A FireboltEngineClass holds defaults that many engines of its namespace share. What an engine sets itself \
           wins. A change of the class that concerns pods rolls out to every engine that refers to it.",
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
    /// Settings for the pods of every engine of this class, as in core/v1 PodTemplateSpec. The container named `engine`
    /// is the engine itself; others become sidecars. May be `{}`.
    #[schemars(schema_with = "crate::schema::pod_template")]
    pub template: PodTemplateSpec,

    /// Adds the web UI as a container to each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ui_sidecar: Option<bool>,

    /// Whether an old generation is kept until its running queries have finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_check_enabled: Option<bool>,

    /// How often the running queries of an old generation are counted, as in `5s`; at least `1s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_check_interval: Option<Duration>,

    /// How a new generation takes over: `graceful` waits for the queries of the old one, `recreate` does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::plain::<Rollout>")]
    pub rollout: Option<Rollout>,

    /// Where pods keep their data, unless the engine names a place of its own.
    #[serde(default)]
    pub storage: Storage,

    /// Settings to merge into the configuration file of each engine. Settings of the engine win.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub custom_engine_config: Option<serde_json::Map<String, serde_json::Value>>,

    /// When engines stop by themselves and when they come back, unless the engine has a policy of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_stop: Option<AutoStop>,
}

/// What the operator knows of the class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FireboltEngineClassStatus {
    /// The `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How many engines of the namespace refer to this class.
    #[serde(default)]
    pub bound_engines: i32,

    /// What holds of the class and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
