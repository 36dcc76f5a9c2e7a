//! The gauges that every kind has. They show the caches at the time of the export, so they need no bookkeeping and disappear
//! with their object.

use firebolt_api::condition::{Condition, is_true};
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::{Store, Watched};
use firebolt_runtime::reconciler::LastSuccess;
use jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use strum::IntoEnumIterator;

use crate::caches::Caches;
use crate::probe::Pool;

/// What gauges are read from.
#[derive(Clone, Copy)]
pub(crate) struct GaugeSources<'a> {
    pub(crate) caches: &'a Caches,
    pub(crate) probes: &'a Pool,
}

/// The gauges of one kind, of which each object has a set.
pub(crate) trait KindGauges {
    /// The kind.
    type Object: Watched;

    /// All objects of the kind.
    fn objects<'a>(&self, caches: &'a Caches) -> &'a Store<Self::Object>;

    /// The gauges that every kind has.
    fn status(&self) -> &StatusGauges;

    /// The labels of an object.
    fn labels(&self, _object: &Self::Object, key: &ObjectKey) -> Labels {
        vec![("namespace", key.namespace.clone()), ("name", key.name.clone())]
    }

    /// Shows an object, except for its last success.
    fn show(&self, object: &Self::Object, key: &ObjectKey, labels: &Labels, sources: GaugeSources);

    /// Shows no object.
    fn clear(&self);

    /// Shows every readable object in the caches.
    fn fill(&self, sources: GaugeSources, last_success: &LastSuccess) {
        self.clear();
        for object in self.objects(sources.caches).all() {
            let Ok(object) = &object.0 else { continue };
            let key = ObjectKey::of(object);
            let labels = self.labels(object, &key);
            self.status().set_last_success(&labels, last_success.get(&key));
            self.show(object, &key, &labels, sources);
        }
    }
}

/// Label names and values, in the order of the export.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// A gauge per object.
pub(crate) type ObjectGauge = Family<Labels, Gauge>;

/// These labels and one more.
pub(crate) fn with(labels: &Labels, name: &'static str, value: impl Into<String>) -> Labels {
    labels.iter().cloned().chain([(name, value.into())]).collect()
}

/// The gauges of one kind about the status of each object.
#[derive(Debug, Default)]
pub(crate) struct StatusGauges {
    phase: ObjectGauge,
    condition: ObjectGauge,
    last_success: ObjectGauge,
}

impl StatusGauges {
    /// Registers the gauges under the prefix of the registry.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let gauges = Self::default();
        registry.register(
            "status_condition",
            "1 if the condition is True",
            gauges.condition.clone(),
        );
        registry.register(
            "last_reconciled_timestamp",
            "When the last successful reconcile ended, in seconds since 1970",
            gauges.last_success.clone(),
        );
        gauges
    }

    /// Registers the gauges of a kind that has phases.
    pub(crate) fn register_with_phases(registry: &mut Registry) -> Self {
        let gauges = Self::register(registry);
        registry.register(
            "status_phase",
            "1 for the phase of the object, 0 for the others",
            gauges.phase.clone(),
        );
        gauges
    }

    /// Shows no object.
    pub(crate) fn clear(&self) {
        self.phase.clear();
        self.condition.clear();
        self.last_success.clear();
    }

    /// Shows the phase of an object.
    pub(crate) fn set_phase<P>(&self, labels: &Labels, phase: Option<P>)
    where
        P: IntoEnumIterator + Into<&'static str> + PartialEq + Copy,
    {
        for known in P::iter() {
            let is_in = phase == Some(known);
            let name: &'static str = known.into();
            set(&self.phase, &with(labels, "phase", name), i64::from(is_in));
        }
    }

    /// Shows the conditions of an object, of those that its kind has.
    pub(crate) fn set_conditions<C>(&self, labels: &Labels, conditions: &[Condition])
    where
        C: IntoEnumIterator + Into<&'static str>,
    {
        for known in C::iter() {
            let name: &'static str = known.into();
            let is_true = is_true(conditions, name);
            set(&self.condition, &with(labels, "type", name), i64::from(is_true));
        }
    }

    /// Shows when the last successful reconcile of an object ended, if there was one.
    pub(crate) fn set_last_success(&self, labels: &Labels, time: Option<Timestamp>) {
        if let Some(time) = time {
            set(&self.last_success, labels, time.as_second());
        }
    }
}

/// Sets the gauge of one object.
pub(crate) fn set(gauge: &ObjectGauge, labels: &Labels, value: i64) {
    gauge.get_or_create(labels).set(value);
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase;
    use firebolt_api::condition::EngineCondition;
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn phases_and_conditions_are_exported_with_zeros_and_vanish_when_cleared() {
        let mut registry = Registry::default();
        let gauges = StatusGauges::register_with_phases(registry.sub_registry_with_prefix("k"));
        let labels = vec![("namespace", "n".to_owned()), ("name", "a".to_owned())];
        let ready: Condition = serde_json::from_value(serde_json::json!({
            "type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-11-16T12:00:00Z",
        }))
        .unwrap();
        gauges.set_phase(&labels, Some(EnginePhase::Stable));
        gauges.set_conditions::<EngineCondition>(&labels, &[ready]);
        gauges.set_last_success(&labels, Some(Timestamp::from_second(7).unwrap()));
        gauges.set_last_success(&with(&labels, "x", "y"), None);
        let exported = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let text = exported();
        for line in [
            r#"k_status_phase{namespace="n",name="a",phase="stable"} 1"#,
            r#"k_status_phase{namespace="n",name="a",phase="stopped"} 0"#,
            r#"k_status_condition{namespace="n",name="a",type="Ready"} 1"#,
            r#"k_status_condition{namespace="n",name="a",type="InstanceReady"} 0"#,
            r#"k_last_reconciled_timestamp{namespace="n",name="a"} 7"#,
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(!text.contains(r#"x="y""#), "{text}");
        gauges.clear();
        assert!(!exported().contains(r#"name="a""#));
    }
}
