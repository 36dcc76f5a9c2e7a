//! Which answers are right.

use std::collections::BTreeMap;
use std::sync::Arc;

use firebolt_api::AutoStopReason;
use firebolt_wake_agent::hold::{Answer, Engine, FINAL_PROBE, Now, Refusal, Route, WaiterId};

use super::{AFTER_A_STORED_PATCH, Checked, Checker, Probing, violation};

impl Checker {
    pub(super) fn answered(
        &mut self,
        now: Now,
        waiter: &WaiterId,
        answer: &Answer,
        cause: Option<Probing>,
        rounds: &BTreeMap<Arc<str>, u32>,
    ) -> Checked<()> {
        let Some(waiting) = self.waiting.remove(waiter) else {
            return violation(
                "answered once",
                format!("{waiter:?} does not wait and is answered {answer:?}"),
            );
        };
        let engine = Arc::clone(&waiter.engine);
        let record = self.records.entry(engine.clone()).or_default().clone();
        let deadline = waiting.arrived + self.settings.hold_timeout;
        let listed_engine = self.listed_engine(&engine).cloned();
        let over = now.monotonic >= deadline;
        match answer {
            Answer::Route(Route::Released(_)) => {
                let round = rounds.get(&engine).copied().unwrap_or_default();
                let by_probe = cause.is_some_and(|probe| probe.round == round);
                let left_to_envoy = over && listed_engine.is_some_and(|engine| engine.ready);
                if !by_probe && !left_to_envoy {
                    return violation(
                        "released by a stale probe",
                        format!("{waiter:?} by {cause:?} in round {round}"),
                    );
                }
            }
            Answer::Refuse(Refusal::TimedOut(_)) => {
                let probed = record.probed.is_some_and(|probed| probed + FINAL_PROBE >= deadline);
                let probing = self.probes.iter().any(|(probe, _)| probe.engine == engine);
                if !over || !(probed || probing) {
                    return violation("timed out without a final probe", format!("{waiter:?}, {record:?}"));
                }
            }
            Answer::Refuse(Refusal::NotFound) => {
                let started = self.listed.as_ref().map(|(started, _)| *started);
                let newer = waiting.known || started >= Some(waiting.arrived);
                if listed_engine.is_some() || !newer {
                    return violation("not found", format!("{waiter:?} although {listed_engine:?}"));
                }
            }
            Answer::Refuse(Refusal::Stopped) => {
                let refused_for_good =
                    |engine: &Engine| engine.replicas == 0 && engine.auto_stop == Some(AutoStopReason::Disabled);
                if !listed_engine.as_ref().is_some_and(refused_for_good) {
                    return violation("stopped", format!("{waiter:?} although {listed_engine:?}"));
                }
            }
            Answer::Refuse(Refusal::Malformed | Refusal::Full) => {
                return violation(
                    "answered once",
                    format!("{waiter:?} was let in and is answered {answer:?}"),
                );
            }
            Answer::Route(Route::Ready | Route::Reachable | Route::FailOpen)
            | Answer::Refuse(Refusal::NotAllowed(_) | Refusal::Closing(_)) => {}
        }
        self.count_round(waiter);
        Ok(())
    }

    pub(super) fn refused_with_wake_request(&mut self, now: Now, name: &str) -> Checked<()> {
        let Some(engine) = self.listed_engine(name).filter(|engine| engine.replicas == 0) else {
            return Ok(());
        };
        let seen = engine
            .wake_requested
            .map(|at| now.wall.duration_since(at).unsigned_abs());
        let recent = seen.is_some_and(|age| age < AFTER_A_STORED_PATCH);
        let requested = self
            .records
            .get(name)
            .is_some_and(|record| record.patch_started.is_some());
        if recent || requested {
            return Ok(());
        }
        violation("refused without a wake request", format!("{engine:?}"))
    }
}
