//! The command line. Each flag has an environment variable; a flag that is given wins over it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use firebolt_core::admit::Maximum;

use crate::logs;
use crate::settings::{
    ClusterDomain, LabelSelector, ListenAddress, Scope, parse_certificate_validity, parse_host, parse_image,
    parse_lease_duration, parse_namespace, parse_object_name, parse_progress_deadline, parse_shutdown_timeout,
};

/// Said by both help texts.
macro_rules! exit_codes {
    () => {
        "\
Exit codes:
  0  stopped on request (SIGTERM or SIGINT)
  1  could not start, or failed while running; a second signal while stopping
  2  a flag is unknown or has an unusable value
  3  leadership was lost; the process must be started again"
    };
}

const RUN_HELP: &str = concat!(
    "\
Examples:
  Inside a cluster, watching everything:
    firebolt-operator run
  From a workstation, two namespaces, one replica:
    firebolt-operator run --context staging --namespaces sales,finance --leader-elect=false
  Only objects of one team:
    firebolt-operator run --watch-label-selector 'team=data,stage in (test,prod)'

",
    exit_codes!()
);

/// Runs Firebolt on Kubernetes
///
/// Watches the Firebolt instances, engines and engine classes of a cluster, sets instances up, and rolls out every change
/// of an engine.
#[derive(Debug, Parser)]
#[command(name = "firebolt-operator", version, propagate_version = true, max_term_width = 110, after_help = exit_codes!())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator
    ///
    /// Runs until it is stopped. Several replicas may run: one leads, the others stand by.
    // A flag given twice: the last one counts, so that a wrapper can add to what it was given.
    #[command(after_help = RUN_HELP, args_override_self = true)]
    Run(Box<RunArguments>),
    /// Print the custom resource definitions as YAML
    ///
    /// Install or update them with: firebolt-operator crds | kubectl apply --server-side -f -
    Crds,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The flags of `run`, each parsed to its own type.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// File that says how to reach the cluster [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
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

    /// DNS domain under which Services of the cluster are found
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

    /// Only look at Firebolt objects whose labels match, as in 'team=a,stage in (test,prod)' [default: all]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WATCH_LABEL_SELECTOR",
        hide_env_values = true,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true,
        help_heading = "Scope"
    )]
    pub watch_label_selector: LabelSelector,

    /// How many objects of each kind are worked on at the same time
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WORKERS", hide_env_values = true,
        value_name = "COUNT",
        default_value_t = 8,
        value_parser = clap::value_parser!(u16).range(1..=1024),
        help_heading = "Scope"
    )]
    pub workers: u16,

    /// How long a new generation may take to become ready before the engine reports that it is stuck, as in 15m
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ROLLOUT_PROGRESS_DEADLINE", hide_env_values = true,
        value_name = "DURATION",
        default_value = "15m",
        value_parser = parse_progress_deadline,
        help_heading = "Engines"
    )]
    pub rollout_progress_deadline: Duration,

    /// Image of engines that name none, by themselves or through their class
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ENGINE_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "ghcr.io/firebolt-db/engine:release-5.0.0-pre.0.20260815074041.524de236b514",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub engine_image: String,

    /// Image of the web UI beside engines
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_UI_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "ghcr.io/firebolt-db/firebolt-core-ui:latest",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub ui_image: String,

    /// Image of the metadata service of instances that name none
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_METADATA_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "ghcr.io/firebolt-db/metadata:release-5.0.0-pre.0.20260815074041.524de236b514",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub metadata_image: String,

    /// Image of PostgreSQL in instances that bring none
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_POSTGRES_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "postgres:16-alpine",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub postgres_image: String,

    /// Image of the gateway of instances that name none
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ENVOY_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "envoyproxy/envoy:v1.40.0",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub envoy_image: String,

    /// Image of the agent beside every gateway that wakes stopped engines
    // The tag is not the version of the operator: it moves when the agent changes, and only then. Otherwise each new
    // version of the operator would roll out every gateway.
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WAKE_AGENT_IMAGE", hide_env_values = true,
        value_name = "IMAGE",
        default_value = "ghcr.io/firebolt-db/firebolt-wake-agent:0.1.0",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub wake_agent_image: String,

    /// Registry, with an optional path, that replaces the registry of the images above, as in mirror.example/firebolt
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_IMAGE_REGISTRY", hide_env_values = true,
        value_name = "REGISTRY",
        value_parser = parse_image,
        help_heading = "Images"
    )]
    pub image_registry: Option<String>,

    /// Secrets for pulling images that every pod of engines and instances gets, separated by commas
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_IMAGE_PULL_SECRETS", hide_env_values = true,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = parse_object_name,
        help_heading = "Images"
    )]
    pub image_pull_secrets: Vec<String>,

    /// Most CPU that the engine container of an engine may ask for, as in 32 [default: no limit]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ENGINE_MAX_CPU",
        hide_env_values = true,
        value_name = "QUANTITY",
        default_value = "",
        hide_default_value = true,
        help_heading = "Engines"
    )]
    pub engine_max_cpu: Maximum,

    /// Most memory that the engine container of an engine may ask for, as in 256Gi [default: no limit]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ENGINE_MAX_MEMORY",
        hide_env_values = true,
        value_name = "QUANTITY",
        default_value = "",
        hide_default_value = true,
        help_heading = "Engines"
    )]
    pub engine_max_memory: Maximum,

    /// Most ephemeral storage that the engine container of an engine may ask for, as in 10Ti [default: no limit]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_ENGINE_MAX_EPHEMERAL_STORAGE",
        hide_env_values = true,
        value_name = "QUANTITY",
        default_value = "",
        hide_default_value = true,
        help_heading = "Engines"
    )]
    pub engine_max_ephemeral_storage: Maximum,

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

    /// Address that answers the API server's questions about objects before they are stored; ':PORT' means all addresses,
    /// 0 turns it off
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_BIND_ADDRESS",
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = ":9443",
        help_heading = "Admission"
    )]
    pub webhook_bind_address: ListenAddress,

    /// Folder with tls.crt and tls.key to serve with; read again when they change [default: certificates of its own]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_CERT_DIR",
        hide_env_values = true,
        value_name = "FOLDER",
        help_heading = "Admission"
    )]
    pub webhook_cert_dir: Option<PathBuf>,

    /// Names and IP addresses that the API server calls the webhook by, separated by commas; its own certificates are for
    /// these [default: those of the Service firebolt-operator-webhook]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_HOSTS", hide_env_values = true,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = parse_host,
        help_heading = "Admission"
    )]
    pub webhook_hosts: Vec<String>,

    /// Secret that keeps its own certificates, for all replicas to serve the same; in the namespace of the Lease
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_SECRET", hide_env_values = true,
        value_name = "NAME",
        default_value = "firebolt-operator-webhook",
        value_parser = parse_object_name,
        help_heading = "Admission"
    )]
    pub webhook_secret: String,

    /// Name of the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration whose caBundle it keeps current
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_CONFIGURATION", hide_env_values = true,
        value_name = "NAME",
        default_value = "firebolt-operator",
        value_parser = parse_object_name,
        help_heading = "Admission"
    )]
    pub webhook_configuration: String,

    /// How long its own certificates are good for, as in 2160h; they are replaced after two thirds of that
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_WEBHOOK_CERT_VALIDITY", hide_env_values = true,
        value_name = "DURATION",
        default_value = "2160h",
        value_parser = parse_certificate_validity,
        help_heading = "Admission"
    )]
    pub webhook_cert_validity: Duration,

    /// Let only one of several replicas act at a time; '--leader-elect=false' if there is just one
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
    pub leader_elect: bool,

    /// Name of the Lease that replicas share; installations in one namespace need different names
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LEASE_NAME", hide_env_values = true,
        value_name = "NAME",
        default_value = "firebolt-operator",
        value_parser = parse_object_name,
        help_heading = "Leader election"
    )]
    pub lease_name: String,

    /// Namespace of the Lease and of the Secret of the webhook [default: the pod's own, or that of the kubeconfig context]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LEASE_NAMESPACE", hide_env_values = true,
        value_name = "NAMESPACE",
        value_parser = parse_namespace,
        help_heading = "Leader election"
    )]
    pub lease_namespace: Option<String>,

    /// How long after the last sign of life of a leader another replica takes over, as in 15s or 1m
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LEASE_DURATION", hide_env_values = true,
        value_name = "DURATION",
        default_value = "15s",
        value_parser = parse_lease_duration,
        help_heading = "Leader election"
    )]
    pub lease_duration: Duration,

    /// Name of this replica in the Lease [default: host name and a random suffix]
    #[arg(long, env = "FIREBOLT_OPERATOR_IDENTITY", hide_env_values = true, value_name = "NAME", help_heading = "Leader election",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub identity: Option<String>,

    /// How long stopping may take before the process gives up waiting
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_SHUTDOWN_TIMEOUT", hide_env_values = true,
        value_name = "DURATION",
        default_value = "10s",
        value_parser = parse_shutdown_timeout,
        help_heading = "Process"
    )]
    pub shutdown_timeout: Duration,

    /// Form of log lines [default: text on a terminal, json elsewhere]
    #[arg(
        long,
        env = "FIREBOLT_OPERATOR_LOG_FORMAT",
        hide_env_values = true,
        value_name = "FORMAT",
        help_heading = "Process"
    )]
    pub log_format: Option<LogFormat>,

    /// What to log: error, warn, info, debug or trace, or per module as in `info,firebolt_operator::leader=debug`
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

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
