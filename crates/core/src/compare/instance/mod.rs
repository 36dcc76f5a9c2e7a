//! The objects of an instance, compared with its desired state.

mod credentials;
#[cfg(test)]
mod fixture;
mod objects;
mod outdated;
mod workload;

use std::collections::BTreeMap;

use firebolt_api::key::{Annotation, Component as ComponentLabel, Label};
use firebolt_api::{FireboltInstance, InstancePhase};
use jiff::Timestamp;
use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use strum::IntoEnumIterator;

use self::outdated::OutdatedComponents;
use super::{meta, meta_of, name_of, named};
use crate::desired::instance::database;
use crate::plan::instance::{Component, Database, InstanceObject, InstanceObjectKind, Leftover, Observed, Order};
use crate::plan::{Meta, ObservedChild, Reads};
use crate::render::instance::CREDENTIALS_VOLUME;
use crate::render::{differences, is_intact};
use crate::resolve::instance::EffectiveInstance;

pub use credentials::{SecretLookup, SecretOutline};
pub use objects::{InstanceObjects, Rendered};

/// Everything that was read about one instance.
#[derive(Clone, Debug, Default)]
pub struct InstanceSnapshot {
    /// When it was read.
    pub at: Timestamp,
    /// Where it was read.
    pub reads: Reads,
    /// The objects.
    pub objects: InstanceObjects,
    /// The Secret with the credentials of the database.
    pub credentials: SecretLookup,
    /// The Secret of our own PostgreSQL, if another database is used by now. Looked for in live reads only.
    pub own_credentials: Option<SecretOutline>,
    /// The claim with the data of PostgreSQL. Looked for in live reads only.
    pub claim: Option<PersistentVolumeClaim>,
    /// The engines that refer to the instance, by name.
    pub engines: Vec<String>,
}

impl InstanceSnapshot {
    /// Whether the Service of the gateway has IPv6 addresses.
    #[must_use]
    pub fn has_ipv6(&self, instance: &FireboltInstance) -> bool {
        let name = InstanceObject::GatewayService.name(instance.metadata.name.as_deref().unwrap_or_default());
        let service = named(&self.objects.services, &name);
        let families = service.and_then(|service| service.spec.as_ref()?.ip_families.as_ref());
        families.into_iter().flatten().any(|family| family == "IPv6")
    }
}

/// The difference that was left between an object as rendered and as stored, right after it was applied: an admission
/// policy of the cluster changes it. As long as it stays the same, it is not drift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedDrift {
    rendered: String,
    uid: Option<String>,
    differences: Vec<String>,
}

impl AcceptedDrift {
    /// The difference between an object as rendered and as stored; none if there is none.
    #[must_use]
    pub fn between<K: Metadata<Ty = ObjectMeta> + Serialize>(rendered: &K, live: &K) -> Option<Self> {
        let differences = differences(rendered, live);
        (!differences.is_empty()).then(|| Self {
            rendered: serde_json::to_string(rendered).unwrap_or_default(),
            uid: live.metadata().uid.clone(),
            differences,
        })
    }
}

/// An instance compared with what was read about it.
#[derive(Clone, Debug)]
pub struct InstanceComparison {
    /// What decisions are made from.
    pub observed: Observed,
    /// What to write: each object as rendered, by this version of the operator or by the one that rendered its pods.
    pub rendered: BTreeMap<InstanceObject, Rendered>,
}

/// Compares everything that was read with what is rendered.
#[must_use]
pub fn compare(
    instance: &FireboltInstance,
    effective: &EffectiveInstance,
    snapshot: &InstanceSnapshot,
    accepted: &BTreeMap<InstanceObject, AcceptedDrift>,
) -> InstanceComparison {
    let settled = is_settled(instance);
    let comparator = InstanceComparator {
        effective,
        accepted,
        settled,
    };
    comparator.of(snapshot)
}

