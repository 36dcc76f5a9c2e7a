//! The StatefulSet of one generation.

use std::collections::BTreeMap;

use firebolt_api::key::{Annotation, RESERVED_PREFIX};
use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::pods::{claims, pod_template};
use super::rendering_hash::rendering_hash;
use super::template_hash::template_hash;
use super::{generation_labels, names, object_meta};
use crate::canonical;
use crate::resolve::engine::EffectiveEngine;

/// Renders the StatefulSet of `generation`.
#[must_use]
pub fn stateful_set(engine: &EffectiveEngine, generation: i64) -> StatefulSet {
    StatefulSet {
        metadata: ObjectMeta {
            annotations: Some(annotations(engine)),
            ..object_meta(engine, names(engine).stateful_set(generation), Some(generation))
        },
        spec: Some(StatefulSetSpec {
            replicas: Some(engine.replicas),
            service_name: Some(names(engine).headless_service(generation)),
            selector: LabelSelector {
                match_labels: Some(generation_labels(engine, generation)),
                match_expressions: None,
            },
            template: pod_template(engine, generation),
            volume_claim_templates: claims(engine, generation),
            pod_management_policy: Some("Parallel".to_owned()),
            // A generation never changes; only the operator replaces it, by another.
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".to_owned()),
                rolling_update: None,
            }),
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some("Delete".to_owned()),
                when_scaled: Some("Retain".to_owned()),
            }),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

/// The template hash determines whether a generation matches the desired state, and the rendering hash whether this version
/// of the operator rendered it; the other two show what changed. None of them is on the pods, where a change would have no
/// effect.
fn annotations(engine: &EffectiveEngine) -> BTreeMap<String, String> {
    let entry = |annotation: Annotation, value: String| (annotation.key().to_owned(), value);
    let config = engine.sources.custom_config.as_ref().map(canonical::hash);
    let class = engine.sources.class_template.as_ref().map(canonical::hash);
    [
        Some(entry(Annotation::TemplateHash, template_hash(engine))),
        Some(entry(Annotation::RenderingHash, rendering_hash(engine))),
        config.map(|hash| entry(Annotation::CustomEngineConfigHash, hash)),
        class.map(|hash| entry(Annotation::EngineClassHash, hash)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Renders the StatefulSet of `generation` with the pods of another generation, and the desired number of replicas.
#[must_use]
pub fn copied_stateful_set(engine: &EffectiveEngine, generation: i64, of: &StatefulSet) -> StatefulSet {
    let mut spec = of.spec.clone().unwrap_or_default();
    let labels = generation_labels(engine, generation);
    let former_config = of.metadata.name.as_ref().map(|name| format!("{name}-config"));
    spec.replicas = Some(engine.replicas);
    spec.service_name = Some(names(engine).headless_service(generation));
    spec.selector.match_labels = Some(labels.clone());
    let template = spec.template.metadata.get_or_insert_default();
    template.labels.get_or_insert_default().extend(labels.clone());
    let volumes = spec
        .template
        .spec
        .iter_mut()
        .flat_map(|pod| pod.volumes.iter_mut().flatten());
    for config in volumes.filter_map(|volume| volume.config_map.as_mut()) {
        if Some(&config.name) == former_config.as_ref() {
            config.name = names(engine).config_map(generation);
        }
    }
    for claim in spec.volume_claim_templates.iter_mut().flatten() {
        claim.metadata.labels.get_or_insert_default().extend(labels.clone());
        claim.status = None;
    }
    let own = of.metadata.annotations.clone().unwrap_or_default().into_iter();
    let own = own.filter(|(key, _)| key.starts_with(RESERVED_PREFIX)).collect();
    StatefulSet {
        metadata: ObjectMeta {
            annotations: Some(own),
            ..object_meta(engine, names(engine).stateful_set(generation), Some(generation))
        },
        spec: Some(spec),
        status: None,
    }
}
