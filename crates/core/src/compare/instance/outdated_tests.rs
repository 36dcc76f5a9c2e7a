//! Pods that another version of the operator rendered.

use firebolt_api::FireboltInstanceStatus;
use firebolt_api::key::Annotation::{ConfigHash, InputsHash, PodTemplate, TemplateHash};
use k8s_openapi::api::core::v1::ConfigMap;
use rstest::rstest;
use serde_json::{Value, json};

use super::fixture::instance;
use super::objects::data_hash;
use super::*;
use crate::render::instance::{Inputs, Workload, recorded, with_records, without_records};
use crate::render::with_template_hash;
use crate::resolve::{Defaults, instance::resolve};
use InstanceObject::{GatewayConfig, GatewayDeployment, MetadataConfig, MetadataDeployment, PostgresSet};

const PODS_AND_CONFIGS: [InstanceObject; 5] = [
    PostgresSet,
    MetadataConfig,
    MetadataDeployment,
    GatewayConfig,
    GatewayDeployment,
];

/// An instance and what the cluster has of it.
#[derive(Clone)]
struct Case {
    metadata: Value,
    gateway: Value,
    credentials: &'static str,
    ready: bool,
    objects: InstanceObjects,
}

/// An instance whose objects this version rendered.
fn current() -> Case {
    let new = Case {
        metadata: json!({}),
        gateway: json!({}),
        credentials: "h",
        ready: true,
        objects: InstanceObjects::default(),
    };
    new.applied()
}

/// An instance whose objects another version rendered from the same inputs.
fn outdated() -> Case {
    current().but(|case| {
        for config in &mut case.objects.config_maps {
            config.data = Some(BTreeMap::from([("file".to_owned(), "old".to_owned())]));
            *config = with_template_hash(config.clone());
        }
        for deployment in &mut case.objects.deployments {
            *deployment = older(deployment);
        }
        for set in &mut case.objects.stateful_sets {
            *set = older(set);
        }
    })
}

/// The same, as builds before the records left it.
fn unrecorded() -> Case {
    outdated().but(|case| {
        for deployment in &mut case.objects.deployments {
            *deployment = with_template_hash(without_records(deployment.clone()));
        }
        for set in &mut case.objects.stateful_sets {
            *set = with_template_hash(without_records(set.clone()));
        }
    })
}

fn older<W: Workload>(workload: &W) -> W {
    let mut older = workload.clone();
    older.set_pod_template(with_image(workload, "old"));
    let old_data = ConfigMap {
        data: Some(BTreeMap::from([("file".to_owned(), "old".to_owned())])),
        ..ConfigMap::default()
    };
    let inputs = Inputs {
        hash: recorded(workload, InputsHash).unwrap().to_owned(),
        config: recorded(workload, ConfigHash).map(|_| data_hash(&old_data)),
    };
    with_records(older, inputs)
}

fn with_image<W: Workload>(workload: &W, image: &str) -> k8s_openapi::api::core::v1::PodTemplateSpec {
    let mut pods = workload.pod_template().unwrap().clone();
    pods.spec.as_mut().unwrap().containers[0].image = Some(image.to_owned());
    pods
}

fn image_of<W: Workload>(workload: &W) -> &str {
    let pods = workload.pod_template().and_then(|pods| pods.spec.as_ref()).unwrap();
    pods.containers[0].image.as_deref().unwrap()
}

impl Case {
    fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn comparison(&self) -> InstanceComparison {
        let mut instance = instance(&self.metadata, &self.gateway);
        if self.ready {
            instance.status = Some(FireboltInstanceStatus {
                observed_generation: instance.metadata.generation,
                phase: Some(InstancePhase::Ready),
                ..FireboltInstanceStatus::default()
            });
        }
        let keys = ["username", "password", "database"].map(|key| (key.to_owned(), true));
        let snapshot = InstanceSnapshot {
            objects: self.objects.clone(),
            credentials: SecretLookup::Found(Box::new(SecretOutline {
                metadata: ObjectMeta::default(),
                keys: BTreeMap::from(keys),
                username: Some("firebolt".to_owned()),
                database: Some("firebolt_metadata".to_owned()),
                credentials_hash: Some(self.credentials.to_owned()),
            })),
            ..InstanceSnapshot::default()
        };
        let effective = resolve(&instance, &Defaults::example(), false);
        compare(&instance, &effective, &snapshot, &BTreeMap::new())
    }

