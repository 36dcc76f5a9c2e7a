//! Known-bad variants. Each makes one mistake, in the input or the output of the production function, and a named
//! check must find it: a check that finds nothing wrong with these proves nothing.

use firebolt_api::key::Annotation;
use firebolt_api::name::{EngineNames, GENERATION_NAMES};
use firebolt_api::{EnginePhase, FireboltEngine, FireboltEngineStatus};
use firebolt_core::plan::engine::{DeletedObject, EngineObjectKind, EngineWrite, Input, Observed, Plan};
use jiff::Timestamp;

use crate::world::{NAME, SWITCH_NOTICE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    AdvanceWithoutReadyPods,
    FlipActiveWithoutTheService,
    KeepDrainingInCleaning,
    SweepWithoutActive,
    SweepWithoutDraining,
    SweepWithoutFloor,
    HonourExpiredWake,
    StoppedAboveWake,
    DeleteWithoutOwnerCheck,
    OverwriteStatus,
    WriteFromAStaleEngine,
    TrustCaches,
    CountFromBeforeTheSwitch,
    StartAGenerationWhileDraining,
    RollWithoutCause,
    WriteStatusEveryReconcile,
    ParkOnMissingData,
    LeaveOrphans,
    StopWithoutNotice,
    CountDuringTheNotice,
    NoticeFromTheLastStatus,
    BlockStopsBehindGates,
    DrainBeforeResuming,
    StopAtARefusedDelete,
    StopAtTheLastName,
}

impl Bad {
    /// Writes go ahead although the engine has changed since it was read.
    pub(crate) fn unfenced(self, plan: &Plan) -> bool {
        let sweeps = !plan.writes.is_empty() && plan.writes.iter().all(|write| matches!(write, EngineWrite::Delete(_)));
        matches!(self, Self::WriteFromAStaleEngine | Self::OverwriteStatus)
            || (self == Self::SweepWithoutFloor && sweeps)
    }

    pub(crate) fn distort_input(self, engine: &mut FireboltEngine, observed: &mut Observed, now: Timestamp) {
        let status = engine.status.as_ref();
        match self {
            Self::AdvanceWithoutReadyPods => {
                for generation in observed.generations.values_mut() {
                    generation.pods.ready = generation.pods.total;
                }
            }
            Self::FlipActiveWithoutTheService => {
                let switching = status.filter(|status| status.phase == Some(EnginePhase::Switching));
                if let (Some(status), Some(routing)) = (switching, &mut observed.routing) {
                    routing.target = Some(status.current_generation);
                }
            }
            Self::HonourExpiredWake => {
                let annotations = engine.metadata.annotations.iter_mut().flatten();
                for (_, value) in annotations.filter(|(key, _)| *key == Annotation::WakeRequested.key()) {
                    *value = now.to_string();
                }
            }
            Self::DeleteWithoutOwnerCheck => {
                for set in observed
                    .generations
                    .values_mut()
                    .filter_map(|seen| seen.stateful_set.as_mut())
                {
                    set.meta.owned = true;
                }
            }
            Self::CountFromBeforeTheSwitch => {
                if let (Some(sample), Some(since)) = (&mut observed.drain, observed.unrouted_since) {
                    sample.began = since + SWITCH_NOTICE;
                }
            }
            Self::CountDuringTheNotice => {
                if let (Some(sample), Some(since)) = (&mut observed.drain, observed.unrouted_since)
                    && sample.began >= since
                {
                    sample.began = since + SWITCH_NOTICE;
                }
            }
            Self::NoticeFromTheLastStatus => {
                let switching = status.filter(|status| status.phase == Some(EnginePhase::Switching));
                let written = switching.and_then(|status| status.last_reconciled.as_ref());
                for set in observed
                    .generations
                    .values_mut()
                    .filter_map(|seen| seen.stateful_set.as_mut())
                {
                    set.created = written.map_or(set.created, |written| written.0);
                }
            }
            Self::ParkOnMissingData => {
                if let Some(sample) = &mut observed.activity {
                    sample.taken = now;
                    sample.outcome = firebolt_core::plan::engine::Activity::Quiet {
                        since: Timestamp::UNIX_EPOCH,
                    };
                }
            }
            Self::StopWithoutNotice => {
                let sets = observed.generations.values_mut();
                for set in sets.filter_map(|seen| seen.stateful_set.as_mut()) {
                    set.created = Timestamp::UNIX_EPOCH;
                }
            }
            Self::KeepDrainingInCleaning
            | Self::SweepWithoutActive
            | Self::SweepWithoutDraining
            | Self::SweepWithoutFloor
            | Self::StoppedAboveWake
            | Self::OverwriteStatus
            | Self::WriteFromAStaleEngine
            | Self::TrustCaches
            | Self::StartAGenerationWhileDraining
            | Self::RollWithoutCause
            | Self::WriteStatusEveryReconcile
            | Self::BlockStopsBehindGates
            | Self::DrainBeforeResuming
            | Self::StopAtARefusedDelete
            | Self::StopAtTheLastName
            | Self::LeaveOrphans => {}
        }
    }

