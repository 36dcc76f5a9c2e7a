//! The settings of the process, and the parsers of their values.

mod images;
mod listen;
mod names;
mod scope;
mod selector;

use std::path::PathBuf;
use std::time::Duration;

use firebolt_core::admit::Bounds;
use firebolt_core::resolve::Defaults;

pub(crate) use self::images::from_registry;
pub(crate) use self::images::parse_image;
pub use self::listen::ListenAddress;
pub use self::names::ClusterDomain;
pub(crate) use self::names::is_dns_subdomain;
pub(crate) use self::names::{parse_host, parse_object_name};
pub(crate) use self::scope::parse_namespace;
pub use self::scope::{Scope, ScopeError};
pub use self::selector::{LabelSelector, SelectorError};

const SHORTEST_VALIDITY: Duration = Duration::from_secs(6);
/// Ten years.
const LONGEST_VALIDITY: Duration = Duration::from_hours(87_600);

/// The settings of the process. Nothing is left open.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which namespaces are watched.
    pub scope: Scope,
    /// Which of the three kinds' objects are watched.
    pub selector: LabelSelector,
    /// The defaults of engines and instances.
    pub defaults: Defaults,
    /// The limits on the resources of engines.
    pub bounds: Bounds,
    /// How long a generation may take to become ready before that is reported.
    pub(crate) rollout_progress_deadline: Duration,
    /// How long gateways may send queries to the old generation after a switch.
    pub(crate) switch_notice: Duration,
    /// How long after its grace period a terminating pod counts as lost; zero if it never does.
    pub(crate) lost_pod_timeout: Duration,
    /// Whether engines adopt the rendering of this version of the operator by themselves.
    pub(crate) upgrades: Upgrades,
    /// Number of concurrent reconciles per kind.
    pub workers: u16,
    /// The name of this replica.
    pub identity: String,
    /// Where the certificates of the webhook come from; none if it is off.
    pub certificates: Option<Certificates>,
    /// The Lease for leader election; none if this is the only replica.
    pub lease: Option<LeaseSettings>,
    /// How long stopping may take.
    pub(crate) shutdown_timeout: Duration,
}

/// What `--upgrade-policy` and `--upgrade-concurrency` determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrades {
    /// An engine adopts the rendering of this version of the operator with its next change.
    OnNextChange,
    /// So many engines at a time adopt it by themselves.
    Rolling {
        /// How many.
        concurrency: u16,
    },
}

/// Where the certificates of the webhook come from.
#[derive(Clone, Debug)]
pub enum Certificates {
    /// Supplied by the user, in a folder.
    Supplied(PathBuf),
    /// Issued by the operator.
    Own(CertificateSettings),
}

/// Where issued certificates are stored and what they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSettings {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// The name of the `ValidatingWebhookConfiguration` and of the `MutatingWebhookConfiguration`.
    pub configuration: String,
    /// DNS names and IP addresses of the certificate.
    pub hosts: Vec<String>,
    /// How long a certificate is valid.
    pub validity: Duration,
}

/// The Lease that replicas share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The lease duration.
    pub duration: Duration,
}

/// The environment of the process, for flags that are not given.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The namespace of the pod or of the kubeconfig context.
    pub namespace: String,
    /// The name of the node or pod.
    pub host_name: String,
    /// Distinguishes this process from others with the same host name.
    pub nonce: u32,
}

/// The value parser of `--lease-duration`: a Lease has whole seconds, and shorter ones leave no time to renew.
pub(crate) fn parse_lease_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.subsec_nanos() != 0 || !(2..=3600).contains(&duration.as_secs()) {
        return Err(format!("{text:?} is out of range: use whole seconds, from 2s to 1h"));
    }
    Ok(duration)
}

/// The value parser of `--webhook-cert-validity`: below some seconds there is no time to replace a certificate.
pub(crate) fn parse_certificate_validity(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if !(SHORTEST_VALIDITY..=LONGEST_VALIDITY).contains(&duration) {
        return Err(format!("{text:?} is out of range: use 6s to 87600h, as in 2160h"));
    }
    Ok(duration)
}

/// The value parser of `--shutdown-timeout`: without any time, every stop fails.
pub(crate) fn parse_shutdown_timeout(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() {
        return Err(format!(
            "{text:?} leaves no time to stop: use more than zero, as in 10s"
        ));
    }
    Ok(duration)
}

/// The value parser of `--rollout-progress-deadline`: below a second, every rollout is stuck.
pub(crate) fn parse_progress_deadline(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration < Duration::from_secs(1) {
        return Err(format!("{text:?} is too short: use at least 1s, as in 15m"));
    }
    Ok(duration)
}

/// The value parser of durations that may be zero.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    text.parse::<firebolt_api::Duration>()
        .map(|duration| duration.get())
        .map_err(|error| error.to_string())
}
