//! What the controllers share.

use std::sync::Arc;

use firebolt_runtime::leader::Leadership;
use kube::Client;

use crate::caches::Caches;
use crate::pending::Pending;
use crate::settings::Settings;

/// What the controllers share.
#[derive(Clone)]
pub(crate) struct Context {
    /// The client. Only files called `apply.rs` write with it.
    pub(crate) client: Client,
    /// The settings of the process.
    pub(crate) settings: Arc<Settings>,
    /// The caches.
    pub(crate) caches: Arc<Caches>,
    /// The objects to reconcile.
    pub(crate) pending: Pending,
    /// The right to write.
    pub(crate) leadership: Leadership,
}
