//! How often the table may want something done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firebolt_api::AutoStopReason;
use firebolt_wake_agent::table::{Engine, List, Now, PATCH_TIMEOUT, Patch, Probe};

use super::{AFTER_A_STORED_PATCH, Checked, Probing, Witness, broken};

const BETWEEN_LISTS: Duration = Duration::from_millis(250);
const LONGEST_REST: Duration = Duration::from_secs(2);
const BETWEEN_PROBES: Duration = Duration::from_millis(100);
const AFTER_A_FAILED_PATCH: Duration = Duration::from_millis(500);

impl Witness {
    pub(super) fn list_begins(&mut self, now: Now, list: List) -> Checked<()> {
        let before = self.list_began.replace((list, now.monotonic));
        let ended = before
            .zip(self.list_ended)
            .filter(|((last, _), (ended, _))| last == ended);
        let took = ended.map(|((_, began), (_, ended))| (ended, ended.saturating_duration_since(began)));
        if let Some((ended, took)) = took
            && now.monotonic < ended + (took * 4).min(LONGEST_REST)
        {
            return broken("rest after listings", format!("{list:?} after one of {took:?}"));
        }
        if before.is_some_and(|(_, began)| now.monotonic < began + BETWEEN_LISTS) {
            return broken("rate of listings", format!("{list:?} after {before:?}"));
        }
        Ok(())
    }

    pub(super) fn probe_begins(&mut self, now: Now, probe: &Probe) -> Checked<()> {
        if self.believed(&probe.engine).is_none() {
            return broken("probed without need", format!("{probe:?} is on no list"));
        }
        let record = self.records.entry(Arc::clone(&probe.engine)).or_default();
        let last = record.probed.replace(now.monotonic);
        let round = record.round;
        if last.is_some_and(|last| now.monotonic < last + BETWEEN_PROBES) {
            return broken("rate of probes", format!("{probe:?} after {last:?}"));
        }
        let began = now.monotonic;
        self.probes.insert(probe.clone(), Probing { began, round });
        Ok(())
    }

    pub(super) fn patch_begins(&mut self, now: Now, patch: &Patch) -> Checked<()> {
        let believed = self.believed(&patch.engine);
        let needed = |engine: &Engine| engine.replicas == 0 && engine.auto_stop != Some(AutoStopReason::Disabled);
        if !believed.is_some_and(needed) {
            return broken("stamped without need", format!("{patch:?} for {believed:?}"));
        }
        let record = self.records.entry(Arc::clone(&patch.engine)).or_default();
        let at = now.monotonic;
        let soon = |moment: Option<Instant>, pause| moment.is_some_and(|moment| at < moment + pause);
        let ended = record.patch_stored.max(record.patch_failed) >= record.patch_began;
        if soon(record.patch_stored, AFTER_A_STORED_PATCH)
            || soon(record.patch_failed, AFTER_A_FAILED_PATCH)
            || (!ended && soon(record.patch_began, PATCH_TIMEOUT))
        {
            return broken("rate of patches", format!("{patch:?} after {record:?}"));
        }
        record.patch_began = Some(at);
        record.patch = Some(patch.clone());
        Ok(())
    }
}
