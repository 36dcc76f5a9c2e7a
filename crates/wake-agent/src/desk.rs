//! One table that all requests share, and what keeps it going.
//!
//! Requests call the table themselves, under a lock, and so does whatever brings news. A channel to a task that owns the
//! table would cost each request two switches of tasks, and almost all of them are for an engine that is ready: that is one
//! look into a map. What the table wants done is begun after the lock is released, and [`keep_time`] calls it when its
//! time has come.
//!
//! A table that panics is thrown away. Whoever waited passes as if we were not there, and a new table begins; news that
//! were meant for the old one do not reach it.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{error, info};

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::reply;
use crate::table::{Answer, Arrival, Effect, Event, List, Now, Patch, Probe, Route, Settings, Stages, Table, WaiterId};

/// Many things can happen in a moment; when the next is due is found out once for all of them.
const MOMENT: Duration = Duration::from_millis(2);
/// How long a table that has just begun is left alone, so that one that always panics does no harm.
const RECOVERY: Duration = Duration::from_secs(1);

/// Who waited less is not told of.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// Something that a table wants done elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// List the engines.
    List(List),
    /// Ask an engine whether it can be reached.
    Probe(Probe),
    /// Ask for an engine.
    Patch(Patch),
}

/// Which table is meant: each panic begins another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Era(u64);

/// Begins a job. What comes of it is told with [`Desk::tell`], to the table of the same era.
pub type Work = Box<dyn Fn(&Desk, Era, Job) + Send + Sync>;

/// What a request is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What Envoy is to do.
    pub answer: Answer,
    /// How long the request waited for it, if it did.
    pub waited: Option<Duration>,
}

/// How full the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// How many requests wait.
    pub waiting: usize,
    /// How much memory they take up.
    pub bytes: u64,
    /// Whether engines were ever listed.
    pub synced: bool,
}

/// The shared table.
#[derive(Clone)]
pub struct Desk(Arc<Shared>);

struct Shared {
    settings: Settings,
    clock: Arc<Clock>,
    metrics: Arc<Metrics>,
    work: Work,
    /// Something is due sooner than it was.
    changed: Notify,
    state: Mutex<State>,
}

struct State {
    era: Era,
    table: Table,
    waiting: HashMap<WaiterId, oneshot::Sender<Answer>>,
    /// When the gateway stops. A new table has not heard of it.
    closing: Option<std::time::Instant>,
}

