//! What the controllers of all kinds have in common.

use std::sync::Arc;

use firebolt_core::plan;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::events::{Event, EventDeduplicator, Recorder};
use firebolt_runtime::informer::Store;
use firebolt_runtime::queue::PendingSet;
use firebolt_runtime::reconciler::{self, Controller, Reconciler};
use firebolt_runtime::write::WriteAccess;
use kube::Resource;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::events::{self, from_plan};
use crate::kind_metrics::{KindMetrics, write_access};

/// What all reconciles of one kind share.
pub(crate) struct Shared {
    /// What the controllers of all kinds share.
    pub(crate) context: Context,
    /// What the writers of the kind share.
    pub(crate) access: WriteAccess,
    recorder: Recorder,
}

impl Shared {
    /// Emits those events of a plan that are new, and calls `emitted` with each.
    pub(crate) fn emit<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        planned: &[plan::PlannedEvent],
        known: &mut EventDeduplicator,
        emitted: impl Fn(&Event),
    ) {
        let events = from_plan(planned);
        self.recorder.emit_new(&object.object_ref(&()), &events, known, emitted);
    }
}

/// Reconciles all objects of a kind until `stop`, then lets running reconciles end and sends their events.
pub(crate) async fn run<R: Reconciler>(
    context: Context,
    objects: Arc<Store<R::Object>>,
    pending: Arc<PendingSet<ObjectKey>>,
    metrics: &KindMetrics,
    reconciler: impl FnOnce(Shared) -> R,
    stop: CancellationToken,
) {
    let (recorder, broadcaster) = events::recorder(context.client.clone(), &context.settings.identity);
    let controller = Controller {
        objects,
        pending,
        metrics: metrics.controller.clone(),
        workers: usize::from(context.settings.workers),
    };
    let reconciler = reconciler(Shared {
        access: write_access(&context, metrics),
        context,
        recorder,
    });
    let stop_events = CancellationToken::new();
    let reconciling = async {
        reconciler::run(reconciler, controller, stop).await;
        stop_events.cancel();
    };
    tokio::join!(reconciling, broadcaster.run(stop_events.clone()));
}
