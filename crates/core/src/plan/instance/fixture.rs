//! Fixtures of instances: `instance().ready().lost(Object::MetadataService)`.

use std::collections::BTreeMap;

use firebolt_api::condition::InstanceCondition;
use firebolt_api::key::Finalizer;
use firebolt_api::{FireboltInstance, FireboltInstanceStatus, InstancePhase};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::json;
use strum::IntoEnumIterator;

use super::{
    Component, Credentials, Database, Desired, Input, InstanceObject, Leftover, Limits, Observed, Order, Plan,
    Workload, plan, stuck,
};
use crate::plan::{Meta, ObservedChild};

/// One test case.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub instance: FireboltInstance,
    pub desired: Desired,
    pub observed: Observed,
    /// What the API server rejected.
    pub rejected: BTreeMap<Component, String>,
}

/// A new instance with the finalizer of the operator and an identifier, without any other object.
pub(super) fn instance() -> Case {
    let spec = json!({ "id": "01J00000000000000000000000", "metadata": {}, "gateway": {} });
    let metadata = json!({
        "name": "main", "namespace": "data", "uid": "instance", "generation": 1, "finalizers": [Finalizer::Instance.key()],
    });
    let instance = json!({ "apiVersion": "v", "kind": "FireboltInstance", "metadata": metadata, "spec": spec });
    Case {
        instance: serde_json::from_value(instance).expect("an instance"),
        desired: Desired {
            metadata_endpoint: "metadata:7000".to_owned(),
            gateway_endpoint: "gateway".to_owned(),
            database: Database::Internal,
            credentials: "main-metadata-postgres-creds".to_owned(),
            claim: "data-main-metadata-pg-0".to_owned(),
            own_account: true,
            rejected: BTreeMap::new(),
        },
        observed: Observed {
            credentials: Credentials::Missing,
            ..Observed::default()
        },
        rejected: BTreeMap::new(),
    }
}

/// Metadata of an owned object.
pub(super) fn ours(uid: &str) -> Meta {
    Meta {
        uid: uid.to_owned(),
        owned: true,
        terminating: false,
        foreign_finalizers: Vec::new(),
    }
}

/// Pods of which this many are ready, all with the newest spec.
pub(super) fn pods(desired: i32, ready: i32) -> Workload {
    Workload {
        desired,
        observed: true,
        updated: desired,
        total: desired,
        ready,
        ..Workload::default()
    }
}

impl Case {
    /// Every object exists and is ready.
    pub(super) fn ready(self) -> Self {
        let case = InstanceObject::iter().fold(self, Case::has);
        Component::iter().fold(case, |case, component| case.pods(component, pods(1, 1)))
    }

    /// This object exists, as desired.
    pub(super) fn has(mut self, object: InstanceObject) -> Self {
        let child = ObservedChild {
            meta: ours(&format!("{object:?}")),
            intact: true,
        };
        self.observed.objects.insert(object, child);
        match object {
            InstanceObject::PostgresCredentials => self.observed.credentials = Credentials::Usable,
            InstanceObject::MetadataConfig | InstanceObject::MetadataDeployment => {
                self.observed.database.get_or_insert(self.desired.database);
            }
            _ => {}
        }
        self
    }

    /// This object is missing.
    pub(super) fn lost(mut self, object: InstanceObject) -> Self {
        self.observed.objects.remove(&object);
        if object == InstanceObject::PostgresCredentials {
            self.observed.credentials = Credentials::Missing;
        }
        self
    }

    /// Changes the object.
    pub(super) fn with(mut self, object: InstanceObject, change: impl FnOnce(&mut ObservedChild)) -> Self {
        change(self.observed.objects.get_mut(&object).expect("the object is there"));
        self
    }

    /// The pods of a component.
    pub(super) fn pods(mut self, component: Component, workload: Workload) -> Self {
        self.observed.workloads.insert(component, workload);
        self
    }

    /// Any other change.
    pub(super) fn but(mut self, change: impl FnOnce(&mut Case)) -> Self {
        change(&mut self);
        self
    }

    /// An external database is desired.
    pub(super) fn external(self) -> Self {
        self.but(|case| case.desired.database = Database::External)
    }

    /// These engines reference it.
    pub(super) fn engines(self, names: &[&str]) -> Self {
        self.but(|case| case.observed.engines = names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Sets the phase in its status.
    pub(super) fn at(self, phase: InstancePhase) -> Self {
        self.but(|case| case.instance.status.get_or_insert_default().phase = Some(phase))
    }

    /// Takes over the planned status.
    pub(super) fn reported(self) -> Self {
        let status = self.plan().status;
        self.but(|case| case.instance.status = status.or_else(|| case.instance.status.take()))
    }

    /// It is being deleted, and all objects are observed.
    pub(super) fn deleting(self) -> Self {
        self.but(|case| {
            case.instance.metadata.deletion_timestamp = Some(Time(now()));
            let objects = case.observed.objects.iter();
            case.observed.leftovers = objects
                .map(|(object, child)| Leftover {
                    component: object.component(),
                    order: match object {
                        InstanceObject::PostgresCredentials => Order::Last,
                        _ => Order::First,
                    },
                    kind: object.kind(),
                    name: object.name("main"),
                    meta: child.meta.clone(),
                })
                .collect();
        })
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.input())
    }

    pub(super) fn needs_live_reads(&self) -> bool {
        self.plan().needs_live_reads(&self.input())
    }

    /// The status if the API server rejects a request.
    pub(super) fn stuck(&self, message: &str) -> Option<FireboltInstanceStatus> {
        stuck(&self.instance, message.to_owned(), now())
    }

    /// The status after the plan.
    pub(super) fn status(&self) -> FireboltInstanceStatus {
        let planned = self.plan().status.or_else(|| self.instance.status.clone());
        planned.expect("a status")
    }

    /// A condition after the plan.
    pub(super) fn condition(&self, kind: InstanceCondition) -> Condition {
        let type_: &str = kind.into();
        let mut conditions = self.status().conditions.into_iter();
        conditions.find(|known| known.type_ == type_).expect("the condition")
    }

    fn input(&self) -> Input<'_> {
        Input {
            instance: &self.instance,
            desired: &self.desired,
            observed: &self.observed,
            limits: Limits {
                rejected: &self.rejected,
                ..Limits::default()
            },
            fresh_id: "01JFRESH",
            now: now(),
        }
    }
}

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().expect("a time")
}
