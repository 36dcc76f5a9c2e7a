//! From the flags of `run` to the settings of the process.

use firebolt_core::admit::Bounds;
use firebolt_core::resolve::Defaults;

use super::RunArguments;
use super::run_arguments::UpgradePolicy;
use crate::settings::{
    CertificateSettings, Certificates, ClusterDomain, Environment, LeaseSettings, ListenAddress, Settings, Upgrades,
    from_registry,
};

/// The Service of the webhook in `deploy/webhooks.yaml`.
const WEBHOOK_SERVICE: &str = "firebolt-operator-webhook";

impl RunArguments {
    /// The settings: what the flags leave open follows from the environment.
    #[must_use]
    pub fn into_settings(self, environment: Environment) -> Settings {
        let Environment {
            namespace,
            host_name,
            nonce,
        } = environment;
        let namespace = self.lease_namespace.unwrap_or(namespace);
        let certificates = || match self.webhook_cert_dir {
            Some(folder) => Certificates::Supplied(folder),
            None => Certificates::Own(CertificateSettings {
                hosts: match self.webhook_hosts {
                    hosts if hosts.is_empty() => webhook_hosts(&namespace, &self.cluster_domain),
                    hosts => hosts,
                },
                namespace: namespace.clone(),
                secret: self.webhook_secret,
                configuration: self.webhook_configuration,
                validity: self.webhook_cert_validity,
            }),
        };
        let certificates = (self.webhook_bind_address != ListenAddress::Off).then(certificates);
        let lease = self.leader_elect.then_some(LeaseSettings {
            namespace,
            name: self.lease_name,
            duration: self.lease_duration,
        });
        let image = |image: &str| from_registry(image, self.image_registry.as_deref());
        Settings {
            scope: self.namespaces,
            selector: self.watch_label_selector,
            defaults: Defaults {
                engine_image: image(&self.engine_image),
                ui_image: image(&self.ui_image),
                postgres_image: image(&self.postgres_image),
                metadata_image: image(&self.metadata_image),
                envoy_image: image(&self.envoy_image),
                wake_agent_image: image(&self.wake_agent_image),
                image_pull_secrets: self.image_pull_secrets,
                cluster_domain: self.cluster_domain.to_string(),
            },
            bounds: Bounds {
                cpu: self.engine_max_cpu,
                memory: self.engine_max_memory,
                ephemeral_storage: self.engine_max_ephemeral_storage,
            },
            rollout_progress_deadline: self.rollout_progress_deadline,
            switch_notice: self.switch_notice,
            lost_pod_timeout: self.lost_pod_timeout,
            upgrades: match self.upgrade_policy {
                UpgradePolicy::OnNextChange => Upgrades::OnNextChange,
                UpgradePolicy::Rolling => Upgrades::Rolling {
                    concurrency: self.upgrade_concurrency,
                },
            },
            workers: self.workers,
            identity: self.identity.unwrap_or_else(|| format!("{host_name}-{nonce:08x}")),
            certificates,
            lease,
            shutdown_timeout: self.shutdown_timeout,
        }
    }
}

/// The names of the Service of the webhook.
fn webhook_hosts(namespace: &str, cluster_domain: &ClusterDomain) -> Vec<String> {
    let host = format!("{WEBHOOK_SERVICE}.{namespace}.svc");
    vec![format!("{host}.{cluster_domain}"), host]
}
