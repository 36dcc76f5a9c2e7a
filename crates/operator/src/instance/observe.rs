//! What was found, compared with what is wanted.

use std::collections::BTreeMap;

use firebolt_api::key::{Annotation, Component as ComponentLabel, Label};
use firebolt_core::plan::Child;
use firebolt_core::plan::instance::{Component, Database, Kind, Leftover, Object, Observed, Workload};
use firebolt_core::pods;
use firebolt_core::render::is_intact;
use firebolt_core::resolve::instance::EffectiveInstance;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use strum::IntoEnumIterator;

use super::credentials;
use super::found::Found;
use super::memory::Mark;
use super::objects::{Objects, Rendered, named, rendered};
use crate::seen::meta;
use crate::watches::Credentials;
use crate::write::Fields;

/// An object, and how our fields of it are recorded.
type Seen = (Child, Fields);

/// How what was found looks to the one who decides.
pub struct Looking<'a> {
    /// What is wanted.
    pub effective: &'a EffectiveInstance,
    /// Which states of objects are as good as it gets.
    pub settled: &'a BTreeMap<Object, Mark>,
}

/// What was found, compared with what is wanted.
pub struct Sight {
    /// What decisions are made from, but for what only memory knows.
    pub observed: Observed,
    /// How our fields of each object are recorded.
    pub fields: BTreeMap<Object, Fields>,
    /// What stands for the credentials in the pods that use them.
    pub credentials_hash: Option<String>,
}

