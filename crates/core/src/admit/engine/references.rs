//! Rules for references of containers: volumes and resource claims must exist in the pods.
//!
//! An engine may reference what its class provides, and the other way round, so references are checked for both
//! together.

use std::collections::HashSet;

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};

use crate::admit::template::{ENGINE, Template, containers};
use crate::admit::violation::{Violation, ViolationKind};
use crate::render::engine::{COMMON_VOLUMES, CONFIG_VOLUME, FORMER_CONFIG_VOLUME, UI_VOLUME};
use crate::resolve::engine::{has_resources, has_ui};

/// The volumes and resource claims of one pod.
pub(super) struct AvailableReferences<'a> {
    volumes: HashSet<&'a str>,
    claims: HashSet<&'a str>,
    /// Whether the engine sets the resources of the engine container, so that those of the class are not used.
    own_resources: bool,
}

impl<'a> AvailableReferences<'a> {
    /// The volumes and resource claims of the pods of an engine.
    pub(super) fn of(engine: &'a FireboltEngine, class: Option<&'a FireboltEngineClass>) -> Self {
        let class_template = class.map(|class| &class.spec.template);
        let own_template = engine.spec.template.as_ref();
        let specs: Vec<&PodSpec> = [class_template, own_template]
            .into_iter()
            .filter_map(|template| template?.spec.as_ref())
            .collect();
        let volumes = specs.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let users = volumes
            .map(|volume| volume.name.as_str())
            .filter(|name| !ENGINE.volumes.contains(name));
        let ui = has_ui(engine, class).then_some(UI_VOLUME);
        let claims = specs.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
        let own = own_template.and_then(|template| containers::own(template, ENGINE.container));
        Self {
            volumes: COMMON_VOLUMES.into_iter().chain(ui).chain(users).collect(),
            claims: claims.map(|claim| claim.name.as_str()).collect(),
            own_resources: own.and_then(|own| own.resources.as_ref()).is_some_and(has_resources),
        }
    }

    /// References of the template of the engine that do not exist in the pods.
    pub(super) fn missing_for_engine(&self, template: &PodTemplateSpec) -> Vec<Violation> {
        self.missing(template, true)
    }

    /// References of the template of the class that do not exist in the pods.
    pub(super) fn missing_for_class(&self, template: &PodTemplateSpec) -> Vec<Violation> {
        self.missing(template, !self.own_resources)
    }

    fn missing(&self, pod: &PodTemplateSpec, with_resources: bool) -> Vec<Violation> {
        let template = Template {
            pod,
            component: &ENGINE,
            secrets: &[],
        };
        let mut missing = Vec::new();
        for (path, container) in template.every_container() {
            let is_own = path == containers::path(ENGINE.container);
            if container.name == ENGINE.container && !is_own {
                // Rejected because of its name.
                continue;
            }
            missing.extend(self.missing_volumes(&path, container, is_own));
            if with_resources || !is_own {
                missing.extend(self.missing_claims(&path, container));
            }
        }
        missing
    }

    fn missing_volumes(&self, path: &str, container: &Container, is_own: bool) -> Vec<Violation> {
        let mounts = container.volume_mounts.iter().flatten().enumerate();
        let mounts = mounts.map(|(index, mount)| (format!("{path}.volumeMounts[{index}].name"), &mount.name));
        let devices = container.volume_devices.iter().flatten().enumerate();
        let devices = devices.map(|(index, device)| (format!("{path}.volumeDevices[{index}].name"), &device.name));
        let unknown = mounts.chain(devices).filter(|(_, name)| {
            // Volumes of the operator in the engine container are rejected by another rule.
            let refused = is_own && ENGINE.volumes.contains(&name.as_str());
            !refused && !self.volumes.contains(name.as_str())
        });
        let missing = unknown.map(|(path, name)| {
            let message = match name.as_str() {
                FORMER_CONFIG_VOLUME => format!(
                    "The pods have no volume named {name}; the volume with the configuration is named {CONFIG_VOLUME}. \
                     Mount that volume."
                ),
                name => format!(
                    "The pods have no volume named {name}. Add it to the volumes of the template, or remove this entry."
                ),
            };
            Violation::new(path, ViolationKind::NotFound, message)
        });
        missing.collect()
    }

