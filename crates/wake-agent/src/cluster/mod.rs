//! What the agent does in the cluster: it lists engines and asks for them.
//!
//! Nothing here is needed for Envoy to route. As long as the API server cannot be reached, every attempt fails, is told
//! once, and the next one begins from the start.

mod apply;
mod connect;
mod decode;
mod fault;
mod list;
mod trouble;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firebolt_api::name::InstanceNames;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use self::decode::Skipped;
use self::fault::Fault;
use self::list::Pages;
use self::trouble::Trouble;
use crate::clock::Clock;
use crate::table::{Engine, LIST_TIMEOUT, PATCH_TIMEOUT, PatchOutcome};

/// The table waits a little longer for each, so that it hears of what takes too long.
const MARGIN: Duration = Duration::from_millis(250);
/// How many engines are asked for at a time. Many engines can be wanted in the same second, and the API server has others
/// to serve.
const PATCHES: usize = 16;

/// The way to the engines of one namespace.
pub struct Cluster {
    namespace: String,
    /// The Role that lets the gateway do what is done here.
    role: String,
    clock: Arc<Clock>,
    /// None until a configuration can be read.
    client: Mutex<Option<Client>>,
    pages: Pages,
    skipped: Skipped,
    turns: Semaphore,
    listing: Trouble,
    waking: Trouble,
}

impl Cluster {
    /// Nothing is read or reached yet.
    #[must_use]
    pub fn new(namespace: &str, instance: &str, clock: Arc<Clock>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            role: InstanceNames(instance).gateway_wake(),
            clock,
            client: Mutex::new(None),
            pages: Pages::default(),
            skipped: Skipped::default(),
            turns: Semaphore::new(PATCHES),
            listing: Trouble::new("list engines"),
            waking: Trouble::new("ask for engines"),
        }
    }

    /// Every engine of the namespace that can be read. None if they cannot be listed.
    pub async fn list(&self) -> Option<Vec<Engine>> {
        let limit = LIST_TIMEOUT.saturating_sub(MARGIN);
        let listed = timeout(limit, self.try_list()).await;
        match listed.unwrap_or(Err(Fault::Silent(limit))) {
            Ok(engines) => {
                self.listing.is_over();
                Some(engines)
            }
            Err(fault) => {
                self.failed(&self.listing, "list", &fault);
                None
            }
        }
    }

    async fn try_list(&self) -> Result<Vec<Engine>, Fault> {
        let client = self.client().await?;
        self.pages
            .all(&client, &self.namespace, &self.clock, &self.skipped)
            .await
    }

    /// Writes the time into the wake annotation of an engine.
    pub async fn ask_for(&self, engine: &str, at: Timestamp) -> PatchOutcome {
        let limit = PATCH_TIMEOUT.saturating_sub(MARGIN);
        let asked = timeout(limit, self.try_ask_for(engine, at)).await;
        let Err(fault) = asked.unwrap_or(Err(Fault::Silent(limit))) else {
            self.waking.is_over();
            return PatchOutcome::Stored;
        };
        self.failed(&self.waking, "patch", &fault);
        fault.outcome()
    }

    async fn try_ask_for(&self, engine: &str, at: Timestamp) -> Result<(), Fault> {
        let _turn = self.turns.acquire().await;
        let client = self.client().await?;
        apply::stamp(client, &self.namespace, engine, at).await?;
        Ok(())
    }

    fn failed(&self, trouble: &Trouble, verb: &str, fault: &Fault) {
        trouble.is(fault.kind(), &fault.explain(verb, &self.namespace, &self.role));
        if fault.may_be_outdated() {
            *self.slot() = None;
        }
    }

    /// The client, as soon as there is something to make it from.
    async fn client(&self) -> Result<Client, Fault> {
        let known = self.slot().clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let client = connect::connect().await?;
        *self.slot() = Some(client.clone());
        Ok(client)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
