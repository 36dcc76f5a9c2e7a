//! The leader's part: makes and rotates the pair in the Secret, and keeps every `caBundle` current.

use std::time::Duration;

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
use tracing::{debug, info, warn};

use super::CertificateSettings;
use super::apply::{WriteError, Writer};
use super::configurations::{Configuration, Which};
use super::content::Content;
use super::material::Hosts;
use super::mint::{MintError, Minted, mint};
use super::rotation::{Holding, Seen, Step, Wanted, decide};
use crate::backoff::RetryBackoff;
use crate::leader::Term;
use crate::queue::Repairs;
use crate::settings::LabelSelector;
use crate::watches::{Incidents, Trouble};

/// The longest pause after a failure.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Rest is measured by one clock and certificates by another, which people set: now and then they are compared.
const LONGEST_REST: Duration = Duration::from_hours(1);

/// Makes and rotates the pair in the Secret, and keeps `caBundle` of both configurations current. Ends after `stop`.
pub async fn look_after(client: Client, settings: CertificateSettings, term: Term, stop: CancellationToken) {
    let sights = sights(&client, &settings);
    let keeper = Keeper::new(&client, settings, term);
    // A request may be cut off: each is made on the version that was read, so that the next leader's cannot be undone.
    stop.run_until_cancelled(Box::pin(keeper.run(sights))).await;
}

enum Sight {
    Secret(Box<watcher::Result<Option<Secret>>>),
    Configuration(Which, watcher::Result<Option<Configuration>>),
}

fn sights(client: &Client, settings: &CertificateSettings) -> SelectAll<BoxStream<'static, Sight>> {
    let pauses = || RetryBackoff::up_to(LONGEST_PAUSE);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &settings.namespace);
    let secrets = watch_object(secrets, &settings.secret).backoff(pauses());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let validating = watch_object(validating, &settings.configuration).backoff(pauses());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let mutating = watch_object(mutating, &settings.configuration).backoff(pauses());
    select_all([
        secrets.map(|seen| Sight::Secret(Box::new(seen))).boxed(),
        validating
            .map(|seen| Sight::Configuration(Which::Validating, seen.map(|seen| seen.map(Configuration::from))))
            .boxed(),
        mutating
            .map(|seen| Sight::Configuration(Which::Mutating, seen.map(|seen| seen.map(Configuration::from))))
            .boxed(),
    ])
}

/// What is known of an object.
enum View<K> {
    Unknown,
    Absent,
    There(K),
}

/// An object that is watched.
struct Watched<K> {
    view: View<K>,
    incidents: Incidents,
}

impl<K> Watched<K> {
    fn new() -> Self {
        Self {
            view: View::Unknown,
            incidents: Incidents::with_pauses_up_to(LONGEST_PAUSE),
        }
    }

    /// Takes in what a watch says. A failure is no absence.
    fn take(&mut self, sight: watcher::Result<Option<K>>, subject: &str) {
        match sight {
            Ok(seen) => {
                self.view = seen.map_or(View::Absent, View::There);
                if self.incidents.end() {
                    info!("can watch {subject} now");
                }
            }
            Err(error) => {
                let trouble = Trouble::of(&error, &LabelSelector::default());
                if self.incidents.is_news(&trouble, Instant::now()) {
                    warn!(
                        "cannot watch {subject}: {}. Check that the API server is reachable, and that get, list and watch on \
                         it are granted (deploy/rbac.yaml does).",
                        trouble.cause()
                    );
                }
            }
        }
    }

    fn wrote(&mut self, written: K) {
        self.view = View::There(written);
    }