    fn missing_claims(&self, path: &str, container: &Container) -> Vec<Violation> {
        let claims = container
            .resources
            .iter()
            .flat_map(|resources| resources.claims.iter().flatten());
        let unknown = claims
            .enumerate()
            .filter(|(_, claim)| !self.claims.contains(claim.name.as_str()));
        let missing = unknown.map(|(index, claim)| {
            let message = format!(
                "The pods have no resource claim named {}. Add it to the resourceClaims of the template, or \
                 remove this entry.",
                claim.name
            );
            Violation::new(
                format!("{path}.resources.claims[{index}].name"),
                ViolationKind::NotFound,
                message,
            )
        });
        missing.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::fixture::{self, CLASS, assert_rejected};
    use crate::admit::{engine_template, engine_with_class};
    use rstest::rstest;
    use serde_json::{Value, json};

    /// A template in which the container references this name.
    fn referring(list: &str, container: &str, field: &str, name: &str) -> Value {
        let reference = match field {
            "volumeMounts" => json!([{ "name": name, "mountPath": "/m" }]),
            "volumeDevices" => json!([{ "name": name, "devicePath": "/d" }]),
            _ => json!({ "claims": [{ "name": name }] }),
        };
        json!({ "spec": { list: [{ "name": container, field: reference }] } })
    }

    /// A template with a volume and a resource claim with this name.
    fn bringing(there: &str) -> Value {
        let volume = json!({ "name": there, "persistentVolumeClaim": { "claimName": "c" } });
        json!({ "spec": { "volumes": [volume], "resourceClaims": [{ "name": there, "resourceClaimName": "c" }] } })
    }

    fn both(first: &Value, second: &Value) -> Value {
        let mut both = first.clone();
        both["spec"]
            .as_object_mut()
            .expect("a spec")
            .extend(second["spec"].as_object().expect("a spec").clone());
        both
    }

    #[rstest]
    #[case::mount("volumeMounts", "volumeMounts[0].name", "no volume named there")]
    #[case::device("volumeDevices", "volumeDevices[0].name", "no volume named there")]
    #[case::claim("resources", "resources.claims[0].name", "no resource claim named there")]
    fn what_is_referred_to_is_there_in_either_layer(
        #[case] field: &str,
        #[case] path: &str,
        #[case] says: &str,
        #[values(("containers", "engine"), ("containers", "proxy"), ("initContainers", "warm"))] container: (
            &str,
            &str,
        ),
    ) {
        let (list, name) = container;
        let (referring, bringing) = (referring(list, name, field, "there"), bringing("there"));
        let path = format!("spec.{list}[{name}].{path}");
        let expected = [(path.as_str(), ViolationKind::NotFound, says)];
        let class = |template: &Value| fixture::engine_class(template);
        let pair = |below: &Value, above: &Value| engine_with_class(&fixture::engine(above), &class(below), None);

        assert_rejected(&pair(&json!({}), &referring), "spec.template", &expected, &referring);
        assert_eq!(pair(&bringing, &referring), []);
        assert_eq!(pair(&referring, &bringing), []);
        assert_eq!(pair(&json!({}), &both(&referring, &bringing)), []);
        let inherited = pair(&referring, &json!({}));
        assert_eq!(inherited.len(), 1);
        assert_eq!(
            (inherited[0].path.as_str(), inherited[0].kind),
            ("spec.engineClassRef", ViolationKind::NotFound)
        );
        let place = format!("FireboltEngineClass {CLASS}, at spec.template.{path}: ");
        assert!(inherited[0].message.starts_with(&place), "{}", inherited[0]);

        let mut alone = fixture::engine(&referring);
        assert_eq!(engine_template(&alone, None), [], "it may come from the class");
        alone.spec.engine_class_ref = None;
        assert_rejected(&engine_template(&alone, None), "spec.template", &expected, &referring);
    }

    #[rstest]
    #[case::config("nodes-config", false, true)]
    #[case::data("data", false, true)]
    #[case::runtime("runtime", false, true)]
    #[case::only_reserved("engine-config", false, false)]
    #[case::without_the_ui("nginx-writable-dir", false, false)]
    #[case::with_the_ui("nginx-writable-dir", true, true)]
    fn sidecars_mount_volumes_of_the_operator_that_are_there(
        #[case] volume: &str,
        #[case] ui: bool,
        #[case] there: bool,
    ) {
        let template = referring("containers", "proxy", "volumeMounts", volume);
        let mut engine = fixture::engine(&template);
        engine.spec.ui_sidecar = Some(ui);
        let found = engine_with_class(&engine, &fixture::engine_class(&json!({})), None);
        assert_eq!(found.is_empty(), there, "{found:?}");
    }

    #[test]
    fn resources_of_the_class_that_are_not_used_refer_to_nothing() {
        let class = fixture::engine_class(&referring("containers", "engine", "resources", "gpu"));
        let with = |resources: Value| {
            let template = json!({ "spec": { "containers": [{ "name": "engine", "resources": resources }] } });
            engine_with_class(&fixture::engine(&template), &class, None)
        };
        assert_eq!(with(json!({})).len(), 1);
        assert_eq!(with(json!({ "limits": { "cpu": "1" } })), []);
    }
}
