//! A client that connects all the time, like an API server that learns of a new CA bundle late.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use rustls::RootCertStore;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::support::tls::{self, connect};

/// The shortest settling time: no client has to trust data that is older than this.
const SETTLING: Duration = Duration::from_secs(1);
/// How old the knowledge of the client is at least.
const AGE: Duration = Duration::from_millis(500);
/// Rotations of certificates that are valid for seconds, on a busy machine.
const LONGEST_WAIT: Duration = Duration::from_mins(3);

/// What the client has seen so far.
#[derive(Clone, Debug, Default)]
struct Findings {
    certificates: Vec<BTreeSet<Vec<u8>>>,
    connections: u32,
    failures: Vec<String>,
}

/// The client. It ends when it is dropped.
pub(super) struct Probe {
    findings: watch::Receiver<Findings>,
    task: AbortHandle,
}

impl Probe {
    /// Starts to connect to each of the addresses in turn.
    pub(super) fn start(api: Api<ValidatingWebhookConfiguration>, name: String, addresses: Vec<SocketAddr>) -> Self {
        let findings = Findings {
            certificates: vec![BTreeSet::new(); addresses.len()],
            ..Findings::default()
        };
        let (sender, findings) = watch::channel(findings);
        let task = tokio::spawn(async move {
            loop {
                connect_to_all(&api, &name, &addresses, &sender).await;
            }
        });
        Self {
            findings,
            task: task.abort_handle(),
        }
    }

    /// Waits until each server has shown so many certificates.
    pub(super) async fn wait_for_certificates(&self, count: usize) {
        let mut findings = self.findings.clone();
        let enough = |findings: &Findings| findings.certificates.iter().all(|seen| seen.len() >= count);
        let waited = timeout(LONGEST_WAIT, findings.wait_for(enough)).await.is_ok();
        assert!(
            waited,
            "not {count} certificates within {LONGEST_WAIT:?}: {:?}",
            self.summary()
        );
    }

    /// Fails if any connection did.
    pub(super) fn assert_trusted(&self) {
        let (connections, failures) = self.summary();
        println!("{connections} connections");
        assert!(connections > 0);
        assert!(failures.is_empty(), "{failures:?}");
    }

    fn summary(&self) -> (u32, Vec<String>) {
        let findings = self.findings.borrow();
        (findings.connections, findings.failures.clone())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connect_to_all(
    api: &Api<ValidatingWebhookConfiguration>,
    name: &str,
    addresses: &[SocketAddr],
    findings: &watch::Sender<Findings>,
) {
    let asked = Instant::now();
    let trusted = trusted(&api.get(name).await.unwrap());
    sleep(AGE).await;
    for (index, address) in addresses.iter().enumerate() {
        let connected = connect(&trusted, *address).await;
        // A client whose data is older than the settling time need not be served.
        if asked.elapsed() >= SETTLING {
            return;
        }
        findings.send_modify(|findings| match connected {
            Ok(certificate) => {
                findings.connections += 1;
                findings.certificates[index].insert(certificate);
            }
            Err(error) => findings.failures.push(error),
        });
    }
}

/// What the webhooks trust.
fn trusted(configuration: &ValidatingWebhookConfiguration) -> RootCertStore {
    let webhook = &configuration.webhooks.as_ref().unwrap()[0];
    let bundle = webhook.client_config.ca_bundle.as_ref();
    tls::trusted(bundle.map_or(&[][..], |bundle| &bundle.0))
}
