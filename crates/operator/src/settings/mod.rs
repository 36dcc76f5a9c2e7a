//! The flags of `run` turned into what the parts of the process work with.

mod images;
mod listen;
mod names;
mod scope;
mod selector;

use std::time::Duration;

use firebolt_core::admit::Bounds;
use firebolt_core::resolve::Defaults;

pub use self::images::parse_image;
pub use self::listen::ListenAddress;
pub use self::names::{ClusterDomain, parse_object_name};
pub use self::scope::{Scope, ScopeError, parse_namespace};
pub use self::selector::{LabelSelector, SelectorError};
use crate::cli::RunArguments;

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
    /// How to share the work; none if this is the only replica.
    pub lease: Option<LeaseSettings>,
    /// How long stopping may take.
    pub shutdown_timeout: Duration,
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
        let lease = arguments.leader_elect.then(|| LeaseSettings {
            namespace: arguments.lease_namespace.unwrap_or(namespace),
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