    fn there(&self) -> Option<&K> {
        match &self.view {
            View::There(object) => Some(object),
            View::Unknown | View::Absent => None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Write(WriteError),
    #[error(transparent)]
    Mint(MintError),
}

struct Keeper {
    writer: Writer,
    settings: CertificateSettings,
    wanted: Wanted,
    secret: Watched<Secret>,
    content: Content,
    configurations: [Watched<Configuration>; 2],
    /// Which configurations were told to be missing.
    told_missing: [bool; 2],
    holding: Holding,
    pauses: RetryBackoff,
    retry_at: Option<Instant>,
    /// How often whom to trust was written lately.
    repairs: Repairs,
    /// Whether it was told that somebody else writes it too.
    told_fight: bool,
    /// The failure that was last logged, so that each is told once and not per attempt.
    told: Option<String>,
}

impl Keeper {
    fn new(client: &Client, settings: CertificateSettings, term: Term) -> Self {
        Self {
            writer: Writer::new(client, &settings, term),
            wanted: Wanted::new(Hosts::new(&settings.hosts), settings.validity),
            settings,
            secret: Watched::new(),
            content: Content::default(),
            configurations: Which::BOTH.map(|_| Watched::new()),
            told_missing: [false; 2],
            holding: Holding::default(),
            pauses: RetryBackoff::up_to(LONGEST_PAUSE),
            retry_at: None,
            repairs: Repairs::default(),
            told_fight: false,
            told: None,
        }
    }

    async fn run(mut self, mut sights: SelectAll<BoxStream<'static, Sight>>) {
        loop {
            // What is known already comes before what follows from it.
            while let Some(Some(sight)) = sights.next().now_or_never() {
                self.take(sight);
            }
            let step = self.next_step();
            let wake_at = match (&step, self.retry_at) {
                (Step::Look, _) => Instant::now() + LONGEST_REST,
                (Step::Rest(rest), _) => Instant::now() + (*rest).min(LONGEST_REST),
                (Step::Begin(_) | Step::Stage(_) | Step::Store(_) | Step::Trust, Some(at)) if Instant::now() < at => at,
                (Step::Begin(_) | Step::Stage(_) | Step::Store(_) | Step::Trust, _) => {
                    self.perform(step).await;
                    continue;
                }
            };
            tokio::select! {
                () = sleep_until(wake_at) => {}
                Some(sight) = sights.next() => self.take(sight),
            }
        }
    }

    fn take(&mut self, sight: Sight) {
        match sight {
            Sight::Secret(sight) => {
                let subject = format!("Secret {}/{}", self.settings.namespace, self.settings.secret);
                self.secret.take(*sight, &subject);
                self.content = Content::read(self.secret.there());
            }
            Sight::Configuration(which, sight) => {
                let subject = format!("{which} {}", self.settings.configuration);
                self.configurations[which as usize].take(sight, &subject);
                self.tell_of_absence(which, &subject);
            }
        }
    }

    fn tell_of_absence(&mut self, which: Which, subject: &str) {
        let (watched, told) = (
            &self.configurations[which as usize],
            &mut self.told_missing[which as usize],
        );
        match &watched.view {
            View::Absent if !*told => {
                warn!(
                    "there is no {subject}, so the API server does not ask this operator before it stores objects: \
                     apply deploy/webhooks.yaml"
                );
                *told = true;
            }
            View::There(_) if *told => {
                info!("there is a {subject} now");
                *told = false;
            }
            View::Unknown | View::Absent | View::There(_) => {}
        }
    }

    fn next_step(&mut self) -> Step {
        if matches!(self.secret.view, View::Unknown) {
            return Step::Look;
        }
        let seen = self.configurations.each_ref().map(|watched| match &watched.view {
            View::Unknown => Seen::Unknown,
            View::Absent => Seen::Absent,
            View::There(configuration) => configuration.seen(),
        });
        let held_for = self.holding.update(&self.content.bundle, &seen, Instant::now());
        decide(&self.content, &seen, held_for, &self.wanted, Timestamp::now())
    }

    async fn perform(&mut self, step: Step) {
        self.retry_at = None;
        match self.attempt(step).await {
            Ok(()) => {
                if self.told.take().is_some() {
                    info!("the certificate of the webhooks is looked after again");
                }
            }
            Err(error) => {
                self.retry_at = self.pauses.next().map(|pause| Instant::now() + pause);
                self.tell(&error);
            }
        }
    }

    async fn attempt(&mut self, step: Step) -> Result<(), StepError> {
        match step {
            Step::Look | Step::Rest(_) => Ok(()),
            Step::Begin(keep) => {
                let content = Content::begin(self.mint()?, keep);
                self.store(content, "made a certificate for the webhooks").await
            }
            Step::Stage(keep) => {
                let content = self.content.stage(self.mint()?, keep);
                self.store(content, "made the next certificate for the webhooks").await
            }
            Step::Store(content) => {
                self.store(*content, "the Secret holds what the webhooks serve from now on")
                    .await
            }
            Step::Trust => self.trust().await,
        }
    }

    fn mint(&self) -> Result<Minted, StepError> {
        mint(&self.wanted.hosts, self.wanted.validity, Timestamp::now()).map_err(StepError::Mint)
    }

    async fn store(&mut self, content: Content, done: &str) -> Result<(), StepError> {
        let stored = self.writer.store(&content, self.secret.there()).await;
        let stored = stored.map_err(StepError::Write)?;
        self.content = Content::read(Some(&stored));
        self.secret.wrote(stored);
        let latest = self.content.next.as_ref().or(self.content.current.as_ref());
        info!(
            secret = format!("{}/{}", self.settings.namespace, self.settings.secret),
            expires = latest.map(|pair| pair.ends().to_string()),
            "{done}"
        );
        Ok(())
    }

    /// Tries both, and says what was in the way of either.
    async fn trust(&mut self) -> Result<(), StepError> {
        let bundle = self.content.bundle.render();
        let mut done = Ok(());
        for which in Which::BOTH {
            let watched = &mut self.configurations[which as usize];
            let Some(configuration) = watched.there().filter(|there| !there.seen().holds(&bundle)) else {
                continue;
            };
            match self.writer.trust(which, configuration, &bundle).await {
                Ok(written) => {
                    watched.wrote(written);
                    info!("wrote whom to trust into {which} {}", self.settings.configuration);
                }
                Err(error) => done = Err(StepError::Write(error)),
            }
        }
        // Somebody else who keeps writing it would be answered as quickly as they write.
        if let Some(pause) = self.repairs.made() {
            self.retry_at = Some(Instant::now() + pause);
            if !self.told_fight {
                self.told_fight = true;
                warn!(
                    "somebody else keeps changing caBundle of the webhooks {}: let only one installation, and no other \
                     tool, write it; --webhook-configuration gives each installation its own",
                    self.settings.configuration
                );
            }
        }
        done
    }

    fn tell(&mut self, error: &StepError) {
        let remedy = match error {
            StepError::Write(WriteError::TermOver | WriteError::Outdated { .. }) => {
                debug!("cannot {error}");
                return;
            }
            StepError::Write(error) => error.remedy(),
            StepError::Mint(_) => "Check the hosts and the validity that certificates are wanted for.",
        };
        let text = format!("cannot {error}. {remedy}");
        if self.told.as_ref() != Some(&text) {
            warn!("{text}");
        }
        self.told = Some(text);
    }
}
