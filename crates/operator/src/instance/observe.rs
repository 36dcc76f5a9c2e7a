//! What was found, compared with what is wanted.

use std::collections::BTreeMap;

use firebolt_api::key::{Annotation, Component as ComponentLabel, Label};
use firebolt_core::plan::Child;
use firebolt_core::plan::instance::{Component, Database, Kind, Leftover, Object, Observed, Order, Workload};
use firebolt_core::pods;
use firebolt_core::render::instance::CREDENTIALS_VOLUME;
use firebolt_core::render::is_intact;
use firebolt_core::resolve::instance::EffectiveInstance;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use strum::IntoEnumIterator;

use super::credentials;
use super::desired::database;
use super::found::Found;
use super::memory::Mark;
use super::objects::{Objects, Rendered, named, rendered};
use crate::error::shortened;
use crate::seen::meta;
use crate::watches::Credentials;
use crate::write::Fields;

/// The most that is told of a message of Kubernetes.
const LONGEST_MESSAGE: usize = 300;

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
            database: self.database(&found.objects, database(self.effective)),
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

    /// The database that the metadata service uses, by all that can be seen of it: which credentials its pods read, what
    /// its configuration was made for, and whether our own runs. What one of them alone says is a change by hand.
    fn database(&self, objects: &Objects, wanted: Database) -> Option<Database> {
        let name = |object: Object| object.name(&self.effective.name);
        let deployment = named(&objects.deployments, &name(Object::MetadataDeployment)).filter(|it| self.owns(*it));
        let config = named(&objects.config_maps, &name(Object::MetadataConfig)).filter(|it| self.owns(*it));
        let set = named(&objects.stateful_sets, &name(Object::PostgresSet)).filter(|it| self.owns(*it));
        let by_pods = deployment.and_then(credentials_of).map(|secret| {
            if secret == name(Object::PostgresCredentials) {
                Database::Internal
            } else {
                Database::External
            }
        });
        let by_config = config.and_then(|it| it.annotations().get(Annotation::Postgres.key())?.parse().ok());
        let by_set = set.map(|_| Database::Internal);
        let records: Vec<Database> = [by_pods, by_config, by_set].into_iter().flatten().collect();
        let other = records.first().copied()?;
        Some(if records.contains(&wanted) { wanted } else { other })
    }

    fn owns<K: Resource>(&self, object: &K) -> bool {
        meta(object, &self.effective.uid).owned
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
            let mut workload = workload?;
            let placed = pods_of(&objects.pods, label).filter(|pod| has_node(pod));
            workload.broken = !pods::causes(placed).is_empty();
            workload.causes.extend(pods::causes(pods_of(&objects.pods, label)));
            Some((component, workload))
        });
        with_causes.collect()
    }

    fn leftovers(&self, objects: &BTreeMap<Object, Child>, found: &Found) -> Vec<Leftover> {
        let ours = objects.iter().map(|(object, child)| Leftover {
            component: object.component(),
            order: Order::First,
            kind: object.kind(),
            name: object.name(&self.effective.name),
            meta: child.meta.clone(),
        });
        // Whoever has the StatefulSet has its data, as after a deletion that was to leave everything else behind.
        let set = objects.get(&Object::PostgresSet);
        let given_away = set.is_some_and(|set| !set.meta.owned);
        let claim = found.claim.as_ref().map(|claim| Leftover {
            component: Component::Postgres,
            order: Order::Data,
            kind: Kind::PersistentVolumeClaim,
            name: claim.name_any(),
            meta: firebolt_core::plan::Meta {
                owned: self.is_of_postgres(claim) && !given_away,
                ..meta(claim, &self.effective.uid)
            },
        });
        let used = match &found.credentials {
            Credentials::Found(secret) => Some(secret),
            Credentials::Unknown(_) | Credentials::Missing => None,
        };
        let secrets = used.into_iter().chain(&found.own_credentials).map(|secret| Leftover {
            component: Component::Postgres,
            order: Order::Last,
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

/// The Secret that the pods of a Deployment read.
fn credentials_of(deployment: &Deployment) -> Option<&str> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let mut volumes = pod.volumes.iter().flatten();
    let volume = volumes.find(|volume| volume.name == CREDENTIALS_VOLUME)?;
    volume.secret.as_ref()?.secret_name.as_deref()
}

fn pods_of(pods: &[Pod], component: ComponentLabel) -> impl Iterator<Item = &Pod> {
    pods.iter()
        .filter(move |pod| pod.labels().get(Label::Component.key()).map(String::as_str) == Some(component.key()))
        .filter(|pod| !pods::is_terminating(pod))
}

fn has_node(pod: &Pod) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    node.is_some_and(|node| !node.is_empty())
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
        broken: false,
        causes: refused_pods(&conditions).into_iter().collect(),
    }
}

