//! The certificate controller, which runs on the leader: issues and rotates the certificate in the Secret, and keeps every
//! `caBundle` current.

use std::time::Duration;

use firebolt_runtime::backoff::WatchBackoff;
use firebolt_runtime::leader::Leadership;
use firebolt_runtime::reconciler::DriftLimiter;
use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, debug, error_span, info, warn};

use super::apply::{CertificateWriteError, CertificateWriter};
use super::certificate::Hosts;
use super::issue::{IssueError, Issued, issue};
use super::rotation::{InjectedBundles, PropagationTimer, RotationPolicy, RotationStep, next_step};
use super::secret::SecretData;
use super::watched::{MAX_BACKOFF, WatchedObject};
use super::webhook_configuration::{WebhookConfiguration, WebhookType};
use crate::settings::CertificateSettings;

/// Limit on a wait. Waiting is measured by the monotonic clock and certificates by the wall clock, which can be set.
const MAX_WAIT: Duration = Duration::from_hours(1);

/// Issues and rotates the certificate in the Secret, and keeps the `caBundle` of both configurations current. Ends after
/// `stop`.
pub async fn run_controller(
    client: Client,
    settings: CertificateSettings,
    leadership: Leadership,
    stop: CancellationToken,
) {
    let events = watch(&client, &settings);
    let controller = CertificateController::new(&client, settings, leadership);
    // A write may be interrupted: it names the version that was read, so it cannot undo a write of the next leader.
    stop.run_until_cancelled(Box::pin(controller.run(events))).await;
}

enum WatchEvent {
    Secret(Box<watcher::Result<Option<Secret>>>),
    Configuration(WebhookType, watcher::Result<Option<WebhookConfiguration>>),
}

fn watch(client: &Client, settings: &CertificateSettings) -> SelectAll<BoxStream<'static, WatchEvent>> {
    let backoff = || WatchBackoff::up_to(MAX_BACKOFF);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &settings.namespace);
    let secrets = watch_object(secrets, &settings.secret).backoff(backoff());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let validating = watch_object(validating, &settings.configuration).backoff(backoff());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let mutating = watch_object(mutating, &settings.configuration).backoff(backoff());
    let configuration = WatchEvent::Configuration;
    select_all([
        secrets.map(|event| WatchEvent::Secret(Box::new(event))).boxed(),
        validating
            .map(move |event| configuration(WebhookType::Validating, event.map(|object| object.map(<_>::from))))
            .boxed(),
        mutating
            .map(move |event| configuration(WebhookType::Mutating, event.map(|object| object.map(<_>::from))))
            .boxed(),
    ])
}

#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Write(CertificateWriteError),
    #[error("{source}")]
    Inject {
        kind: &'static str,
        source: CertificateWriteError,
    },
    #[error(transparent)]
    Issue(IssueError),
}

struct CertificateController {
    writer: CertificateWriter,
    settings: CertificateSettings,
    policy: RotationPolicy,
    secret: WatchedObject<Secret>,
    data: SecretData,
    configurations: [WatchedObject<WebhookConfiguration>; 2],
    /// Which configurations were reported as missing.
    reported_missing: [bool; 2],
    timer: PropagationTimer,
    backoff: WatchBackoff,
    retry_at: Option<Instant>,
    /// Limits how often the bundle is injected.
    drift: DriftLimiter,
    /// Whether it was reported that another client changes the bundle too.
    reported_drift: bool,
    /// The failure that was logged last: each is logged once and not at every attempt.
    reported: Option<String>,
}

