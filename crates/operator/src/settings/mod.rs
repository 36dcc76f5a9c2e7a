//! The flags of `run` turned into what the parts of the process work with.

mod images;
mod listen;
mod names;
mod scope;
mod selector;

use std::path::PathBuf;
use std::time::Duration;

use firebolt_core::admit::Bounds;
use firebolt_core::resolve::Defaults;

pub use self::images::parse_image;
pub use self::listen::ListenAddress;
pub use self::names::{ClusterDomain, parse_host, parse_object_name};
pub(crate) use self::names::{is_dns_label, is_dns_subdomain};
pub use self::scope::{Scope, ScopeError, parse_namespace};
pub use self::selector::{LabelSelector, SelectorError};
use crate::cli::RunArguments;
use crate::webhook::certificates::CertificateSettings;

/// The Service of the webhook in `deploy/webhooks.yaml`.
const WEBHOOK_SERVICE: &str = "firebolt-operator-webhook";
const SHORTEST_VALIDITY: Duration = Duration::from_secs(6);
/// Ten years.
const LONGEST_VALIDITY: Duration = Duration::from_hours(87_600);

/// What controllers and watches need to know. Everything that is still open on the command line is decided here.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which namespaces are watched.
    pub scope: Scope,
    /// Which of the three kinds' objects are watched.
    pub selector: LabelSelector,
    /// What engines and instances get that nobody says anything about.
    pub defaults: Defaults,
    /// The most that engines may ask for.
    pub bounds: Bounds,
    /// How long a generation may take to become ready before that is reported.
    pub rollout_progress_deadline: Duration,
    /// How many objects of each kind are worked on at the same time.
    pub workers: u16,
    /// The name of this replica.
    pub identity: String,
    /// Where the certificates of the webhook come from; none if it is off.
    pub certificates: Option<Certificates>,
    /// How to share the work; none if this is the only replica.
    pub lease: Option<LeaseSettings>,
    /// How long stopping may take.
    pub shutdown_timeout: Duration,
}

/// Where the certificates of the webhook come from.
#[derive(Clone, Debug)]
pub enum Certificates {
    /// Somebody supplies them in a folder.
    Supplied(PathBuf),
    /// The operator makes them.
    Own(CertificateSettings),
}

/// The Lease that replicas share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How long it is good for after a renewal.
    pub duration: Duration,
}

/// What the flags may leave to the surroundings of the process.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The namespace of the pod or of the kubeconfig context.
    pub namespace: String,
    /// The name of the machine or pod.
    pub host_name: String,
    /// Sets this process apart from others of the same host name.
    pub nonce: u32,
}

impl Settings {
    /// Fills what the flags left open.
    #[must_use]
    pub fn resolve(arguments: RunArguments, surroundings: Surroundings) -> Self {
        let Surroundings {
            namespace,
            host_name,
            nonce,
        } = surroundings;
        let namespace = arguments.lease_namespace.unwrap_or(namespace);
        let certificates = || match arguments.webhook_cert_dir {
            Some(folder) => Certificates::Supplied(folder),
            None => Certificates::Own(CertificateSettings {
                hosts: match arguments.webhook_hosts {
                    hosts if hosts.is_empty() => webhook_hosts(&namespace, &arguments.cluster_domain),
                    hosts => hosts,
                },
                namespace: namespace.clone(),
                secret: arguments.webhook_secret,
                configuration: arguments.webhook_configuration,
                validity: arguments.webhook_cert_validity,
            }),
        };
        let certificates = (arguments.webhook_bind_address != ListenAddress::Off).then(certificates);
        let lease = arguments.leader_elect.then_some(LeaseSettings {
            namespace,
            name: arguments.lease_name,
            duration: arguments.lease_duration,
        });
        let image = |image: &str| images::from_registry(image, arguments.image_registry.as_deref());
        Self {
            scope: arguments.namespaces,
            selector: arguments.watch_label_selector,
            defaults: Defaults {
                engine_image: image(&arguments.engine_image),
                ui_image: image(&arguments.ui_image),
                postgres_image: image(&arguments.postgres_image),
                metadata_image: image(&arguments.metadata_image),
                envoy_image: image(&arguments.envoy_image),
                wake_agent_image: image(&arguments.wake_agent_image),
                image_pull_secrets: arguments.image_pull_secrets,
                cluster_domain: arguments.cluster_domain.to_string(),
            },
            bounds: Bounds {
                cpu: arguments.engine_max_cpu,
                memory: arguments.engine_max_memory,
                ephemeral_storage: arguments.engine_max_ephemeral_storage,
            },
            rollout_progress_deadline: arguments.rollout_progress_deadline,
            workers: arguments.workers,
            identity: arguments.identity.unwrap_or_else(|| format!("{host_name}-{nonce:08x}")),
            certificates,
            lease,
            shutdown_timeout: arguments.shutdown_timeout,
        }
    }
}

/// The value parser of `--lease-duration`: a Lease counts whole seconds, and shorter ones leave no time to renew.
pub fn parse_lease_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.subsec_nanos() != 0 || !(2..=3600).contains(&duration.as_secs()) {
        return Err(format!("{text:?} is out of range: use whole seconds, from 2s to 1h"));
    }
    Ok(duration)
}

/// The names under which the API server finds the Service of the webhook.
fn webhook_hosts(namespace: &str, cluster_domain: &ClusterDomain) -> Vec<String> {
    let host = format!("{WEBHOOK_SERVICE}.{namespace}.svc");
    vec![format!("{host}.{cluster_domain}"), host]
}

/// The value parser of `--webhook-cert-validity`: below some seconds there would be no time to replace a certificate.
pub fn parse_certificate_validity(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if !(SHORTEST_VALIDITY..=LONGEST_VALIDITY).contains(&duration) {
        return Err(format!("{text:?} is out of range: use 6s to 87600h, as in 2160h"));
    }
    Ok(duration)
}

/// The value parser of `--shutdown-timeout`: with no time at all, every stop would be a failure.
pub fn parse_shutdown_timeout(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() {
        return Err(format!(
            "{text:?} leaves no time to stop: use more than zero, as in 10s"
        ));
    }
    Ok(duration)
}

/// The value parser of `--rollout-progress-deadline`: below a second, every rollout would count as stuck.
pub fn parse_progress_deadline(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration < Duration::from_secs(1) {
        return Err(format!("{text:?} is too short: use at least 1s, as in 15m"));
    }
    Ok(duration)
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    text.parse::<firebolt_api::Duration>()
        .map(|duration| duration.get())
        .map_err(|error| error.to_string())
}