/// Whether all that the spec says was applied.
fn is_settled(instance: &FireboltInstance) -> bool {
    instance.status.as_ref().is_some_and(|status| {
        status.phase == Some(InstancePhase::Ready) && status.observed_generation == instance.metadata.generation
    })
}

struct InstanceComparator<'a> {
    effective: &'a EffectiveInstance,
    accepted: &'a BTreeMap<InstanceObject, AcceptedDrift>,
    settled: bool,
}

impl InstanceComparator<'_> {
    fn of(&self, snapshot: &InstanceSnapshot) -> InstanceComparison {
        let (credentials, credentials_hash) = credentials::check(&snapshot.credentials, self.effective);
        let all = InstanceObject::iter();
        let renderings = all.filter_map(|object| {
            Some((
                object,
                objects::rendered(object, self.effective, credentials_hash.as_deref())?,
            ))
        });
        let mut rendered = renderings.collect();
        let outdated_components = OutdatedComponents {
            effective: self.effective,
            live: &snapshot.objects,
            settled: self.settled,
        };
        let outdated = outdated_components.keep(&mut rendered);
        let mut objects = BTreeMap::new();
        for object in InstanceObject::iter() {
            let child = self.child(object, &snapshot.objects, rendered.get(&object));
            objects.extend(child.map(|child| (object, child)));
        }
        let observed = Observed {
            outdated,
            leftovers: self.leftovers(&objects, snapshot),
            objects,
            workloads: workload::workloads(&self.effective.name, &snapshot.objects),
            credentials,
            claim: snapshot.claim.is_some(),
            database: self.database(&snapshot.objects, database(self.effective)),
            engines: snapshot.engines.clone(),
        };
        InstanceComparison { observed, rendered }
    }

    fn child(
        &self,
        object: InstanceObject,
        objects: &InstanceObjects,
        rendered: Option<&Rendered>,
    ) -> Option<ObservedChild> {
        let name = object.name(&self.effective.name);
        let Some(rendered) = rendered else {
            // What cannot be rendered cannot be compared.
            let unknown =
                named(&objects.deployments, &name).filter(|_| object == InstanceObject::MetadataDeployment)?;
            let meta = meta(unknown, &self.effective.uid);
            return Some(ObservedChild { meta, intact: true });
        };
        match rendered {
            Rendered::StatefulSet(rendered) => self.compare(object, rendered, named(&objects.stateful_sets, &name)),
            Rendered::Deployment(rendered) => self.compare(object, rendered, named(&objects.deployments, &name)),
            Rendered::Service(rendered) => self.compare(object, rendered, named(&objects.services, &name)),
            Rendered::ConfigMap(rendered) => self.compare(object, rendered, named(&objects.config_maps, &name)),
            Rendered::ServiceAccount(rendered) => {
                self.compare(object, rendered, named(&objects.service_accounts, &name))
            }
            Rendered::Role(rendered) => self.compare(object, rendered, named(&objects.roles, &name)),
            Rendered::RoleBinding(rendered) => self.compare(object, rendered, named(&objects.role_bindings, &name)),
            Rendered::PodDisruptionBudget(rendered) => {
                self.compare(object, rendered, named(&objects.disruption_budgets, &name))
            }
        }
    }

    fn compare<K: Metadata<Ty = ObjectMeta> + Serialize>(
        &self,
        object: InstanceObject,
        rendered: &K,
        live: Option<&K>,
    ) -> Option<ObservedChild> {
        let live = live?;
        let accepted = || {
            let known = self.accepted.get(&object);
            known.is_some() && AcceptedDrift::between(rendered, live).as_ref() == known
        };
        Some(ObservedChild {
            meta: meta(live, &self.effective.uid),
            intact: is_intact(rendered, live) || accepted(),
        })
    }

    /// The database that the metadata service uses, by all that can be seen of it: which credentials its pods read, what
    /// its configuration was made for, and whether our own runs. What one of them alone says is a change by hand.
    fn database(&self, objects: &InstanceObjects, desired: Database) -> Option<Database> {
        let name = |object: InstanceObject| object.name(&self.effective.name);
        let deployment =
            named(&objects.deployments, &name(InstanceObject::MetadataDeployment)).filter(|it| self.owns(*it));
        let config = named(&objects.config_maps, &name(InstanceObject::MetadataConfig)).filter(|it| self.owns(*it));
        let set = named(&objects.stateful_sets, &name(InstanceObject::PostgresSet)).filter(|it| self.owns(*it));
        let by_pods = deployment.and_then(credentials_of).map(|secret| {
            if secret == name(InstanceObject::PostgresCredentials) {
                Database::Internal
            } else {
                Database::External
            }
        });
        let by_config = config.and_then(|it| {
            it.metadata
                .annotations
                .as_ref()?
                .get(Annotation::Postgres.key())?
                .parse()
                .ok()
        });
        let by_set = set.map(|_| Database::Internal);
        let records: Vec<Database> = [by_pods, by_config, by_set].into_iter().flatten().collect();
        let other = records.first().copied()?;
        Some(if records.contains(&desired) { desired } else { other })
    }

    fn owns<K: Metadata<Ty = ObjectMeta>>(&self, object: &K) -> bool {
        meta(object, &self.effective.uid).owned
    }

    fn leftovers(
        &self,
        objects: &BTreeMap<InstanceObject, ObservedChild>,
        snapshot: &InstanceSnapshot,
    ) -> Vec<Leftover> {
        let ours = objects.iter().map(|(object, child)| Leftover {
            component: object.component(),
            order: Order::First,
            kind: object.kind(),
            name: object.name(&self.effective.name),
            meta: child.meta.clone(),
        });
        // The owner of the StatefulSet has its data, as after a deletion that was to leave everything else behind.
        let set = objects.get(&InstanceObject::PostgresSet);
        let given_away = set.is_some_and(|set| !set.meta.owned);
        let claim = snapshot.claim.as_ref().map(|claim| Leftover {
            component: Component::Postgres,
            order: Order::Data,
            kind: InstanceObjectKind::PersistentVolumeClaim,
            name: name_of(claim).to_owned(),
            meta: Meta {
                owned: self.is_of_postgres(claim) && !given_away,
                ..meta(claim, &self.effective.uid)
            },
        });
        let used = match &snapshot.credentials {
            SecretLookup::Found(secret) => Some(&**secret),
            SecretLookup::Unknown | SecretLookup::Unreadable(_) | SecretLookup::Missing => None,
        };
        let secrets = used
            .into_iter()
            .chain(&snapshot.own_credentials)
            .map(|secret| Leftover {
                component: Component::Postgres,
                order: Order::Last,
                kind: InstanceObject::PostgresCredentials.kind(),
                name: secret.metadata.name.clone().unwrap_or_default(),
                meta: meta_of(&secret.metadata, &self.effective.uid),
            });
        ours.chain(claim).chain(secrets).collect()
    }

    /// Claims have no owner, so that data outlives the StatefulSet. Ours has the name that Kubernetes derives from it, and
    /// the labels that we gave it.
    fn is_of_postgres(&self, claim: &PersistentVolumeClaim) -> bool {
        let labels = claim.metadata.labels.as_ref();
        let label = |label: Label| labels.and_then(|all| all.get(label.key())).map(String::as_str);
        label(Label::Instance) == Some(&self.effective.name)
            && label(Label::Component) == Some(ComponentLabel::Postgres.key())
    }
}

/// The Secret that the pods of a Deployment read.
fn credentials_of(deployment: &Deployment) -> Option<&str> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let mut volumes = pod.volumes.iter().flatten();
    let volume = volumes.find(|volume| volume.name == CREDENTIALS_VOLUME)?;
    volume.secret.as_ref()?.secret_name.as_deref()
}

#[cfg(test)]
mod outdated_tests;
#[cfg(test)]
mod tests;
