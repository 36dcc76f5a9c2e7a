//! The hold queue: one state machine that all requests share, and what drives it.
//!
//! Requests call the [state machine](crate::hold) directly under a lock, and so do results. A channel to a task that
//! owns it would cost each request two task switches, and almost all requests are for an engine that is ready: that is
//! one map lookup. Effects start after the lock is released, and [`run_timers`] calls the state machine when its time
//! has come.
//!
//! If the state machine panics, it is replaced by a new one. Held requests are then routed as without an agent, and
//! results that belong to the old state machine are ignored.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{error, info};

use crate::clock::Clock;
use crate::hold::{
    Answer, Arrival, Effect, Event, HoldState, List, Now, Occupancy, Patch, Probe, Route, Settings, Stages, WaiterId,
};
use crate::metrics::Metrics;
use crate::response::{self, Reply};

/// Many events can occur in a moment: the next timer is computed once for all of them.
const COALESCE: Duration = Duration::from_millis(2);
/// The pause after a panic, so that a state machine that always panics does no harm.
const RESET_PAUSE: Duration = Duration::from_secs(1);
/// Requests that were held for less than this are not logged. At the start of a rollout, queries are held for one
/// probe.
const LOGGED_WAIT: Duration = Duration::from_secs(1);

/// Work for the [`Executor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// List the engines.
    List(List),
    /// Probe an engine.
    Probe(Probe),
    /// Request that an engine be woken.
    Patch(Patch),
}

/// Identifies a state machine: each panic starts a new epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// Starts a job. Its result is reported with [`HoldQueue::report`], with the epoch that the job came with.
pub(crate) type Executor = Box<dyn Fn(&HoldQueue, Epoch, Job) + Send + Sync>;

/// The hold queue of the gateway pod.
#[derive(Clone)]
pub(crate) struct HoldQueue(Arc<Shared>);

struct Shared {
    namespace: String,
    settings: Settings,
    clock: Arc<Clock>,
    metrics: Arc<Metrics>,
    executor: Executor,
    /// A timer may have moved to an earlier time.
    changed: Notify,
    guarded: Mutex<QueueState>,
}

struct QueueState {
    epoch: Epoch,
    state: HoldState,
    waiting: HashMap<WaiterId, oneshot::Sender<Answer>>,
    /// When the gateway stops. A new state machine needs it.
    closing: Option<std::time::Instant>,
}

impl HoldQueue {
    /// An empty queue for the engines of `namespace`.
    pub(crate) fn new(
        namespace: &str,
        settings: Settings,
        clock: Arc<Clock>,
        metrics: Arc<Metrics>,
        executor: Executor,
    ) -> Self {
        let guarded = QueueState {
            epoch: Epoch::default(),
            state: HoldState::new(settings.clone()),
            waiting: HashMap::new(),
            closing: None,
        };
        Self(Arc::new(Shared {
            namespace: namespace.to_owned(),
            settings,
            clock,
            metrics,
            executor,
            changed: Notify::new(),
            guarded: Mutex::new(guarded),
        }))
    }

    /// Decides on a request, of which Envoy may have to buffer up to `bytes`. Dropping the future means that the client
    /// has disconnected.
    pub(crate) async fn decide(&self, engine: &str, bytes: u64) -> Reply {
        let metrics = &self.0.metrics;
        let arrived = Instant::now();
        let arrival = self.call(None, |guarded, now| {
            let (arrival, effects) = guarded.state.arrive(now, engine, bytes);
            let arrival = match arrival {
                Arrival::Answered(answer) => Ok(answer),
                Arrival::Waits(waiter) => {
                    let (sender, receiver) = oneshot::channel();
                    guarded.waiting.insert(waiter.clone(), sender);
                    Err((guarded.epoch, waiter, receiver))
                }
            };
            (arrival, effects)
        });
        let reply = match arrival {
            None => Reply {
                answer: Answer::Route(Route::FailOpen),
                waited: None,
            },
            Some(Ok(answer)) => Reply { answer, waited: None },
            Some(Err((epoch, waiter, receiver))) => {
                metrics.holds.inc();
                self.0.changed.notify_one();
                let mut guard = WaiterGuard {
                    queue: self,
                    epoch,
                    waiter: Some(waiter),
                    arrived,
                };
                let answer = receiver.await;
                guard.waiter = None;
                let time = arrived.elapsed();
                metrics.waited(time);
                // Without an answer, the state machine has panicked.
                let answer = answer.unwrap_or(Answer::Route(Route::FailOpen));
                Reply {
                    answer,
                    waited: Some(time),
                }
            }
        };
        metrics.answered(reply.answer.name());
        reply
    }

    /// Reports an event to the state machine of that epoch.
    pub(crate) fn report(&self, epoch: Epoch, event: Event) {
        self.call(Some(epoch), |guarded, now| ((), guarded.state.handle(now, event)));
        self.0.changed.notify_one();
    }

    /// Answers the requests that are still held at that time.
    pub(crate) fn close(&self, by: std::time::Instant) {
        self.call(None, |guarded, now| {
            guarded.closing = Some(by);
            ((), guarded.state.handle(now, Event::Closing(by)))
        });
        self.0.changed.notify_one();
    }

