//! All reads of a reconcile: from the caches where an outdated read is harmless, live where the next write cannot be undone.

use firebolt_api::FireboltEngineClass;
use firebolt_core::plan::Reads;
use firebolt_core::plan::engine_class::Observed;
use firebolt_runtime::{ObjectKey, ReconcileError};
use jiff::Timestamp;
use kube::Client;

use super::reconciler::EngineClassReconciler;
use crate::caches::{Caches, ENGINES_BY_CLASS};
use crate::engine_references::{self, EngineReferences};

impl EngineClassReconciler {
    /// Reads which engines reference a class.
    pub(super) async fn observe(&self, class: &FireboltEngineClass, reads: Reads) -> Result<Observed, ReconcileError> {
        match reads {
            Reads::Cached => Ok(cached(&self.shared.context.caches, class)),
            // A class has no children.
            Reads::LiveChildren | Reads::Live => live(&self.shared.context.client, class).await,
        }
    }
}

/// The engines in the caches.
fn cached(caches: &Caches, class: &FireboltEngineClass) -> Observed {
    let key = ObjectKey::of(class);
    let deleting = class.metadata.deletion_timestamp.is_some();
    Observed {
        at: Timestamp::now(),
        bound: caches.engines.names_by_index(ENGINES_BY_CLASS, &key),
        unreadable: if deleting {
            caches.engines.unreadable_in(&key.namespace)
        } else {
            Vec::new()
        },
        reads: Reads::Cached,
    }
}

/// The engines that the API server lists.
async fn live(client: &Client, class: &FireboltEngineClass) -> Result<Observed, ReconcileError> {
    let key = ObjectKey::of(class);
    let references = engine_references::live(client, &key, |engine| {
        engine.spec.engine_class_ref.as_ref() == Some(&key.name)
    });
    let EngineReferences { bound, unreadable } = references.await?;
    Ok(Observed {
        at: Timestamp::now(),
        bound,
        unreadable,
        reads: Reads::Live,
    })
}
