//! The flags of `run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use firebolt_core::admit::Maximum;
use firebolt_process::logs::{self, LogFormat};

use crate::settings::{
    ClusterDomain, LabelSelector, ListenAddress, Scope, parse_certificate_validity, parse_duration, parse_host,
    parse_image, parse_lease_duration, parse_namespace, parse_object_name, parse_progress_deadline,
    parse_shutdown_timeout,
};

/// What engines do that another version of the operator rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum UpgradePolicy {
    /// Adopt the rendering of this version with their next change
    OnNextChange,
    /// Adopt it by themselves, --upgrade-concurrency at a time, each after those before it are ready
    Rolling,
}

/// The flags of `run`, each parsed to its own type.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// Path of the kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_KUBECONFIG",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Cluster"
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use [default: its current context]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_CONTEXT",
        hide_env_values = true,
        value_name = "NAME",
        help_heading = "Cluster"
    )]
    pub context: Option<String>,

    /// DNS domain of the cluster
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_CLUSTER_DOMAIN",
        hide_env_values = true,
        value_name = "DOMAIN",
        default_value = "cluster.local",
        help_heading = "Cluster"
    )]
    pub cluster_domain: ClusterDomain,

    /// Namespaces to watch, separated by commas [default: all]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_NAMESPACES",
        hide_env_values = true,
        value_name = "LIST",
        default_value = "",
        hide_default_value = true,
        help_heading = "Scope"
    )]
    pub namespaces: Scope,

    /// Only manage Firebolt objects whose labels match, for example 'team=a,stage in (test,prod)' [default: all]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WATCH_LABEL_SELECTOR",
        hide_env_values = true,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true,
        help_heading = "Scope"
    )]
    pub(crate) watch_label_selector: LabelSelector,

    /// Number of concurrent reconciles per kind, from 1 to 1024
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WORKERS", hide_env_values = true,
        value_name = "COUNT",
        default_value_t = 8,
        value_parser = clap::value_parser!(u16).range(1..=1024),
        help_heading = "Controllers"
    )]
    pub workers: u16,

    /// How long a new generation may take to become ready before its engine reports `ProgressDeadlineExceeded`, for
    /// example 15m
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ROLLOUT_PROGRESS_DEADLINE", hide_env_values = true,
        value_name = "DURATION",
        default_value = "15m",
        value_parser = parse_progress_deadline,
        help_heading = "Engines"
    )]
    pub(crate) rollout_progress_deadline: Duration,

    /// How long after a switch gateways may still send queries to the old generation; its running queries are counted after
    /// that, for example 10s
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_SWITCH_NOTICE", hide_env_values = true,
        value_name = "DURATION",
        default_value = "10s",
        value_parser = parse_duration,
        help_heading = "Engines"
    )]
    pub(crate) switch_notice: Duration,

    /// How long after its grace period a pod may keep terminating before its engine starts a new generation, because its
    /// node may be lost, for example 10m; 0s turns it off
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LOST_POD_TIMEOUT", hide_env_values = true,
        value_name = "DURATION",
        default_value = "10m",
        value_parser = parse_duration,
        help_heading = "Engines"
    )]
    pub(crate) lost_pod_timeout: Duration,

    /// What engines do that another version of the operator rendered
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_UPGRADE_POLICY",
        hide_env_values = true,
        value_name = "POLICY",
        value_enum,
        default_value_t = UpgradePolicy::OnNextChange,
        help_heading = "Engines"
    )]
    pub(crate) upgrade_policy: UpgradePolicy,

    /// Number of engines that adopt the rendering of this version at the same time with --upgrade-policy=Rolling
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_UPGRADE_CONCURRENCY", hide_env_values = true,
        value_name = "COUNT",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1024),
        help_heading = "Engines"
    )]
    pub(crate) upgrade_concurrency: u16,

    /// Default image of engines, if neither the engine nor its class sets one
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ENGINE_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "ghcr.io/firebolt-db/engine:release-5.0.0-pre.0.20260815074041.524de236b514",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub engine_image: String,

    /// Image of the web UI sidecar of engines
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_UI_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "ghcr.io/firebolt-db/firebolt-core-ui:latest",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub ui_image: String,

    /// Default image of the metadata service of instances
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_METADATA_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "ghcr.io/firebolt-db/metadata:release-5.0.0-pre.0.20260815074041.524de236b514",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub metadata_image: String,

    /// Image of PostgreSQL in instances without spec.metadata.postgres
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_POSTGRES_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "postgres:16-alpine",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub postgres_image: String,

    /// Default image of the gateway of instances
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ENVOY_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "envoyproxy/envoy:v1.40.0",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub envoy_image: String,

    /// Image of the wake agent, the gateway sidecar that wakes stopped engines
    // The tag is not the version of the operator: it moves when the agent changes, and only then. Otherwise each new
    // version of the operator would make the pods of every gateway outdated.
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WAKE_AGENT_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "ghcr.io/firebolt-db/firebolt-wake-agent:0.1.0",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub wake_agent_image: String,

    /// Registry, with an optional path, that replaces the registry of the images above, for example
    /// mirror.example/firebolt
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_IMAGE_REGISTRY", hide_env_values = true,
        value_name = "REGISTRY",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub(crate) image_registry: Option<String>,

    /// Image pull secrets of all pods of engines and instances, separated by commas
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_IMAGE_PULL_SECRETS", hide_env_values = true,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = parse_object_name,
        help_heading = "Images"
    )]
    pub image_pull_secrets: Vec<String>,

    /// Maximum CPU request and limit of the engine container, for example 32 [default: no limit]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ENGINE_MAX_CPU",
        hide_env_values = true,
        value_name = "QUANTITY",
        default_value = "",
        hide_default_value = true,
        help_heading = "Engines"
    )]
    pub(crate) engine_max_cpu: Maximum,

    /// Maximum memory request and limit of the engine container, for example 256Gi [default: no limit]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ENGINE_MAX_MEMORY",
        hide_env_values = true,
        value_name = "QUANTITY",
        default_value = "",
        hide_default_value = true,
        help_heading = "Engines"
    )]
    pub(crate) engine_max_memory: Maximum,

    /// Maximum ephemeral storage request and limit of the engine container, for example 10Ti [default: no limit]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ENGINE_MAX_EPHEMERAL_STORAGE",
        hide_env_values = true,
        value_name = "QUANTITY",
        default_value = "",
        hide_default_value = true,
        help_heading = "Engines"
    )]
    pub(crate) engine_max_ephemeral_storage: Maximum,

    /// Address that serves /metrics; ':PORT' means all addresses, 0 turns it off
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_METRICS_BIND_ADDRESS",
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = ":8080",
        help_heading = "Endpoints"
    )]
    pub metrics_bind_address: ListenAddress,

    /// Address that serves /healthz and /readyz; ':PORT' means all addresses, 0 turns it off
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_HEALTH_PROBE_BIND_ADDRESS",
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = ":8081",
        help_heading = "Endpoints"
    )]
    pub health_probe_bind_address: ListenAddress,

    /// Address that serves the admission webhooks; ':PORT' means all addresses, 0 turns them off
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_BIND_ADDRESS",
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = ":9443",
        help_heading = "Admission"
    )]
    pub webhook_bind_address: ListenAddress,

    /// Directory with tls.crt and tls.key of the webhook server, reloaded when they change [default: the operator issues its
    /// own certificates]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_CERT_DIR",
        hide_env_values = true,
        value_name = "DIR",
        help_heading = "Admission"
    )]
    pub(crate) webhook_cert_dir: Option<PathBuf>,

    /// DNS names and IP addresses in the certificates that the operator issues, separated by commas [default: the DNS names of
    /// the Service firebolt-operator-webhook]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_HOSTS", hide_env_values = true,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = parse_host,
        help_heading = "Admission"
    )]
    pub(crate) webhook_hosts: Vec<String>,

    /// Secret for the certificates that the operator issues, shared by all replicas; in the namespace of the Lease
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_SECRET", hide_env_values = true,
        value_name = "NAME",
        default_value = "firebolt-operator-webhook",
        value_parser = parse_object_name,
        help_heading = "Admission"
    )]
    pub(crate) webhook_secret: String,

    /// Name of the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration whose caBundle the
    /// operator keeps up to date
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_CONFIGURATION", hide_env_values = true,
        value_name = "NAME",
        default_value = "firebolt-operator",
        value_parser = parse_object_name,
        help_heading = "Admission"
    )]
    pub(crate) webhook_configuration: String,

    /// Validity of the certificates that the operator issues, for example 2160h; they are rotated after two thirds of it
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_CERT_VALIDITY", hide_env_values = true,
        value_name = "DURATION",
        default_value = "2160h",
        value_parser = parse_certificate_validity,
        help_heading = "Admission"
    )]
    pub(crate) webhook_cert_validity: Duration,

    /// Use leader election; set --leader-elect=false only with a single replica
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LEADER_ELECT", hide_env_values = true,
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Leader election"
    )]
    pub(crate) leader_elect: bool,

    /// Name of the Lease for leader election; installations in one namespace need different names
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LEASE_NAME", hide_env_values = true,
        value_name = "NAME",
        default_value = "firebolt-operator",
        value_parser = parse_object_name,
        help_heading = "Leader election"
    )]
    pub(crate) lease_name: String,

    /// Namespace of the Lease and of the Secret of the webhook [default: the pod's own, or that of the kubeconfig context]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LEASE_NAMESPACE", hide_env_values = true,
        value_name = "NAMESPACE",
        value_parser = parse_namespace,
        help_heading = "Leader election"
    )]
    pub(crate) lease_namespace: Option<String>,

    /// How long after the last renewal by the leader another replica takes over, for example 15s or 1m
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LEASE_DURATION", hide_env_values = true,
        value_name = "DURATION",
        default_value = "15s",
        value_parser = parse_lease_duration,
        help_heading = "Leader election"
    )]
    pub(crate) lease_duration: Duration,

    /// Identity of this replica in the Lease [default: host name and a random suffix]
    #[arg(long, env = "FIREBOLT_OPERATOR_IDENTITY", hide_env_values = true, value_name = "NAME", help_heading = "Leader election",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub identity: Option<String>,

    /// How long a graceful shutdown may take
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_SHUTDOWN_TIMEOUT", hide_env_values = true,
        value_name = "DURATION",
        default_value = "10s",
        value_parser = parse_shutdown_timeout,
        help_heading = "Process"
    )]
    pub(crate) shutdown_timeout: Duration,

    /// Format of log lines [default: text on a terminal, json elsewhere]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LOG_FORMAT",
        hide_env_values = true,
        value_name = "FORMAT",
        help_heading = "Process"
    )]
    pub log_format: Option<LogFormat>,

    /// Log level: error, warn, info, debug or trace, or per module, for example `info,firebolt_runtime::leader=debug`
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LOG_LEVEL", hide_env_values = true,
        value_name = "FILTER",
        default_value = "info",
        value_parser = logs::parse_filter,
        help_heading = "Process"
    )]
    pub log_level: String,
}
