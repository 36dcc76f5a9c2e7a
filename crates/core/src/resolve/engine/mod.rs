//! Merges engine, class, instance and operator defaults into one [`EffectiveEngine`].

mod config;
mod merge;
mod settings;
mod template;

use std::time::Duration;

use firebolt_api::{AutoStop, FireboltEngine, FireboltEngineClass};
use k8s_openapi::api::core::v1::{PodSecurityContext, PodTemplateSpec};
use serde_json::{Map, Value};

use super::{Defaults, without_empty_values};

pub use settings::Backend;
pub(crate) use template::{ENGINE_CONTAINER, has_resources};

/// The properties of the referenced instance that an engine depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceFacts {
    /// The identity of the instance.
    pub id: String,
    /// The endpoint of its metadata service, as host and port.
    pub metadata_endpoint: String,
}

/// The effective settings of an engine, completely resolved and merged. Rendering objects from it cannot fail.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveEngine {
    /// The namespace of the engine and of everything that it owns.
    pub namespace: String,
    /// The name of the engine.
    pub name: String,
    /// The UID of the object, for owner references.
    pub uid: String,
    /// The number of compute nodes.
    pub replicas: i32,
    /// The merged pod template of both layers and the defaults, without the operator's own fields. The first container is
    /// the engine's.
    pub template: PodTemplateSpec,
    /// The storage of the pods' data.
    pub storage: Backend,
    /// The part of the configuration that users decide about.
    pub config: Map<String, Value>,
    /// The instance, with the address of the metadata service that this engine uses.
    pub instance: InstanceFacts,
    /// The image of the web UI, if each pod is to have one.
    pub ui_image: Option<String>,
    /// The DNS domain of the cluster.
    pub cluster_domain: String,
    /// What users said, without the defaults of the operator.
    pub sources: Sources,
}

/// Inputs of users whose change creates a new generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// The merged templates of class and engine.
    pub(crate) template: PodTemplateSpec,
    /// The template of the class, if there is a class.
    pub(crate) class_template: Option<PodTemplateSpec>,
    /// The merged `customEngineConfig`, if there is any.
    pub(crate) custom_config: Option<Map<String, Value>>,
}

/// Merges the engine with its class and the operator's defaults, in this order of precedence.
#[must_use]
pub fn resolve(
    engine: &FireboltEngine,
    class: Option<&FireboltEngineClass>,
    instance: &InstanceFacts,
    defaults: &Defaults,
) -> EffectiveEngine {
    let (spec, class) = (&engine.spec, class.map(|class| &class.spec));
    let custom_config = class.and_then(|class| class.custom_engine_config.as_ref());
    let ui_sidecar = settings::ui_sidecar(class, spec);
    let layer = |template: &PodTemplateSpec| without_empty_values(template, ENGINE_CONTAINER);
    let class_template = class.map(|class| layer(&class.template));
    let mut template = template::merge(class_template.clone(), spec.template.as_ref().map(layer));
    let mut merged = template.clone();
    if let Some(pod) = &mut merged.spec {
        // The defaults make no difference between an empty one and none.
        pod.security_context
            .take_if(|context| *context == PodSecurityContext::default());
    }
    defaults.fill(&mut template);
    EffectiveEngine {
        namespace: engine.metadata.namespace.clone().unwrap_or_default(),
        name: engine.metadata.name.clone().unwrap_or_default(),
        uid: engine.metadata.uid.clone().unwrap_or_default(),
        replicas: spec.replicas,
        template,
        storage: settings::storage(class, spec),
        config: config::merge(custom_config, spec.custom_engine_config.as_ref()),
        instance: InstanceFacts {
            id: instance.id.clone(),
            metadata_endpoint: metadata_endpoint(spec.metadata_endpoint_override.as_deref(), instance),
        },
        ui_image: ui_sidecar.then(|| defaults.ui_image.clone()),
        cluster_domain: defaults.cluster_domain.clone(),
        sources: Sources {
            template: merged,
            class_template,
            custom_config: Some(config::custom(custom_config, spec.custom_engine_config.as_ref()))
                .filter(|custom| !custom.is_empty()),
        },
    }
}

/// Whether each pod is to have the web UI.
pub(crate) fn has_ui(engine: &FireboltEngine, class: Option<&FireboltEngineClass>) -> bool {
    settings::ui_sidecar(class.map(|class| &class.spec), &engine.spec)
}

