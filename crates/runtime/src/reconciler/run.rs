//! The loop that calls a reconciler: one reconcile at a time per object, many objects at once.

use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::Resource;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, error_span};

use super::backoff::Outcome;
use super::metrics::ControllerMetrics;
use super::reconcile::Reconciler;
use super::state::{ObjectState, ObjectStates};
use crate::informer::Store;
use crate::key::ObjectKey;
use crate::queue::{PendingSet, Priority, Requeue, WorkQueue};

/// How long an object is not reconciled after a panic.
const AFTER_PANIC: Duration = Duration::from_mins(1);

/// Where the objects of a controller come from, and what it measures.
#[derive(Debug)]
pub struct Controller<K> {
    /// The objects, kept up to date by an informer.
    pub objects: Arc<Store<K>>,
    /// Where event handlers put the objects to reconcile.
    pub pending: Arc<PendingSet<ObjectKey>>,
    /// The metrics of the controller.
    pub metrics: ControllerMetrics,
    /// How many objects of normal priority are reconciled at the same time.
    pub workers: usize,
}

/// Reconciles all objects of a kind until `stop`, then lets running reconciles end.
///
/// An object that does not exist any more is forgotten, one that cannot be read is left alone until it changes. Every log
/// line of a reconcile carries `kind`, `namespace`, `name` and `reconcile_id`.
pub async fn run<R: Reconciler>(reconciler: R, controller: Controller<R::Object>, stop: CancellationToken) {
    let Controller {
        objects,
        pending,
        metrics,
        workers,
    } = controller;
    pending.open();
    for object in objects.all() {
        pending.add(ObjectKey::of(&*object), Priority::Normal);
    }
    metrics.set_workers(workers);
    let queue = WorkQueue::new(workers, metrics.queue().clone());
    // The panic hook has logged it, with the fields of the reconcile.
    let on_panic = |_key: &ObjectKey| metrics.panicked();
    let worker = Arc::new(Worker {
        reconciler,
        objects,
        metrics: metrics.clone(),
        states: ObjectStates::default(),
    });
    let reconcile = |key: ObjectKey| {
        let worker = Arc::clone(&worker);
        // Boxed, because it is large and most of the time few run.
        Box::pin(async move { worker.reconcile(&key).await })
    };
    work(queue, &pending, stop, on_panic, reconcile).await;
}

struct Worker<R: Reconciler> {
    reconciler: R,
    objects: Arc<Store<R::Object>>,
    metrics: ControllerMetrics,
    states: ObjectStates<ObjectState<R::Object, R::State>>,
}

impl<R: Reconciler> Worker<R> {
    async fn reconcile(&self, key: &ObjectKey) -> Requeue {
        let Some(object) = self.objects.get(key) else {
            self.states.forget(key);
            self.metrics.forget(key);
            self.reconciler.forget(key);
            return Requeue::default();
        };
        let Ok(object) = &object.0 else {
            self.reconciler.unreadable(key);
            return Requeue::default();
        };
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let mut state = self.states.take(key, uid);
        let object = state.expectations.newest(object.clone());
        let span = span::<R>(key);
        let measured = self.metrics.started();
        let result = async {
            let result = self.reconciler.reconcile(&object, &mut state).await;
            if let Err(error) = &result {
                self.reconciler.failed(&object, error, &mut state).await;
            }
            result
        };
        let result = result.instrument(span.clone()).await;
        measured.finished(key, &result);
        if let Ok(Outcome::Done {
            corrected_drift: true, ..
        }) = &result
        {
            state.drift.corrected();
        }
        let requeue = span.in_scope(|| match result {
            Ok(outcome) => state.backoff.succeeded(&outcome),
            Err(error) => {
                state.expectations.invalidate();
                state.backoff.failed(&error)
            }
        });
        self.states.put(key, uid, state);
        requeue
    }
}

/// The fields of every log line of a reconcile.
fn span<R: Reconciler>(key: &ObjectKey) -> Span {
    error_span!(
        "reconcile",
        kind = %R::kind(),
        namespace = key.namespace,
        name = key.name,
        reconcile_id = format!("{:016x}", fastrand::u64(..)),
    )
}

/// Calls `reconcile` for one object at a time per key until `stop`, then lets what is running end. A panic costs only its
/// own object.
async fn work<K, F>(
    mut queue: WorkQueue<K>,
    pending: &PendingSet<K>,
    stop: CancellationToken,
    on_panic: impl Fn(&K),
    mut reconcile: impl FnMut(K) -> F,
) where
    K: Clone + Debug + Eq + Hash + Ord + Send + 'static,
    F: Future<Output = Requeue> + Send + 'static,
{
    let mut running = JoinSet::new();
    while !stop.is_cancelled() {
        while let Some(key) = queue.next(Instant::now()) {
            let reconciled = AssertUnwindSafe(reconcile(key.clone())).catch_unwind();
            running.spawn(async move { (key, reconciled.await) });
        }
        queue.measure();
        tokio::select! {
            () = stop.cancelled() => break,
            added = pending.take() => {
                let now = Instant::now();
                for (key, priority) in added {
                    queue.add(key, priority, now);
                }
            }
            Some(ended) = running.join_next() => match ended {
                Ok((key, Ok(requeue))) => queue.done(&key, requeue, Instant::now()),
                Ok((key, Err(_panic))) => {
                    on_panic(&key);
                    queue.done(&key, after_panic(), Instant::now());
                }
                Err(ended) => unreachable!("tasks are neither aborted nor do they panic: {ended}"),
            },
            () = until(queue.next_timer()) => {}
        }
    }
    running.join_all().await;
}

