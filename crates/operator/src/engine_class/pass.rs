//! One pass over one class: look, decide, carry out, report.

use std::time::Duration;

use firebolt_api::FireboltEngineClass;
use firebolt_api::condition::EngineClassCondition;
use firebolt_core::plan::engine_class::Plan;
use jiff::Timestamp;
use kube::Resource;
use tokio::time::Instant;
use tracing::{Instrument, info_span};

use super::apply::Apply;
use super::decide::decide;
use super::memory::Memory;
use crate::events::Recorder;
use crate::key::ObjectKey;
use crate::process::Context;
use crate::queue::{Again, Done, Memories};
use crate::write::{PassError, Writer};

/// How long a class is left alone after a new count of its engines. They come and go in great numbers, and nobody needs to
/// know each number in between.
const BETWEEN_COUNTS: Duration = Duration::from_millis(500);

/// What all passes share.
pub struct Controller {
    context: Context,
    recorder: Recorder,
    memories: Memories<Memory>,
}

impl Controller {
    pub fn new(context: Context, recorder: Recorder) -> Self {
        Self {
            context,
            recorder,
            memories: Memories::default(),
        }
    }

    /// Makes one pass and says when the next is due, if nothing is seen before.
    pub async fn look(&self, key: &ObjectKey) -> Again {
        let work = &self.context.metrics.engine_classes().work;
        let Some(guarded) = self.context.caches.engine_classes.get(key) else {
            self.memories.forget(key);
            work.reconciled.forget(key);
            return Again::default();
        };
        let Ok(class) = &guarded.0 else {
            // It cannot be read, and is left alone until it changes.
            return Again::default();
        };
        let uid = class.metadata.uid.as_deref().unwrap_or_default();
        let mut memory: Memory = self.memories.take(key, uid);
        let begun = Instant::now();
        let class = memory.written.newest(class.clone());
        let span = info_span!("engine_class", namespace = key.namespace, name = key.name);
        let done = self.pass(&class, &mut memory).instrument(span.clone()).await;
        work.looked(key, begun.elapsed(), done.is_ok().then(Timestamp::now));
        let again = span.in_scope(|| match done {
            Ok(done) => memory.attempts.succeeded(&done, false),
            Err(error) => memory.attempts.failed(&error),
        });
        self.memories.put(key, uid, memory);
        again
    }

    async fn pass(&self, class: &FireboltEngineClass, memory: &mut Memory) -> Result<Done, PassError> {
        let plan = decide(&self.context, class).await?;
        let mut apply = Apply {
            writer: Writer {
                client: &self.context.client,
                term: &self.context.term,
                metrics: &self.context.metrics.engine_classes().work,
                root: class.clone(),
                written: &mut memory.written,
            },
            attempts: &mut memory.attempts,
            said: false,
        };
        let done = apply.plan(&plan).await;
        let (after, said) = (apply.writer.root, apply.said);
        if said {
            self.report(&after, &plan, memory);
        }
        done?;
        Ok(Done::Finished {
            again: plan.look_again,
            floor: pause(class, &plan, memory),
        })
    }

    /// Tells people and metrics what a pass has done.
    fn report(&self, after: &FireboltEngineClass, plan: &Plan, memory: &mut Memory) {
        let work = &self.context.metrics.engine_classes().work;
        let object = after.object_ref(&());
        self.recorder
            .tell_news(&object, &plan.events, &mut memory.told, |event| {
                work.decided(&event.reason);
            });
        if is_ready(after) {
            memory.told.forget();
        }
    }
}

/// How long the next pass has to wait, whatever is seen.
fn pause(before: &FireboltEngineClass, plan: &Plan, memory: &mut Memory) -> Option<Duration> {
    let counted = before.status.as_ref().map(|status| status.bound_engines);
    match &plan.status {
        Some(next) if counted.is_some_and(|counted| counted != next.bound_engines) => Some(BETWEEN_COUNTS),
        None if plan.writes.is_empty() => None,
        Some(_) | None => memory.repairs.made(),
    }
}

fn is_ready(class: &FireboltEngineClass) -> bool {
    let type_: &str = EngineClassCondition::Ready.into();
    let conditions = class.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|known| known.type_ == type_ && known.status == "True")
}

#[cfg(test)]
mod tests {
    use firebolt_api::FireboltEngineClassStatus;
    use firebolt_core::plan::engine_class::Write;

    use super::*;

    fn status(bound_engines: i32) -> FireboltEngineClassStatus {
        FireboltEngineClassStatus {
            bound_engines,
            ..FireboltEngineClassStatus::default()
        }
    }

    fn paused(before: Option<i32>, next: Option<i32>, writes: &[Write], memory: &mut Memory) -> Option<Duration> {
        let class = FireboltEngineClass {
            status: before.map(status),
            ..FireboltEngineClass::default()
        };
        let plan = Plan {
            writes: writes.to_vec(),
            status: next.map(status),
            ..Plan::default()
        };
        pause(&class, &plan, memory)
    }

    #[tokio::test(start_paused = true)]
    async fn counts_keep_their_distance_and_nothing_else_does() {
        let mut memory = Memory::default();
        assert_eq!(paused(Some(1), Some(2), &[], &mut memory), Some(BETWEEN_COUNTS));
        assert_eq!(
            paused(None, Some(2), &[Write::AddFinalizer], &mut memory),
            None,
            "the first"
        );
        assert_eq!(
            paused(Some(1), Some(1), &[], &mut memory),
            None,
            "it says something else"
        );
        assert_eq!(paused(Some(1), None, &[], &mut memory), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fight_over_the_finalizer_is_not_fought_without_pause() {
        let mut memory = Memory::default();
        let mut waits = std::iter::repeat_with(|| paused(Some(0), None, &[Write::AddFinalizer], &mut memory)).take(100);
        assert!(waits.any(|wait| wait.is_some()));
        let mut memory = Memory::default();
        let mut rests = std::iter::repeat_with(|| paused(Some(0), None, &[], &mut memory)).take(100);
        assert!(rests.all(|wait| wait.is_none()), "what writes nothing does not fight");
    }
}