/// Why pods could not even be created, as with a quota.
fn refused_pods(conditions: &[DeploymentCondition]) -> Option<String> {
    let mut failures = conditions
        .iter()
        .filter(|condition| condition.type_ == "ReplicaFailure");
    let failure = failures.find(|condition| condition.status == "True")?;
    let message = failure.message.as_deref().unwrap_or("no reason given");
    let message = shortened(message.trim_end_matches('.'), LONGEST_MESSAGE);
    Some(format!("Pods cannot be created: {message}."))
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
        broken: false,
        causes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use firebolt_core::render::{instance as render, stamped};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::instance::fixture::{effective, external};

    fn looking<'a>(effective: &'a EffectiveInstance, settled: &'a BTreeMap<Object, Mark>) -> Looking<'a> {
        Looking { effective, settled }
    }

    fn found(objects: Objects) -> Found {
        Found {
            objects,
            ..Found::default()
        }
    }

    #[test]
    fn an_object_is_intact_until_somebody_changes_what_we_render() {
        let (effective, settled) = (effective(), BTreeMap::new());
        let mut service = stamped(render::gateway_service(&effective));
        let seen = |service| {
            let services = vec![service];
            let objects = Objects {
                services,
                ..Objects::default()
            };
            let sight = looking(&effective, &settled).at(&found(objects));
            sight.observed.objects[&Object::GatewayService].clone()
        };
        assert!(seen(service.clone()).intact && seen(service.clone()).meta.owned);
        let annotations = service.metadata.annotations.get_or_insert_default();
        annotations.insert("theirs".to_owned(), "x".to_owned());
        assert!(seen(service.clone()).intact, "of others");
        service.metadata.owner_references = None;
        assert!(!seen(service.clone()).meta.owned);
        service.spec.as_mut().unwrap().selector = None;
        assert!(!seen(service).intact);
    }

    #[test]
    fn what_a_policy_makes_of_an_object_is_as_good_as_it_gets() {
        let effective = effective();
        let rendered = stamped(render::gateway_deployment(&effective));
        let mut live = rendered.clone();
        live.spec.as_mut().unwrap().replicas = Some(9);
        let mark = Mark::of(&rendered, &live);
        let intact = |live: &Deployment, settled: &BTreeMap<Object, Mark>| {
            let objects = Objects {
                deployments: vec![live.clone()],
                ..Objects::default()
            };
            let sight = looking(&effective, settled).at(&found(objects));
            sight.observed.objects[&Object::GatewayDeployment].intact
        };
        let settled = BTreeMap::from([(Object::GatewayDeployment, mark)]);
        assert!(!intact(&live, &BTreeMap::new()));
        assert!(intact(&live, &settled));
        live.metadata.labels = None;
        assert!(!intact(&live, &settled), "somebody has changed it since");
    }

    /// What is left of an internal setup, seen by an instance that wants `effective`.
    fn database(effective: &EffectiveInstance, objects: Objects) -> Option<Database> {
        let settled = BTreeMap::new();
        looking(effective, &settled).at(&found(objects)).observed.database
    }

    #[test]
    fn the_database_in_use_is_known_from_anything_that_is_left() {
        let (internal, external) = (effective(), external());
        assert_eq!(database(&external, Objects::default()), None);
        let by_pods = || Objects {
            deployments: vec![render::metadata_deployment(&internal, "h")],
            ..Objects::default()
        };
        let by_config = || Objects {
            config_maps: vec![render::metadata_config_map(&internal)],
            ..Objects::default()
        };
        let by_set = || Objects {
            stateful_sets: vec![render::postgres_stateful_set(&internal)],
            ..Objects::default()
        };
        for objects in [by_pods(), by_config(), by_set()] {
            assert_eq!(database(&external, objects), Some(Database::Internal));
        }
        let mut foreign = by_pods();
        foreign.deployments[0].metadata.owner_references = None;
        assert_eq!(database(&external, foreign), None, "not our word");
    }

    #[test]
    fn a_record_that_was_changed_by_hand_is_no_switch() {
        let (internal, external) = (effective(), external());
        let objects = Objects {
            deployments: vec![render::metadata_deployment(&internal, "h")],
            config_maps: vec![render::metadata_config_map(&external)],
            ..Objects::default()
        };
        assert_eq!(database(&internal, objects.clone()), Some(Database::Internal));
        assert_eq!(database(&external, objects), Some(Database::External), "on its way");
    }

    #[rstest]
    #[case::none(json!({}), false)]
    #[case::labelled_alone(json!({ Label::Instance.key(): "main" }), false)]
    #[case::of_another(json!({ Label::Instance.key(): "other", Label::Component.key(): "postgres" }), false)]
    #[case::ours(json!({ Label::Instance.key(): "main", Label::Component.key(): "postgres" }), true)]
    fn a_claim_goes_with_the_instance_only_if_it_is_of_its_postgresql(#[case] labels: Value, #[case] goes: bool) {
        let (effective, settled) = (effective(), BTreeMap::new());
        let claim = json!({ "metadata": { "name": "data-main-metadata-pg-0", "uid": "c", "labels": labels } });
        let found = Found {
            claim: Some(serde_json::from_value(claim).unwrap()),
            ..Found::default()
        };
        let leftovers = looking(&effective, &settled).at(&found).observed.leftovers;
        assert_eq!(leftovers.len(), 1);
        assert_eq!(leftovers[0].meta.owned, goes);
    }

    #[test]
    fn a_deployment_says_how_far_it_is() {
        let deployment = |status: Value| -> Deployment {
            let spec = json!({ "replicas": 2, "selector": {}, "template": { "spec": { "containers": [] } } });
            serde_json::from_value(json!({ "metadata": { "generation": 2 }, "spec": spec, "status": status })).unwrap()
        };
        let stuck = json!([{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" }]);
        let status = json!({
            "observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 2, "conditions": stuck,
        });
        let expected = Workload {
            wanted: 2,
            observed: true,
            updated: 1,
            total: 3,
            ready: 2,
            overdue: true,
            broken: false,
            causes: Vec::new(),
        };
        assert_eq!(of_deployment(&deployment(status)), expected);
        let unseen = of_deployment(&deployment(json!({ "observedGeneration": 1 })));
        assert!(!unseen.observed);
        assert!(!of_deployment(&deployment(json!({}))).observed, "never seen");
    }
}