/// The same input panics again, but the input may change.
fn after_panic() -> Requeue {
    let later = Instant::now() + AFTER_PANIC;
    Requeue {
        at: Some(later),
        not_before: Some(later),
        keep_priority: true,
    }
}

async fn until(timer: Option<Instant>) {
    match timer {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::Notify;

    use prometheus_client::registry::Registry;

    use super::super::metrics::ReconcileMetrics;
    use super::*;
    use crate::informer::Guarded;
    use crate::queue::QueueMetrics;
    use crate::reconcile_error::ReconcileError;
    use crate::widget::Widget;

    fn queue() -> WorkQueue<&'static str> {
        WorkQueue::new(1, QueueMetrics::default())
    }

    fn unexpected(key: &&str) {
        panic!("{key} panicked");
    }

    #[tokio::test(start_paused = true)]
    async fn an_urgent_reconcile_does_not_wait_for_busy_workers() {
        let (pending, stop) = (Arc::new(PendingSet::default()), CancellationToken::new());
        let (seen, urgent_done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        pending.open();
        pending.add("slow", Priority::Normal);
        let worker = tokio::spawn({
            let (pending, stop, seen, urgent_done) = (pending.clone(), stop.clone(), seen.clone(), urgent_done.clone());
            async move {
                let reconcile = |key: &'static str| {
                    let (seen, urgent_done) = (seen.clone(), urgent_done.clone());
                    async move {
                        seen.lock().unwrap().push(key);
                        match key {
                            "slow" => tokio::time::sleep(Duration::from_mins(1)).await,
                            _ => urgent_done.notify_one(),
                        }
                        Requeue::default()
                    }
                };
                work(queue(), &pending, stop, unexpected, reconcile).await;
            }
        });
        tokio::task::yield_now().await;
        pending.add("waiting", Priority::Normal);
        pending.add("wake", Priority::Urgent);
        urgent_done.notified().await;
        assert_eq!(*seen.lock().unwrap(), ["slow", "wake"]);
        stop.cancel();
        worker.await.unwrap();
        assert_eq!(*seen.lock().unwrap(), ["slow", "wake"], "nothing begins after the end");
    }

    /// Corrects drift in each reconcile, and records how long the next one has to wait.
    #[derive(Default)]
    struct Correcting(Mutex<Vec<Option<Duration>>>);

    impl Reconciler for Correcting {
        type Object = Widget;
        type State = ();

        async fn reconcile(
            &self,
            _widget: &Widget,
            state: &mut ObjectState<Widget, ()>,
        ) -> Result<Outcome, ReconcileError> {
            let delay = state.drift.delay();
            self.0.lock().unwrap().push(delay);
            Ok(Outcome::Done {
                requeue_after: None,
                throttle: delay,
                rejected: false,
                corrected_drift: true,
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn drift_that_is_corrected_again_and_again_is_corrected_more_slowly() {
        let objects = Arc::new(Store::new([]));
        let widget = Guarded(Ok(Widget::new("u", "1")));
        objects.put(Arc::new(widget));
        let worker = Worker {
            reconciler: Correcting::default(),
            objects,
            metrics: ReconcileMetrics::register(&mut Registry::default(), "widgets").controller("widget"),
            states: ObjectStates::default(),
        };
        let key = ObjectKey::new("n", "w");
        while worker.reconcile(&key).await.not_before.is_none() {}
        let delays = worker.reconciler.0.lock().unwrap().clone();
        assert!(delays.len() > 2, "the first corrections are not delayed: {delays:?}");
        assert!(delays.last().is_some_and(Option::is_some), "{delays:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_reconciled_again_when_its_timer_fires() {
        let (pending, stop) = (PendingSet::default(), CancellationToken::new());
        pending.open();
        pending.add("a", Priority::Normal);
        let start = Instant::now();
        let times = Arc::new(Mutex::new(Vec::new()));
        work(queue(), &pending, stop.clone(), unexpected, |_| {
            let (times, stop) = (times.clone(), stop.clone());
            async move {
                let mut times = times.lock().unwrap();
                times.push(start.elapsed());
                if times.len() == 2 {
                    stop.cancel();
                }
                Requeue {
                    at: Some(Instant::now() + Duration::from_secs(5)),
                    ..Requeue::default()
                }
            }
        })
        .await;
        assert_eq!(*times.lock().unwrap(), [Duration::ZERO, Duration::from_secs(5)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_costs_only_its_own_object_and_only_for_a_while() {
        let (pending, stop) = (PendingSet::default(), CancellationToken::new());
        pending.open();
        pending.add("bad", Priority::Normal);
        pending.add("good", Priority::Normal);
        let (seen, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
        let panicked = Mutex::new(Vec::new());
        let on_panic = |key: &&'static str| panicked.lock().unwrap().push(*key);
        let reconcile = |key: &'static str| {
            let (seen, stop) = (seen.clone(), stop.clone());
            async move {
                let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                seen.push((key, start.elapsed()));
                if seen.len() == 3 {
                    stop.cancel();
                } else if key == "bad" {
                    drop(seen);
                    panic!("on purpose");
                }
                Requeue::default()
            }
        };
        work(queue(), &pending, stop.clone(), on_panic, reconcile).await;
        assert_eq!(*panicked.lock().unwrap(), ["bad"]);
        let mut seen = seen.lock().unwrap().clone();
        seen[..2].sort_unstable();
        assert_eq!(
            seen,
            [("bad", Duration::ZERO), ("good", Duration::ZERO), ("bad", AFTER_PANIC)]
        );
    }
}
