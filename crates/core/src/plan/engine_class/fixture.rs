//! Fixtures of classes: `class().bound(&["a"]).deleting()`.

use firebolt_api::FireboltEngineClass;
use firebolt_api::condition::Condition;
use firebolt_api::key::Finalizer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{Input, Limits, Observed, Plan, plan};
use crate::plan::Reads;

/// One test case.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub class: FireboltEngineClass,
    pub observed: Observed,
    pub limits: Limits,
}

/// A class with the finalizer of the operator that has not been reconciled yet, and that no engine references.
pub(super) fn class() -> Case {
    let metadata = json!({
        "name": "large", "namespace": "data", "uid": "class", "generation": 1,
        "finalizers": [Finalizer::EngineClass.key()],
    });
    let class = json!({
        "apiVersion": "v", "kind": "FireboltEngineClass", "metadata": metadata, "spec": { "template": {} },
    });
    Case {
        class: serde_json::from_value(class).expect("a class"),
        observed: Observed {
            at: "2026-11-16T12:00:00Z".parse().expect("a time"),
            bound: Vec::new(),
            unreadable: Vec::new(),
            reads: Reads::Cached,
        },
        limits: Limits::default(),
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Case {
    /// Any other change.
    pub(super) fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// These engines reference it.
    pub(super) fn bound(self, names: &[&str]) -> Self {
        self.but(|case| case.observed.bound = owned(names))
    }

    /// These engines cannot be read.
    pub(super) fn unreadable(self, names: &[&str]) -> Self {
        self.but(|case| case.observed.unreadable = owned(names))
    }

    /// The engines were listed live.
    pub(super) fn live(self) -> Self {
        self.but(|case| case.observed.reads = Reads::Live)
    }

    /// Edited to have this template.
    pub(super) fn template(self, template: &Value) -> Self {
        self.but(|case| {
            case.class.spec.template = serde_json::from_value(template.clone()).expect("a template");
            case.class.metadata.generation = case.class.metadata.generation.map(|number| number + 1);
        })
    }

    /// Edited to set a field that the operator manages.
    pub(super) fn bad(self) -> Self {
        self.template(&json!({ "spec": { "containers": [{ "name": "engine", "command": ["sh"] }] } }))
    }

    /// Sets its finalizers.
    pub(super) fn finalizers(self, names: &[&str]) -> Self {
        self.but(|case| case.class.metadata.finalizers = Some(owned(names)))
    }

    /// It is being deleted, which increments the generation.
    pub(super) fn deleting(self) -> Self {
        self.but(|case| {
            case.class.metadata.deletion_timestamp = Some(Time(case.observed.at));
            case.class.metadata.generation = case.class.metadata.generation.map(|number| number + 1);
        })
    }

    /// A minute later, with the plan applied.
    pub(super) fn done(self) -> Self {
        let status = self.plan().status;
        self.but(|case| {
            case.class.status = status.or_else(|| case.class.status.take());
            case.observed.at += jiff::SignedDuration::from_mins(1);
        })
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.input())
    }

    pub(super) fn needs_live_reads(&self) -> bool {
        self.plan().reads_needed(self.observed.reads).is_some()
    }

    /// The `Ready` condition after the plan.
    pub(super) fn ready(&self) -> Condition {
        let status = self.plan().status.or_else(|| self.class.status.clone());
        let mut conditions = status.expect("a status").conditions.into_iter();
        conditions.find(|known| known.type_ == "Ready").expect("the condition")
    }

    fn input(&self) -> Input<'_> {
        Input {
            class: &self.class,
            observed: &self.observed,
            limits: self.limits,
        }
    }
}
