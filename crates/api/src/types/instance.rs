//! The FireboltInstance: what all engines of a deployment share.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter, IntoStaticStr};

use crate::duration::Duration;
use crate::rule;

/// What the instance should be.
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
    doc = "A FireboltInstance is what all engines of a deployment share: a PostgreSQL database, the metadata service \
           that uses it, and the gateway that clients connect to.",
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
    /// The identity of the instance, which is also its account in the metadata service. Left out: a new one (a ULID) is
    /// made once. Cannot be changed or removed once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub id: Option<String>,

    /// How the operator reaches the metrics of engine pods: at their own address (`PodIP`), or through the API server
    /// (`ApiserverProxy`) where pods cannot be reached from the operator.
    #[serde(default)]
    pub metric_scrape_mode: MetricScrapeMode,

    /// The metadata service. May be `{}`.
    pub metadata: MetadataSpec,

    /// The gateway that clients connect to. May be `{}`.
    pub gateway: GatewaySpec,
}

/// How the operator reaches the metrics of engine pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricScrapeMode {
    /// At the address of the pod.
    #[default]
    #[serde(rename = "PodIP")]
    PodIp,
    /// Through the API server.
    ApiserverProxy,
}

/// The metadata service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = rule::metadata_replicas())]
#[serde(rename_all = "camelCase")]
pub struct MetadataSpec {
    /// Must be 1 or left out: the metadata service has a single writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// The format of the configuration file. Metadata images from August 2026 on read `yaml`, earlier ones `xml`.
    #[serde(default)]
    pub config_format: ConfigFormat,

    /// Overrides for the pods of the metadata service, as in core/v1 PodTemplateSpec. The container named `metadata` is
    /// the service itself; others become sidecars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::pod_template")]
    pub template: Option<PodTemplateSpec>,

    /// A PostgreSQL database to use. Left out: the operator runs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<ExternalPostgres>,
}

/// The format of the configuration file of the metadata service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConfigFormat {
    /// For images built before August 2026.
    #[default]
    Xml,
    /// For images built from August 2026 on.
    Yaml,
}

/// A PostgreSQL database that the operator does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalPostgres {
    /// The host name or address of the server.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9.\-:\[\]]+$"))]
    pub host: String,

    /// The port of the server.
    #[serde(default = "default_postgres_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// The database on the server.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9_.\-]+$"))]
    pub database: String,

    /// The schema in the database.
    #[serde(default = "default_postgres_schema")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9_.\-]+$"))]
    pub schema: String,

    /// The Secret in the same namespace with the keys `username` and `password`.
    pub credentials_secret_ref: SecretReference,
}

fn default_postgres_port() -> i32 {
    5432
}

fn default_postgres_schema() -> String {
    "public".to_owned()
}

/// A Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretReference {
    /// The name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}

/// The gateway that clients connect to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// How many gateway pods run. Left out: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,

    /// The port on which gateway pods offer their metrics.
    #[serde(default = "default_metrics_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub metrics_port: i32,

    /// How long a query for a stopped engine is held while the engine wakes, as in `2m`; at least `1s`, at most `1h`.
    /// Then its client is told to come back; the engine goes on waking.
    #[serde(default = "default_wake_timeout")]
    #[schemars(schema_with = "crate::duration::wake_timeout")]
    pub wake_timeout: Duration,

    /// Overrides for the pods of the gateway, as in core/v1 PodTemplateSpec. The container named `envoy` is the gateway
    /// itself; others become sidecars.
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

/// What the operator knows of the instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FireboltInstanceStatus {
    /// The `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Where the instance stands.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::tolerant::known"
    )]
    #[schemars(schema_with = "crate::schema::plain::<InstancePhase>")]
    pub phase: Option<InstancePhase>,

    /// Whether the metadata service is ready.
    #[serde(default)]
    pub metadata_ready: bool,

    /// The address (host and port) of the metadata service while it is ready.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub metadata_endpoint: String,

    /// Whether the gateway is ready.
    #[serde(default)]
    pub gateway_ready: bool,

    /// The host name of the gateway while it is ready.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gateway_endpoint: String,

    /// What holds of the instance and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Where an instance stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, Display, EnumIter, IntoStaticStr,
)]
pub enum InstancePhase {
    /// Some component has not been ready yet.
    Provisioning,
    /// Metadata service and gateway are ready.
    Ready,
    /// A component that was ready no longer is.
    Degraded,
    /// Something is wrong that waiting cannot mend; the `Ready` condition says what to do.
    Failed,
}