impl CertificateController {
    fn new(client: &Client, settings: CertificateSettings, leadership: Leadership) -> Self {
        let name = &settings.configuration;
        Self {
            writer: CertificateWriter::new(client, &settings, leadership),
            policy: RotationPolicy::new(Hosts::new(&settings.hosts), settings.validity),
            secret: WatchedObject::new("Secret", &settings.namespace, &settings.secret),
            data: SecretData::default(),
            configurations: WebhookType::BOTH.map(|webhook_type| WatchedObject::new(webhook_type.kind(), "", name)),
            settings,
            reported_missing: [false; 2],
            timer: PropagationTimer::default(),
            backoff: WatchBackoff::up_to(MAX_BACKOFF),
            retry_at: None,
            drift: DriftLimiter::default(),
            reported_drift: false,
            reported: None,
        }
    }

    async fn run(mut self, mut events: SelectAll<BoxStream<'static, WatchEvent>>) {
        loop {
            // Handle all pending events before the next step is decided.
            while let Some(Some(event)) = events.next().now_or_never() {
                self.observe(event);
            }
            let step = self.next_step();
            let wake_at = match (&step, self.retry_at) {
                (RotationStep::WaitForSync, _) => Instant::now() + MAX_WAIT,
                (RotationStep::Wait(wait), _) => Instant::now() + (*wait).min(MAX_WAIT),
                (
                    RotationStep::IssueFirst(_)
                    | RotationStep::IssueNext(_)
                    | RotationStep::UpdateSecret(_)
                    | RotationStep::InjectBundle,
                    retry_at,
                ) => {
                    let Some(retry_at) = retry_at.filter(|at| Instant::now() < *at) else {
                        let span = self.span(&step);
                        self.reconcile(step).instrument(span).await;
                        continue;
                    };
                    retry_at
                }
            };
            tokio::select! {
                () = sleep_until(wake_at) => {}
                Some(event) = events.next() => self.observe(event),
            }
        }
    }

