//! Which engines refer to a class: from the caches where a stale look is harmless, live where the next write cannot be
//! undone.

use firebolt_core::plan::engine_class::{Observed, Source};
use kube::Client;

use crate::key::ObjectKey;
use crate::referring::{self, Referring};
use crate::watches::Caches;
use crate::write::PassError;

/// What the caches show.
pub fn cached(caches: &Caches, class: &ObjectKey, deleting: bool) -> Observed {
    Observed {
        bound: caches.engines.of_class(class),
        unreadable: if deleting {
            caches.engines.unreadable_in(&class.namespace)
        } else {
            Vec::new()
        },
        source: Source::Watched,
    }
}

/// What the API server says.
pub async fn live(client: &Client, class: &ObjectKey) -> Result<Observed, PassError> {
    let refers = |name: Option<&String>| name == Some(&class.name);
    let referring = referring::live(client, class, |engine| refers(engine.spec.engine_class_ref.as_ref()));
    let Referring { bound, unreadable } = referring.await?;
    Ok(Observed {
        bound,
        unreadable,
        source: Source::Live,
    })
}