    pub(crate) fn distort_plan(self, input: &Input, plan: &mut Plan) {
        let before = input.engine.status.as_ref();
        let phase = before.and_then(|status| status.phase);
        match self {
            Self::KeepDrainingInCleaning => {
                if let (Some(EnginePhase::Cleaning), Some(status), Some(before)) = (phase, &mut plan.status, before) {
                    status.draining_generation = before.draining_generation;
                }
            }
            Self::SweepWithoutActive => sweep(input, plan, before.map(|status| status.active_generation)),
            Self::SweepWithoutDraining => sweep(input, plan, before.and_then(|status| status.draining_generation)),
            Self::SweepWithoutFloor => {
                let above = before.map(|status| status.current_generation + 1);
                sweep(input, plan, above);
            }
            Self::StoppedAboveWake => {
                let wakes = |write: &EngineWrite| matches!(write, EngineWrite::SetReplicas { from: 0, .. });
                if plan.writes.iter().any(wakes) {
                    plan.writes.retain(|write| !wakes(write));
                    plan.status = None;
                }
            }
            Self::StartAGenerationWhileDraining => {
                if let (Some(EnginePhase::Draining), Some(status)) = (phase, &mut plan.status) {
                    status.current_generation += 1;
                    status.phase = Some(EnginePhase::Creating);
                    status.draining_generation = None;
                }
            }
            Self::RollWithoutCause => {
                if let (Some(EnginePhase::Stable), Some(status)) = (phase, &mut plan.status) {
                    status.current_generation += i64::from(status.phase == Some(EnginePhase::Stable));
                    status.phase = Some(EnginePhase::Creating);
                }
            }
            Self::WriteStatusEveryReconcile => {
                plan.status = plan.status.take().or_else(|| before.cloned());
            }
            Self::LeaveOrphans => {
                let cleaning = phase == Some(EnginePhase::Cleaning);
                plan.writes
                    .retain(|write| cleaning || !matches!(write, EngineWrite::Delete(_)));
            }
            Self::BlockStopsBehindGates => forget_rollout(plan, before, input.desired.is_err()),
            Self::DrainBeforeResuming => forget_rollout(plan, before, phase == Some(EnginePhase::Draining)),
            Self::StopAtTheLastName => {
                let next = plan.status.as_ref().map(|status| status.current_generation);
                forget_rollout(plan, before, next >= Some(GENERATION_NAMES));
            }
            Self::AdvanceWithoutReadyPods
            | Self::FlipActiveWithoutTheService
            | Self::CountDuringTheNotice
            | Self::NoticeFromTheLastStatus
            | Self::StopAtARefusedDelete
            | Self::HonourExpiredWake
            | Self::DeleteWithoutOwnerCheck
            | Self::OverwriteStatus
            | Self::WriteFromAStaleEngine
            | Self::TrustCaches
            | Self::CountFromBeforeTheSwitch
            | Self::ParkOnMissingData
            | Self::StopWithoutNotice => {}
        }
    }
}

/// No generation is started in a case in which it should be.
fn forget_rollout(plan: &mut Plan, before: Option<&FireboltEngineStatus>, in_this_case: bool) {
    let current = |status: &FireboltEngineStatus| status.current_generation;
    if in_this_case && plan.status.as_ref().map(current) > before.map(current) {
        plan.status = None;
        plan.writes.clear();
    }
}

/// A sweep that has forgotten to keep one generation.
fn sweep(input: &Input, plan: &mut Plan, forgotten: Option<i64>) {
    let Some(number) = forgotten else { return };
    let seen = input.observed.generations.get(&number);
    let set = seen
        .and_then(|seen| seen.stateful_set.as_ref())
        .filter(|set| set.meta.owned && !set.meta.terminating);
    plan.writes.extend(set.map(|set| {
        EngineWrite::Delete(DeletedObject {
            kind: EngineObjectKind::StatefulSet,
            name: EngineNames(NAME).stateful_set(number),
            uid: set.meta.uid.clone(),
        })
    }));
}