    fn observe(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Secret(event) => {
                self.secret.observe(*event);
                self.data = SecretData::parse(self.secret.get());
            }
            WatchEvent::Configuration(webhook_type, event) => {
                self.configurations[webhook_type as usize].observe(event);
                self.report_missing(webhook_type);
            }
        }
    }

    fn report_missing(&mut self, webhook_type: WebhookType) {
        let (kind, name) = (webhook_type.kind(), &self.settings.configuration);
        let watched = &self.configurations[webhook_type as usize];
        let reported = &mut self.reported_missing[webhook_type as usize];
        if watched.is_absent() && !*reported {
            warn!(
                kind,
                name,
                "webhook configuration not found, so the API server does not call this webhook: apply deploy/webhooks.yaml"
            );
            *reported = true;
        } else if watched.get().is_some() && *reported {
            info!(kind, name, "webhook configuration found");
            *reported = false;
        }
    }

    fn next_step(&mut self) -> RotationStep {
        if !self.secret.is_synced() {
            return RotationStep::WaitForSync;
        }
        let injected = self.configurations.each_ref().map(|watched| match watched.get() {
            Some(configuration) => configuration.injected(),
            None if watched.is_absent() => InjectedBundles::Absent,
            None => InjectedBundles::Unknown,
        });
        let propagated_for = self.timer.update(&self.data.bundle, &injected, Instant::now());
        next_step(&self.data, &injected, propagated_for, &self.policy, Timestamp::now())
    }

    /// Every line of a step names the object. Lines about a webhook configuration add the kind, of which there are two.
    fn span(&self, step: &RotationStep) -> Span {
        let CertificateSettings {
            namespace,
            secret,
            configuration,
            ..
        } = &self.settings;
        let reconcile_id = format!("{:016x}", fastrand::u64(..));
        match step {
            RotationStep::InjectBundle => error_span!("reconcile", name = configuration, reconcile_id),
            RotationStep::WaitForSync
            | RotationStep::Wait(_)
            | RotationStep::IssueFirst(_)
            | RotationStep::IssueNext(_)
            | RotationStep::UpdateSecret(_) => {
                error_span!("reconcile", kind = "Secret", namespace, name = secret, reconcile_id)
            }
        }
    }

    async fn reconcile(&mut self, step: RotationStep) {
        self.retry_at = None;
        match self.perform(step).await {
            Ok(()) => {
                if self.reported.take().is_some() {
                    let CertificateSettings { namespace, secret, .. } = &self.settings;
                    info!(
                        kind = "Secret",
                        namespace,
                        name = secret,
                        "certificate controller recovered"
                    );
                }
            }
            Err(error) => {
                self.retry_at = self.backoff.next().map(|pause| Instant::now() + pause);
                self.report(&error);
            }
        }
    }

    async fn perform(&mut self, step: RotationStep) -> Result<(), StepError> {
        match step {
            RotationStep::WaitForSync | RotationStep::Wait(_) => Ok(()),
            RotationStep::IssueFirst(keep) => {
                let data = SecretData::initial(self.issue()?, keep);
                self.write_secret(data, "issued the serving certificate").await
            }
            RotationStep::IssueNext(keep) => {
                let data = self.data.with_next(self.issue()?, keep);
                self.write_secret(data, "issued the next serving certificate").await
            }
            RotationStep::UpdateSecret(data) => self.write_secret(*data, "updated the serving certificate").await,
            RotationStep::InjectBundle => self.inject_bundle().await,
        }
    }

    fn issue(&self) -> Result<Issued, StepError> {
        issue(&self.policy.hosts, self.policy.validity, Timestamp::now()).map_err(StepError::Issue)
    }

    async fn write_secret(&mut self, data: SecretData, message: &str) -> Result<(), StepError> {
        let written = self.writer.write_secret(&data, self.secret.get()).await;
        let written = written.map_err(StepError::Write)?;
        self.data = SecretData::parse(Some(&written));
        self.secret.set(written);
        let latest = self.data.next.as_ref().or(self.data.current.as_ref());
        info!(expires = latest.map(|pair| pair.expires().to_string()), "{message}");
        Ok(())
    }

    /// Writes both configurations, also if the first write fails. Returns the last failure.
    async fn inject_bundle(&mut self) -> Result<(), StepError> {
        let bundle = self.data.bundle.to_pem();
        let mut result = Ok(());
        let mut kind = None;
        for webhook_type in WebhookType::BOTH {
            let watched = &mut self.configurations[webhook_type as usize];
            let outdated = watched
                .get()
                .filter(|configuration| !configuration.injected().are(&bundle));
            let Some(configuration) = outdated else { continue };
            kind = Some(webhook_type.kind());
            match self.writer.inject_bundle(webhook_type, configuration, &bundle).await {
                Ok(written) => {
                    watched.set(written);
                    info!(kind = webhook_type.kind(), "updated caBundle");
                }
                Err(source) => {
                    let kind = webhook_type.kind();
                    result = Err(StepError::Inject { kind, source });
                }
            }
        }
        let Some(kind) = kind else { return result };
        // Two clients that correct each other would otherwise write without a pause.
        let pause = self.drift.delay();
        self.drift.corrected();
        if let Some(pause) = pause {
            self.retry_at = Some(Instant::now() + pause);
            if !self.reported_drift {
                self.reported_drift = true;
                warn!(
                    kind,
                    "another client keeps changing caBundle: let only one installation and no other tool write it; \
                     --webhook-configuration sets the name for each installation"
                );
            }
        }
        result
    }

    fn report(&mut self, error: &StepError) {
        let (kind, remedy) = match error {
            StepError::Write(error) => ("Secret", error.remedy()),
            StepError::Inject { kind, source } => (*kind, source.remedy()),
            StepError::Issue(_) => ("Secret", Some("Check --webhook-hosts and --webhook-cert-validity.")),
        };
        let Some(remedy) = remedy else {
            debug!(kind, "cannot {error}");
            return;
        };
        let text = format!("cannot {error}. {remedy}");
        if self.reported.as_ref() != Some(&text) {
            warn!(kind, "{text}");
        }
        self.reported = Some(text);
    }
}
