//! The FireboltInstance: what all engines of a deployment share.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter, IntoStaticStr};

use crate::duration::Duration;
use crate::rule;

/// The desired state of a FireboltInstance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "compute.firebolt.io",
    version = "v1alpha1",
    kind = "FireboltInstance",
    plural = "fireboltinstances",
    shortname = "fire",
    category = "firebolt",
    namespaced,
    status = "FireboltInstanceStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A FireboltInstance is the shared part of a Firebolt deployment: a metadata service with its PostgreSQL \
           database, and the gateway that clients connect to. Engines reference the instance that they belong to.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Gateway", type_ = "boolean", json_path = ".status.gatewayReady"),
    printcolumn(name = "Metadata", type_ = "boolean", json_path = ".status.metadataReady"),
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
    validation = crate::rule::instance_name()
)]
#[x_kube(validation = rule::immutable_once_set("id"))]
#[serde(rename_all = "camelCase")]
pub struct FireboltInstanceSpec {
    /// Unique identifier of the instance, which is also its account ID in the metadata service. The operator generates
    /// one (a ULID) if none is set. Immutable once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub id: Option<String>,

    /// How the operator reaches the metrics of engine pods: directly at the address of the pod (`PodIP`), or through
    /// the API server (`ApiserverProxy`) if the operator has no network access to pods.
    #[serde(default)]
    pub metric_scrape_mode: MetricScrapeMode,

    /// Configuration of the metadata service. May be `{}`.
    pub metadata: MetadataSpec,

    /// Configuration of the gateway that clients connect to. May be `{}`.
    pub gateway: GatewaySpec,
}

/// How the operator reaches the metrics of engine pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricScrapeMode {
    /// Directly at the address of the pod.
    #[default]
    #[serde(rename = "PodIP")]
    PodIp,
    /// Through the API server.
    ApiserverProxy,
}

/// Configuration of the metadata service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = rule::metadata_replicas())]
#[serde(rename_all = "camelCase")]
pub struct MetadataSpec {
    /// Number of metadata pods. If set, must be 1, because the metadata service has a single writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Format of the configuration file. Images built in August 2026 or later read `yaml`, earlier images read `xml`.
    #[serde(default)]
    pub config_format: ConfigFormat,

    /// Overrides for the pods of the metadata service, in the format of a core/v1 PodTemplateSpec. The container named
    /// `metadata` is the service itself; other containers run as sidecars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::pod_template")]
    pub template: Option<PodTemplateSpec>,

    /// External PostgreSQL database to use. If not set, the operator runs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<ExternalPostgres>,
}

/// Format of the configuration file of the metadata service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConfigFormat {
    /// For images built before August 2026.
    #[default]
    Xml,
    /// For images built in August 2026 or later.
    Yaml,
}

/// Connection to a PostgreSQL database that is not managed by the operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalPostgres {
    /// Host name or IP address of the server.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9.\-:\[\]]+$"))]
    pub host: String,

    /// Port of the server.
    #[serde(default = "default_postgres_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// Name of the database on the server.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9_.\-]+$"))]
    pub database: String,

    /// Name of the schema in the database.
    #[serde(default = "default_postgres_schema")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9_.\-]+$"))]
    pub schema: String,

    /// Secret in the same namespace that holds the keys `username` and `password`.
    pub credentials_secret_ref: SecretReference,
}

fn default_postgres_port() -> i32 {
    5432
}

fn default_postgres_schema() -> String {
    "public".to_owned()
}

/// Reference to a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}

/// Configuration of the gateway that clients connect to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// Number of gateway pods. Defaults to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,

    /// Port on which gateway pods expose their metrics.
    #[serde(default = "default_metrics_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub metrics_port: i32,

    /// Maximum time that a query for a stopped engine is held while the engine starts, for example `2m`. Must be at
    /// least `1s` and at most `1h`. After this time the client receives a response that asks it to retry; the engine
    /// continues to start.
    #[serde(default = "default_wake_timeout")]
    #[schemars(schema_with = "crate::duration::wake_timeout")]
    pub wake_timeout: Duration,

    /// Overrides for the pods of the gateway, in the format of a core/v1 PodTemplateSpec. The container named `envoy`
    /// is the gateway itself; other containers run as sidecars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::pod_template")]
    pub template: Option<PodTemplateSpec>,
}

fn default_metrics_port() -> i32 {
    9090
}

fn default_wake_timeout() -> Duration {
    "2m".parse().expect("a valid duration")
}

impl Default for GatewaySpec {
    fn default() -> Self {
        Self {
            replicas: None,
            metrics_port: default_metrics_port(),
            wake_timeout: default_wake_timeout(),
            template: None,
        }
    }
}

/// The observed state of a FireboltInstance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FireboltInstanceStatus {
    /// The `metadata.generation` that this status was computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Current phase of the instance.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::tolerant::known"
    )]
    #[schemars(schema_with = "crate::schema::plain::<InstancePhase>")]
    pub phase: Option<InstancePhase>,

    /// True if the metadata service is ready.
    #[serde(default)]
    pub metadata_ready: bool,

    /// Address (host and port) of the metadata service. Empty while it is not ready.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub metadata_endpoint: String,

    /// True if the gateway is ready.
    #[serde(default)]
    pub gateway_ready: bool,

    /// Host name of the gateway. Empty while it is not ready.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gateway_endpoint: String,

    /// Current conditions of the instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Phase of an instance.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, Display, EnumIter, IntoStaticStr,
)]
pub enum InstancePhase {
    /// At least one component has not become ready yet.
    Provisioning,
    /// The metadata service and the gateway are ready.
    Ready,
    /// A component that was ready before is not ready.
    Degraded,
    /// A failure that does not resolve on its own. The `Ready` condition names the cause and the remedy.
    Failed,
}