impl Looking<'_> {
    /// Compares everything.
    pub fn at(&self, found: &Found) -> Sight {
        let (credentials, credentials_hash) = credentials::judge(&found.credentials, self.effective);
        let (mut objects, mut fields) = (BTreeMap::new(), BTreeMap::new());
        for object in Object::iter() {
            let rendered = rendered(object, self.effective, credentials_hash.as_deref());
            if let Some((child, recorded)) = self.child(object, &found.objects, rendered) {
                objects.insert(object, child);
                fields.insert(object, recorded);
            }
        }
        let observed = Observed {
            leftovers: self.leftovers(&objects, found),
            objects,
            workloads: self.workloads(&found.objects),
            credentials,
            claim: found.claim.is_some(),
            database: self.database(&found.objects),
            engines: found.engines.clone(),
            refused: BTreeMap::new(),
        };
        Sight {
            observed,
            fields,
            credentials_hash,
        }
    }

    fn child(&self, object: Object, objects: &Objects, rendered: Option<Rendered>) -> Option<Seen> {
        let name = object.name(&self.effective.name);
        let Some(rendered) = rendered else {
            // What cannot be rendered cannot be compared.
            let unknown = named(&objects.deployments, &name).filter(|_| object == Object::MetadataDeployment)?;
            let meta = meta(unknown, &self.effective.uid);
            return Some((Child { meta, intact: true }, Fields::of(&unknown.metadata)));
        };
        match rendered {
            Rendered::StatefulSet(rendered) => self.compare(object, &rendered, named(&objects.stateful_sets, &name)),
            Rendered::Deployment(rendered) => self.compare(object, &rendered, named(&objects.deployments, &name)),
            Rendered::Service(rendered) => self.compare(object, &rendered, named(&objects.services, &name)),
            Rendered::ConfigMap(rendered) => self.compare(object, &rendered, named(&objects.config_maps, &name)),
            Rendered::ServiceAccount(rendered) => {
                self.compare(object, &rendered, named(&objects.service_accounts, &name))
            }
            Rendered::Role(rendered) => self.compare(object, &rendered, named(&objects.roles, &name)),
            Rendered::RoleBinding(rendered) => self.compare(object, &rendered, named(&objects.role_bindings, &name)),
            Rendered::PodDisruptionBudget(rendered) => {
                self.compare(object, &rendered, named(&objects.disruption_budgets, &name))
            }
        }
    }

    fn compare<K: Resource + Serialize>(&self, object: Object, rendered: &K, live: Option<&K>) -> Option<Seen> {
        let live = live?;
        let settled = || self.settled.get(&object) == Some(&Mark::of(rendered, live));
        let child = Child {
            meta: meta(live, &self.effective.uid),
            intact: is_intact(rendered, live) || settled(),
        };
        Some((child, Fields::of(live.meta())))
    }

    /// What the objects of the metadata service say they were set up with.
    fn database(&self, objects: &Objects) -> Option<Database> {
        let recorded = |metadata: &ObjectMeta| -> Option<Database> {
            let annotations = metadata.annotations.as_ref()?;
            annotations.get(Annotation::Postgres.key())?.parse().ok()
        };
        let owned = |metadata: &&ObjectMeta| {
            let mut owners = metadata.owner_references.iter().flatten();
            owners.any(|owner| owner.uid == self.effective.uid)
        };
        let deployment = named(
            &objects.deployments,
            &Object::MetadataDeployment.name(&self.effective.name),
        );
        let config = named(&objects.config_maps, &Object::MetadataConfig.name(&self.effective.name));
        let records = [
            deployment.map(|object| &object.metadata),
            config.map(|object| &object.metadata),
        ];
        records.into_iter().flatten().filter(owned).find_map(recorded)
    }

    fn workloads(&self, objects: &Objects) -> BTreeMap<Component, Workload> {
        let name = |object: Object| object.name(&self.effective.name);
        let set = named(&objects.stateful_sets, &name(Object::PostgresSet)).map(of_stateful_set);
        let metadata = named(&objects.deployments, &name(Object::MetadataDeployment)).map(of_deployment);
        let gateway = named(&objects.deployments, &name(Object::GatewayDeployment)).map(of_deployment);
        let workloads = [
            (Component::Postgres, ComponentLabel::Postgres, set),
            (Component::Metadata, ComponentLabel::Metadata, metadata),
            (Component::Gateway, ComponentLabel::Gateway, gateway),
        ];
        let with_causes = workloads.into_iter().filter_map(|(component, label, workload)| {
            let causes = pods::causes(pods_of(&objects.pods, label));
            Some((component, Workload { causes, ..workload? }))
        });
        with_causes.collect()
    }

    fn leftovers(&self, objects: &BTreeMap<Object, Child>, found: &Found) -> Vec<Leftover> {
        let ours = objects.iter().map(|(object, child)| Leftover {
            component: object.component(),
            last: false,
            kind: object.kind(),
            name: object.name(&self.effective.name),
            meta: child.meta.clone(),
        });
        let claim = found.claim.as_ref().map(|claim| Leftover {
            component: Component::Postgres,
            last: true,
            kind: Kind::PersistentVolumeClaim,
            name: claim.name_any(),
            meta: firebolt_core::plan::Meta {
                owned: self.is_of_postgres(claim),
                ..meta(claim, &self.effective.uid)
            },
        });
        let used = match &found.credentials {
            Credentials::Found(secret) => Some(secret),
            Credentials::Unknown(_) | Credentials::Missing => None,
        };
        let secrets = used.into_iter().chain(&found.own_credentials).map(|secret| Leftover {
            component: Component::Postgres,
            last: true,
            kind: Object::PostgresCredentials.kind(),
            name: secret.metadata.name.clone().unwrap_or_default(),
            meta: meta(&**secret, &self.effective.uid),
        });
        ours.chain(claim).chain(secrets).collect()
    }

    /// Claims have no owner, so that data outlives the StatefulSet. Ours has the name that Kubernetes derives from it, and
    /// the labels that we gave it.
    fn is_of_postgres(&self, claim: &PersistentVolumeClaim) -> bool {
        let label = |label: Label| claim.labels().get(label.key()).map(String::as_str);
        label(Label::Instance) == Some(&self.effective.name)
            && label(Label::Component) == Some(ComponentLabel::Postgres.key())
    }
}

fn pods_of(pods: &[Pod], component: ComponentLabel) -> impl Iterator<Item = &Pod> {
    pods.iter()
        .filter(move |pod| pod.labels().get(Label::Component.key()).map(String::as_str) == Some(component.key()))
        .filter(|pod| !pods::is_terminating(pod))
}

fn of_deployment(live: &Deployment) -> Workload {
    let status = live.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let progress = conditions.iter().find(|condition| condition.type_ == "Progressing");
    Workload {
        wanted: live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        observed: status.observed_generation >= live.metadata.generation,
        updated: status.updated_replicas.unwrap_or(0),
        total: status.replicas.unwrap_or(0),
        ready: status.ready_replicas.unwrap_or(0),
        overdue: progress.is_some_and(|progress| progress.reason.as_deref() == Some("ProgressDeadlineExceeded")),
        causes: Vec::new(),
    }
}

fn of_stateful_set(live: &StatefulSet) -> Workload {
    let status = live.status.clone().unwrap_or_default();
    Workload {
        wanted: live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        observed: status.observed_generation >= live.metadata.generation,
        updated: status.updated_replicas.unwrap_or(0),
        total: status.replicas,
        ready: status.ready_replicas.unwrap_or(0),
        overdue: false,
        causes: Vec::new(),
    }
}
