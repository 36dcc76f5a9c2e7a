//! Requests to the API server: list the engines, and request that one be woken.
//!
//! Envoy routes without any of this. While the API server cannot be reached, every attempt fails, and the error is
//! logged once.

mod apply;
mod connect;
mod decode;
mod error;
mod error_log;
mod list;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firebolt_api::name::InstanceNames;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use self::decode::UnreadableEngines;
use self::error::ApiError;
use self::error_log::ErrorLog;
use self::list::Pages;
use crate::clock::Clock;
use crate::hold::{Engine, LIST_TIMEOUT, PATCH_TIMEOUT, PatchOutcome};

/// The state machine waits this much longer, so that it receives the result of a request that times out.
const MARGIN: Duration = Duration::from_millis(250);
/// The maximum number of concurrent patches. Many engines may have to be woken in the same second, and the API server
/// has other clients.
const PATCHES: usize = 16;

/// The engines of one namespace.
pub(crate) struct Cluster {
    namespace: String,
    /// The Role that grants these requests.
    role: String,
    clock: Arc<Clock>,
    /// None until there is a client configuration.
    client: Mutex<Option<Client>>,
    pages: Pages,
    unreadable: UnreadableEngines,
    patch_slots: Semaphore,
    list_errors: ErrorLog,
    patch_errors: ErrorLog,
}

impl Cluster {
    /// Sends no request and reads no file yet.
    pub(crate) fn new(namespace: &str, instance: &str, clock: Arc<Clock>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            role: InstanceNames(instance).gateway_wake(),
            clock,
            client: Mutex::new(None),
            pages: Pages::default(),
            unreadable: UnreadableEngines::default(),
            patch_slots: Semaphore::new(PATCHES),
            list_errors: ErrorLog::new("list the engines"),
            patch_errors: ErrorLog::new("request that engines be woken"),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// All engines of the namespace that can be parsed. None if the listing failed.
    pub(crate) async fn list(&self) -> Option<Vec<Engine>> {
        let limit = LIST_TIMEOUT.saturating_sub(MARGIN);
        let listed = timeout(limit, self.try_list()).await;
        match listed.unwrap_or(Err(ApiError::Timeout(limit))) {
            Ok(engines) => {
                self.list_errors.succeeded();
                Some(engines)
            }
            Err(error) => {
                self.failed(&self.list_errors, "list", &error);
                None
            }
        }
    }

    async fn try_list(&self) -> Result<Vec<Engine>, ApiError> {
        let client = self.client().await?;
        self.pages
            .all(&client, &self.namespace, &self.clock, &self.unreadable)
            .await
    }

    /// Writes the time into the wake annotation of an engine.
    pub(crate) async fn request_wake(&self, engine: &str, at: Timestamp) -> PatchOutcome {
        let limit = PATCH_TIMEOUT.saturating_sub(MARGIN);
        let requested = timeout(limit, self.try_request_wake(engine, at)).await;
        let Err(error) = requested.unwrap_or(Err(ApiError::Timeout(limit))) else {
            self.patch_errors.succeeded();
            return PatchOutcome::Stored;
        };
        self.failed(&self.patch_errors, "patch", &error);
        error.outcome()
    }

    async fn try_request_wake(&self, engine: &str, at: Timestamp) -> Result<(), ApiError> {
        let _slot = self.patch_slots.acquire().await;
        let client = self.client().await?;
        apply::request_wake(client, &self.namespace, engine, at).await?;
        Ok(())
    }

    fn failed(&self, errors: &ErrorLog, verb: &str, error: &ApiError) {
        errors.failed(error.kind(), &error.explain(verb, &self.namespace, &self.role));
        if error.needs_new_client() {
            *self.slot() = None;
        }
    }

    /// The client. It is created from the kubeconfig or the service account when it is first needed.
    async fn client(&self) -> Result<Client, ApiError> {
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
