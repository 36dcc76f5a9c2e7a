//! Runs a controller and the background tasks beside its reconciles.

use firebolt_runtime::reconciler::{self, Controller, Reconciler};
use tokio_util::sync::CancellationToken;

/// Reconciles all objects of a kind until `stop`, then lets running reconciles end. What runs `beside` the reconciles is
/// stopped after them, by a token of its own: it still sends their events.
pub(crate) async fn run<R: Reconciler, Beside>(
    reconciler: R,
    controller: Controller<R::Object>,
    beside: impl FnOnce(CancellationToken) -> Beside,
    stop: CancellationToken,
) where
    Beside: Future<Output = ()>,
{
    let stop_beside = CancellationToken::new();
    let reconciling = async {
        reconciler::run(reconciler, controller, stop).await;
        stop_beside.cancel();
    };
    tokio::join!(reconciling, beside(stop_beside.clone()));
}