    /// After everything was applied.
    fn applied(self) -> Self {
        let mut objects = InstanceObjects::default();
        for rendered in self.comparison().rendered.into_values() {
            match rendered {
                Rendered::StatefulSet(set) => objects.stateful_sets.push(set),
                Rendered::Deployment(deployment) => objects.deployments.push(deployment),
                Rendered::ConfigMap(config) => objects.config_maps.push(config),
                Rendered::Service(_)
                | Rendered::ServiceAccount(_)
                | Rendered::Role(_)
                | Rendered::RoleBinding(_)
                | Rendered::PodDisruptionBudget(_) => {}
            }
        }
        self.but(|case| case.objects = objects)
    }

    fn outdated(&self) -> Vec<Component> {
        self.comparison().observed.outdated.into_iter().collect()
    }

    /// The objects that have to be applied.
    fn changed(&self) -> Vec<InstanceObject> {
        let objects = self.comparison().observed.objects;
        let with_pods = objects
            .into_iter()
            .filter(|(object, _)| PODS_AND_CONFIGS.contains(object));
        with_pods
            .filter(|(_, child)| !child.intact)
            .map(|(object, _)| object)
            .collect()
    }

    /// The image that is rendered, in the place of the one of the operator.
    fn image(&self, object: InstanceObject) -> String {
        match &self.comparison().rendered[&object] {
            Rendered::Deployment(deployment) => image_of(deployment).to_owned(),
            Rendered::StatefulSet(set) => image_of(set).to_owned(),
            other => panic!("{other:?} has no pods"),
        }
    }

    fn gateway_mut(&mut self) -> &mut Deployment {
        let mut deployments = self.objects.deployments.iter_mut();
        deployments
            .find(|it| it.metadata.name.as_deref() == Some("main-gateway"))
            .unwrap()
    }
}

const ALL: [Component; 3] = [Component::Postgres, Component::Metadata, Component::Gateway];

#[test]
fn another_version_of_the_operator_applies_nothing() {
    let case = outdated();
    assert_eq!(case.outdated(), ALL);
    assert_eq!(case.changed(), []);
    for object in [PostgresSet, MetadataDeployment, GatewayDeployment] {
        assert_eq!(case.image(object), "old");
    }
    let (current, before) = (current(), case.objects.clone());
    assert_eq!((current.outdated(), current.changed()), (vec![], vec![]));
    let after = case.applied().objects;
    assert_eq!(after.deployments, before.deployments, "so that it can be rolled back");
    assert_eq!(after.stateful_sets, before.stateful_sets);
}

#[rstest]
#[case::template(json!({}), json!({ "template": { "metadata": { "labels": { "a": "b" } } } }), Component::Gateway)]
#[case::port(json!({}), json!({ "metricsPort": 9100 }), Component::Gateway)]
#[case::timeout(json!({}), json!({ "wakeTimeout": "90s" }), Component::Gateway)]
#[case::template_of_metadata(json!({ "template": { "spec": { "priorityClassName": "p" } } }), json!({}), Component::Metadata)]
#[case::format(json!({ "configFormat": "yaml" }), json!({}), Component::Metadata)]
fn an_edit_adopts_the_rendering_of_its_component_alone(
    #[case] metadata: Value,
    #[case] gateway: Value,
    #[case] edited: Component,
) {
    let case = outdated().but(|case| (case.metadata, case.gateway, case.ready) = (metadata, gateway, false));
    let rest: Vec<Component> = ALL.into_iter().filter(|component| *component != edited).collect();
    assert_eq!(case.outdated(), rest);
    let of_edited = PODS_AND_CONFIGS
        .into_iter()
        .filter(|object| object.component() == edited);
    assert_eq!(case.changed(), of_edited.collect::<Vec<_>>());
    let done = case.applied();
    assert_eq!((done.outdated(), done.changed()), (rest, vec![]));
}

#[test]
fn other_credentials_restart_the_metadata_service_with_the_current_rendering() {
    let case = outdated().but(|case| case.credentials = "other");
    assert_eq!(case.outdated(), [Component::Postgres, Component::Gateway]);
    assert_eq!(case.changed(), [MetadataConfig, MetadataDeployment]);
}

#[test]
fn outdated_gateways_are_scaled_as_they_are() {
    let case = outdated().but(|case| case.gateway = json!({ "replicas": 7 }));
    assert_eq!(case.outdated(), ALL);
    assert_eq!(case.changed(), [GatewayDeployment]);
    let mut done = case.applied();
    assert_eq!(done.changed(), []);
    let gateway = done.gateway_mut();
    assert_eq!(gateway.spec.as_ref().unwrap().replicas, Some(7));
    assert_eq!(image_of(gateway), "old");
}

