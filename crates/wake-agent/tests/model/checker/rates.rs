//! How often the state machine may request something.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firebolt_api::AutoStopReason;
use firebolt_wake_agent::hold::{Engine, List, Now, PATCH_TIMEOUT, Patch, Probe};

use super::{AFTER_A_STORED_PATCH, Checked, Checker, Probing, violation};

const BETWEEN_LISTS: Duration = Duration::from_millis(250);
const MAX_COOLDOWN: Duration = Duration::from_secs(2);
const BETWEEN_PROBES: Duration = Duration::from_millis(100);
const AFTER_A_FAILED_PATCH: Duration = Duration::from_millis(500);

impl Checker {
    pub(super) fn list_starts(&mut self, now: Now, list: List) -> Checked<()> {
        let before = self.list_started.replace((list, now.monotonic));
        let ended = before
            .zip(self.list_ended)
            .filter(|((last, _), (ended, _))| last == ended);
        let took = ended.map(|((_, started), (_, ended))| (ended, ended.saturating_duration_since(started)));
        if let Some((ended, took)) = took
            && now.monotonic < ended + (took * 4).min(MAX_COOLDOWN)
        {
            return violation("cooldown after listings", format!("{list:?} after one of {took:?}"));
        }
        if before.is_some_and(|(_, started)| now.monotonic < started + BETWEEN_LISTS) {
            return violation("rate of listings", format!("{list:?} after {before:?}"));
        }
        Ok(())
    }

    pub(super) fn probe_starts(&mut self, now: Now, probe: &Probe) -> Checked<()> {
        if self.listed_engine(&probe.engine).is_none() {
            return violation("probed without need", format!("{probe:?} is not listed"));
        }
        let record = self.records.entry(Arc::clone(&probe.engine)).or_default();
        let last = record.probed.replace(now.monotonic);
        let round = record.round;
        if last.is_some_and(|last| now.monotonic < last + BETWEEN_PROBES) {
            return violation("rate of probes", format!("{probe:?} after {last:?}"));
        }
        let started = now.monotonic;
        self.probes.insert(probe.clone(), Probing { started, round });
        Ok(())
    }

    pub(super) fn patch_starts(&mut self, now: Now, patch: &Patch) -> Checked<()> {
        let listed_engine = self.listed_engine(&patch.engine);
        let needed = |engine: &Engine| engine.replicas == 0 && engine.auto_stop != Some(AutoStopReason::Disabled);
        if !listed_engine.is_some_and(needed) {
            return violation(
                "wake requested without need",
                format!("{patch:?} for {listed_engine:?}"),
            );
        }
        let record = self.records.entry(Arc::clone(&patch.engine)).or_default();
        let at = now.monotonic;
        let soon = |moment: Option<Instant>, pause| moment.is_some_and(|moment| at < moment + pause);
        let ended = record.patch_stored.max(record.patch_failed) >= record.patch_started;
        if soon(record.patch_stored, AFTER_A_STORED_PATCH)
            || soon(record.patch_failed, AFTER_A_FAILED_PATCH)
            || (!ended && soon(record.patch_started, PATCH_TIMEOUT))
        {
            return violation("rate of patches", format!("{patch:?} after {record:?}"));
        }
        record.patch_started = Some(at);
        record.patch = Some(patch.clone());
        Ok(())
    }
}