    /// How full the queue is. Does not return if the state machine hangs.
    pub(crate) fn occupancy(&self) -> Occupancy {
        self.lock().state.occupancy()
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // All panics under the lock are caught.
        self.0.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the state machine and starts its effects. None if its epoch is over, or if it panics.
    fn call<T>(&self, epoch: Option<Epoch>, call: impl FnOnce(&mut QueueState, Now) -> (T, Vec<Effect>)) -> Option<T> {
        let mut guarded = self.lock();
        if epoch.is_some_and(|epoch| epoch != guarded.epoch) {
            return None;
        }
        let now = self.0.clock.now();
        let called = catch_unwind(AssertUnwindSafe(|| call(&mut guarded, now)));
        let Ok((result, effects)) = called else {
            self.reset(&mut guarded);
            return None;
        };
        if effects.is_empty() {
            return Some(result);
        }
        let epoch = guarded.epoch;
        let (jobs, released) = distribute(&mut guarded, effects);
        drop(guarded);
        // The jobs have timeouts.
        self.0.changed.notify_one();
        for job in jobs {
            (self.0.executor)(self, epoch, job);
        }
        for (engine, released) in released {
            released.log(&self.0.namespace, &engine);
        }
        Some(result)
    }

    fn reset(&self, guarded: &mut QueueState) {
        let lost = guarded.waiting.len();
        error!(
            lost,
            "the hold queue panicked and was reset: held queries are routed as without an agent"
        );
        guarded.epoch.0 += 1;
        guarded.state = HoldState::new(self.0.settings.clone());
        guarded.waiting.clear();
        self.0.changed.notify_one();
    }

    /// The next timer of the state machine. None if it has not been started yet.
    fn wake_at(&self) -> Option<std::time::Instant> {
        self.call(None, |guarded, _| (guarded.state.wake_at(), Vec::new()))
            .flatten()
    }

    /// A timer has expired. Returns whether the state machine handled it.
    fn tick(&self) -> bool {
        let ticked = self.call(None, |guarded, now| {
            let is_new = guarded.state.wake_at().is_none();
            let closing = guarded.closing.filter(|_| is_new);
            (
                (),
                guarded.state.handle(now, closing.map_or(Event::Tick, Event::Closing)),
            )
        });
        ticked.is_some()
    }
}

/// Calls the state machine of a queue whenever one of its timers expires.
pub(crate) async fn run_timers(queue: HoldQueue) {
    loop {
        if let Some(due) = queue.wake_at() {
            tokio::select! {
                biased;
                () = sleep_until(due.into()) => {}
                () = queue.0.changed.notified() => {
                    sleep(COALESCE).await;
                    continue;
                }
            }
        }
        if !queue.tick() {
            sleep(RESET_PAUSE).await;
        }
    }
}

/// Sends the answers, and returns the other effects.
fn distribute(guarded: &mut QueueState, effects: Vec<Effect>) -> (Vec<Job>, BTreeMap<Arc<str>, Released>) {
    let mut jobs = Vec::new();
    let mut released = BTreeMap::new();
    for effect in effects {
        match effect {
            Effect::List(list) => jobs.push(Job::List(list)),
            Effect::Probe(probe) => jobs.push(Job::Probe(probe)),
            Effect::Patch(patch) => jobs.push(Job::Patch(patch)),
            Effect::Answer(waiter, answer) => {
                if let Answer::Route(Route::Released(stages)) = &answer {
                    let together = released.entry(Arc::clone(&waiter.engine));
                    let first = Released {
                        stages: *stages,
                        count: 0,
                    };
                    together.or_insert(first).count += 1;
                }
                if let Some(sender) = guarded.waiting.remove(&waiter) {
                    // A client that has disconnected is removed by its guard.
                    let _disconnected = sender.send(answer);
                }
            }
        }
    }
    (jobs, released)
}

/// Requests for one engine that were released together. They are logged in one line.
struct Released {
    /// Those of the request that was held longest.
    stages: Stages,
    count: usize,
}

impl Released {
    fn log(&self, namespace: &str, engine: &str) {
        if self.stages.released < LOGGED_WAIT {
            return;
        }
        info!(
            kind = "FireboltEngine",
            namespace,
            name = engine,
            queries = self.count,
            stages = response::server_timing(&self.stages),
            "released held queries: the engine can be reached"
        );
    }
}

/// Removes a held request from the queue if its client disconnects.
struct WaiterGuard<'a> {
    queue: &'a HoldQueue,
    epoch: Epoch,
    /// None once the request is answered.
    waiter: Option<WaiterId>,
    arrived: Instant,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        self.queue.call(Some(self.epoch), |guarded, now| {
            guarded.waiting.remove(&waiter);
            ((), guarded.state.handle(now, Event::Left(waiter)))
        });
        let metrics = &self.queue.0.metrics;
        metrics.waited(self.arrived.elapsed());
        metrics.answered("gone");
    }
}

#[cfg(test)]
#[path = "hold_queue_tests.rs"]
mod tests;