#[test]
fn outdated_pods_that_another_client_changes_are_restored_as_rendered_then() {
    let case = outdated().but(|case| {
        let gateway = case.gateway_mut();
        let pods = with_image(gateway, "theirs");
        gateway.set_pod_template(pods);
    });
    assert_eq!(case.outdated(), ALL);
    assert_eq!(case.changed(), [GatewayDeployment]);
    assert_eq!(case.image(GatewayDeployment), "old");
    assert_eq!(case.applied().objects.deployments, outdated().objects.deployments);
}

#[rstest]
#[case::config_changed(|case: &mut Case| {
    for config in &mut case.objects.config_maps {
        config.data.get_or_insert_default().insert("file".to_owned(), "theirs".to_owned());
    }
})]
#[case::config_lost(|case: &mut Case| case.objects.config_maps.clear())]
#[case::config_of_this_version(|case: &mut Case| case.objects.config_maps = current().objects.config_maps)]
#[case::record_changed(|case: &mut Case| {
    for deployment in &mut case.objects.deployments {
        let records = deployment.metadata.annotations.as_mut().unwrap();
        records.insert(PodTemplate.key().to_owned(), r#"{"spec":{"containers":[]}}"#.to_owned());
    }
})]
#[case::record_removed(|case: &mut Case| {
    for deployment in &mut case.objects.deployments {
        deployment.metadata.annotations.as_mut().unwrap().remove(PodTemplate.key());
    }
})]
fn what_cannot_be_restored_is_rendered_anew(#[case] damage: fn(&mut Case)) {
    let case = outdated().but(damage);
    assert_eq!(case.outdated(), [Component::Postgres]);
    assert_eq!(case.image(GatewayDeployment), "registry.example/envoy:1.2.3");
    let done = case.applied();
    assert_eq!(done.changed(), []);
    assert_eq!(done.objects.config_maps, current().objects.config_maps, "together");
}

#[test]
fn a_lost_workload_is_created_with_the_current_rendering() {
    let case = outdated().but(|case| case.objects.deployments.clear());
    assert_eq!(case.outdated(), [Component::Postgres]);
    assert_eq!(case.changed(), [MetadataConfig, GatewayConfig]);
}

#[test]
fn a_workload_of_an_earlier_build_is_adopted_with_the_pods_that_it_has() {
    let case = unrecorded();
    assert_eq!(case.outdated(), ALL);
    let before = case.objects.clone();
    let recorded = case.applied().but(|case| case.ready = false);
    assert_eq!((recorded.outdated(), recorded.changed()), (ALL.to_vec(), vec![]));
    for (before, after) in before.deployments.iter().zip(&recorded.objects.deployments) {
        assert_eq!(before.spec, after.spec);
    }
    assert_eq!(before.stateful_sets[0].spec, recorded.objects.stateful_sets[0].spec);
    assert_eq!(before.config_maps[0].data, recorded.objects.config_maps[0].data);
}

#[rstest]
#[case::not_ready(|case: &mut Case| case.ready = false, &[])]
#[case::other_credentials(|case: &mut Case| case.credentials = "other", &[Component::Postgres, Component::Gateway])]
#[case::same_rendering(|case: &mut Case| {
    case.objects = current().objects;
    for deployment in &mut case.objects.deployments {
        *deployment = with_template_hash(without_records(deployment.clone()));
    }
}, &[])]
fn a_workload_of_an_earlier_build_is_rendered_anew(#[case] change: fn(&mut Case), #[case] outdated: &[Component]) {
    let case = unrecorded().but(change);
    assert_eq!(case.outdated(), outdated);
    assert_eq!(case.image(MetadataDeployment), "registry.example/metadata:1.2.3");
}

#[test]
fn a_postgresql_that_is_not_used_is_not_outdated() {
    let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": "s" } });
    let case = outdated().but(|case| case.metadata = json!({ "postgres": postgres }));
    assert_eq!(case.outdated(), [Component::Gateway]);
}

#[test]
fn pods_have_no_annotation_that_restarts_them_at_the_next_upgrade() {
    for deployment in current().objects.deployments {
        let pods = deployment.pod_template().unwrap().metadata.clone().unwrap();
        for record in [TemplateHash, InputsHash, PodTemplate] {
            assert!(!pods.annotations.as_ref().unwrap().contains_key(record.key()));
            assert!(recorded(&deployment, record).is_some());
        }
    }
}