/// How often an old generation is asked for its running queries; none if it is not waited for. Known without the
/// instance, and without a class that is missing: a rollout under way runs to its end.
#[must_use]
pub(crate) fn drain_check(engine: &FireboltEngine, class: Option<&FireboltEngineClass>) -> Option<Duration> {
    settings::drain_check(class.map(|class| &class.spec), &engine.spec)
}

/// The auto-stop policy. Known without the instance, too.
#[must_use]
pub(crate) fn auto_stop(engine: &FireboltEngine, class: Option<&FireboltEngineClass>) -> Option<AutoStop> {
    settings::auto_stop(class.map(|class| &class.spec), &engine.spec)
}

fn metadata_endpoint(own: Option<&str>, instance: &InstanceFacts) -> String {
    own.filter(|own| !own.is_empty())
        .unwrap_or(&instance.metadata_endpoint)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts() -> InstanceFacts {
        InstanceFacts {
            id: "01J".to_owned(),
            metadata_endpoint: "main-metadata:7000".to_owned(),
        }
    }

    fn engine(spec: &Value) -> FireboltEngine {
        let metadata = json!({ "name": "a", "namespace": "n", "uid": "u" });
        let api_version = format!("{}/{}", firebolt_api::GROUP, firebolt_api::VERSION);
        serde_json::from_value(
            json!({ "apiVersion": api_version, "kind": "FireboltEngine", "metadata": metadata, "spec": spec }),
        )
        .expect("an engine")
    }

    #[test]
    fn an_engine_without_settings_has_the_defaults_of_the_operator() {
        let effective = resolve(
            &engine(&json!({ "instanceRef": "main", "replicas": 2 })),
            None,
            &facts(),
            &Defaults::example(),
        );
        assert_eq!(
            (
                effective.name.as_str(),
                effective.namespace.as_str(),
                effective.uid.as_str()
            ),
            ("a", "n", "u")
        );
        assert_eq!(effective.replicas, 2);
        assert_eq!(effective.instance, facts());
        assert_eq!(effective.ui_image, None);
        assert_eq!(
            (effective.sources.class_template, effective.sources.custom_config),
            (None, None)
        );
        assert_eq!(effective.template.spec.expect("a spec").containers.len(), 1);
    }

    #[test]
    fn an_override_of_the_metadata_service_leaves_the_identity_alone() {
        let spec = json!({ "instanceRef": "main", "replicas": 1, "metadataEndpointOverride": "far:7000" });
        let effective = resolve(&engine(&spec), None, &facts(), &Defaults::example());
        assert_eq!(effective.instance.metadata_endpoint, "far:7000");
        assert_eq!(effective.instance.id, "01J");
    }

    #[test]
    fn the_drain_check_is_known_without_an_instance() {
        let class = json!({ "apiVersion": "x/v1", "kind": "FireboltEngineClass", "metadata": { "name": "c" },
            "spec": { "template": {}, "drainCheckInterval": "7s" } });
        let class: FireboltEngineClass = serde_json::from_value(class).expect("a class");
        let waiting = engine(&json!({ "instanceRef": "main", "replicas": 1 }));
        assert_eq!(drain_check(&waiting, Some(&class)), Some(Duration::from_secs(7)));
        let hasty = engine(&json!({ "instanceRef": "main", "replicas": 1, "drainCheckEnabled": false }));
        assert_eq!(drain_check(&hasty, Some(&class)), None);
    }

    #[test]
    fn sources_have_the_inputs_of_users_without_removed_fields() {
        let class = json!({ "apiVersion": "x/v1", "kind": "FireboltEngineClass", "metadata": { "name": "c" },
            "spec": { "template": { "metadata": { "labels": { "a": "b" } } }, "customEngineConfig": { "endpoints": {} } } });
        let class: FireboltEngineClass = serde_json::from_value(class).expect("a class");
        let spec = json!({ "instanceRef": "main", "replicas": 1, "customEngineConfig": { "schema_version": "9" } });
        let sources = resolve(&engine(&spec), Some(&class), &facts(), &Defaults::example()).sources;
        assert_eq!(sources.class_template, Some(class.spec.template));
        assert_eq!(sources.custom_config, None);
    }
}
