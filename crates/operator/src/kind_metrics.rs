//! What is measured of every kind that is reconciled.

use firebolt_api::key::FIELD_MANAGER;
use firebolt_runtime::reconciler::{ControllerMetrics, ReconcileMetrics};
use firebolt_runtime::write::{WriteAccess, WriteMetrics};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::context::Context;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabel {
    decision: String,
}

/// The metrics of one kind.
#[derive(Debug)]
pub(crate) struct KindMetrics {
    /// Its reconciles.
    pub(crate) controller: ControllerMetrics,
    writes: WriteMetrics,
    decisions: Family<DecisionLabel, Counter>,
}

impl KindMetrics {
    /// Registers the metrics, some of them under the prefix of the registry. `objects` is the plural of the kind in words.
    pub(crate) fn register(
        registry: &mut Registry,
        reconciles: &ReconcileMetrics,
        controller: &'static str,
        objects: &str,
    ) -> Self {
        let decisions = Family::default();
        registry.register(
            "decisions",
            format!("Total number of decisions about {objects}, by the reason of the event that reports it"),
            decisions.clone(),
        );
        Self {
            controller: reconciles.controller(controller),
            writes: WriteMetrics::register(registry),
            decisions,
        }
    }

    /// An event with this reason was emitted.
    pub(crate) fn decided(&self, decision: &str) {
        let decision = decision.to_owned();
        self.decisions.get_or_create(&DecisionLabel { decision }).inc();
    }
}

/// What the writers of a controller share.
pub(crate) fn write_access(context: &Context, metrics: &KindMetrics) -> WriteAccess {
    WriteAccess {
        client: context.client.clone(),
        leadership: context.leadership.clone(),
        field_manager: FIELD_MANAGER,
        metrics: metrics.writes.clone(),
    }
}