impl Desk {
    /// A desk whose table knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings, clock: Arc<Clock>, metrics: Arc<Metrics>, work: Work) -> Self {
        let state = State {
            era: Era::default(),
            table: Table::new(settings.clone()),
            waiting: HashMap::new(),
            closing: None,
        };
        Self(Arc::new(Shared {
            settings,
            clock,
            metrics,
            work,
            changed: Notify::new(),
            state: Mutex::new(state),
        }))
    }

    /// A request came, of which Envoy may have to keep so many bytes. If this future is dropped, the request has left.
    pub async fn ask(&self, engine: &str, bytes: u64) -> Told {
        let metrics = &self.0.metrics;
        let arrived = Instant::now();
        let arrival = self.call(None, |state, now| {
            let (arrival, effects) = state.table.arrive(now, engine, bytes);
            let arrival = match arrival {
                Arrival::Answered(answer) => Ok(answer),
                Arrival::Waits(waiter) => {
                    let (sender, receiver) = oneshot::channel();
                    state.waiting.insert(waiter.clone(), sender);
                    Err((state.era, waiter, receiver))
                }
            };
            (arrival, effects)
        });
        let told = match arrival {
            None => Told {
                answer: Answer::Route(Route::Blind),
                waited: None,
            },
            Some(Ok(answer)) => Told { answer, waited: None },
            Some(Err((era, waiter, receiver))) => {
                metrics.holds.inc();
                self.0.changed.notify_one();
                let mut seat = Seat {
                    desk: self,
                    era,
                    waiter: Some(waiter),
                    arrived,
                };
                let answer = receiver.await;
                seat.waiter = None;
                let time = arrived.elapsed();
                metrics.waited(time);
                // Without an answer the table is gone.
                let answer = answer.unwrap_or(Answer::Route(Route::Blind));
                Told {
                    answer,
                    waited: Some(time),
                }
            }
        };
        metrics.answered(reply::name(&told.answer));
        told
    }

    /// Something happened that concerns the table of that era.
    pub fn tell(&self, era: Era, event: Event) {
        self.call(Some(era), |state, now| ((), state.table.handle(now, event)));
        self.0.changed.notify_one();
    }

    /// Who still waits at that moment is sent away.
    pub fn close(&self, by: std::time::Instant) {
        self.call(None, |state, now| {
            state.closing = Some(by);
            ((), state.table.handle(now, Event::Closing(by)))
        });
        self.0.changed.notify_one();
    }

    /// How full the table is. It does not come back if the table is stuck.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let state = self.lock();
        Occupancy {
            waiting: state.table.waiting(),
            bytes: state.table.waiting_bytes(),
            synced: state.table.synced(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held but for what is caught.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the table and does what it wants done. None if it is not the table that is meant, or if it panics.
    fn call<T>(&self, era: Option<Era>, call: impl FnOnce(&mut State, Now) -> (T, Vec<Effect>)) -> Option<T> {
        let mut state = self.lock();
        if era.is_some_and(|era| era != state.era) {
            return None;
        }
        let now = self.0.clock.now();
        let called = catch_unwind(AssertUnwindSafe(|| call(&mut state, now)));
        let Ok((result, effects)) = called else {
            self.begin_anew(&mut state);
            return None;
        };
        if effects.is_empty() {
            return Some(result);
        }
        let era = state.era;
        let (jobs, released) = distribute(&mut state, effects);
        drop(state);
        // What was begun is to be given up some time.
        self.0.changed.notify_one();
        for job in jobs {
            (self.0.work)(self, era, job);
        }
        for (engine, released) in released {
            released.log(&engine);
        }
        Some(result)
    }

    fn begin_anew(&self, state: &mut State) {
        let lost = state.waiting.len();
        error!(
            lost,
            "the table is begun anew: queries that waited pass as if there were no agent"
        );
        state.era.0 += 1;
        state.table = Table::new(self.0.settings.clone());
        state.waiting.clear();
        self.0.changed.notify_one();
    }

    /// When the table wants to be called. None if it has just begun.
    fn wake_at(&self) -> Option<std::time::Instant> {
        self.call(None, |state, _| (state.table.wake_at(), Vec::new()))
            .flatten()
    }

    /// The time of the table has come. Returns whether it could deal with that.
    fn tick(&self) -> bool {
        let ticked = self.call(None, |state, now| {
            let is_new = state.table.wake_at().is_none();
            let closing = state.closing.filter(|_| is_new);
            ((), state.table.handle(now, closing.map_or(Event::Tick, Event::Closing)))
        });
        ticked.is_some()
    }
}

/// Calls the table of a desk whenever its time has come.
pub async fn keep_time(desk: Desk) {
    loop {
        if let Some(due) = desk.wake_at() {
            tokio::select! {
                biased;
                () = sleep_until(due.into()) => {}
                () = desk.0.changed.notified() => {
                    sleep(MOMENT).await;
                    continue;
                }
            }
        }
        if !desk.tick() {
            sleep(RECOVERY).await;
        }
    }
}

/// Answers whom the table answers, and returns what else it wants done.
fn distribute(state: &mut State, effects: Vec<Effect>) -> (Vec<Job>, BTreeMap<Arc<str>, Released>) {
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
                if let Some(sender) = state.waiting.remove(&waiter) {
                    // Who is gone has left, or is about to.
                    let _gone = sender.send(answer);
                }
            }
        }
    }
    (jobs, released)
}

/// Requests for one engine that were let go together. One line tells of all of them.
struct Released {
    /// Of the one that waited longest.
    stages: Stages,
    count: usize,
}

impl Released {
    fn log(&self, engine: &str) {
        // At the beginning of a rollout, queries wait for a probe and hardly notice.
        if self.stages.released < NOTICEABLE {
            return;
        }
        let stages = reply::server_timing(&self.stages);
        info!(
            engine,
            queries = self.count,
            stages,
            "queries that waited for an engine go on"
        );
    }
}

/// The place of a request that waits. It is given up when the request goes away.
struct Seat<'a> {
    desk: &'a Desk,
    era: Era,
    /// None once it is answered.
    waiter: Option<WaiterId>,
    arrived: Instant,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        self.desk.call(Some(self.era), |state, now| {
            state.waiting.remove(&waiter);
            ((), state.table.handle(now, Event::Left(waiter)))
        });
        let metrics = &self.desk.0.metrics;
        metrics.waited(self.arrived.elapsed());
        metrics.answered("gone");
    }
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
