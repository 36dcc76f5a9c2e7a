//! Changes of the storage of the pods' data.

use firebolt_api::Storage;
use firebolt_api::quantity::Amount;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, HostPathVolumeSource, PersistentVolumeClaimSpec, Volume};

use super::{UserManifests, from_to};
use crate::render::engine::DATA_VOLUME;

/// The settings that differ.
pub(super) fn changes(sources: &UserManifests, rendered: &StatefulSet, live: &StatefulSet) -> Vec<String> {
    let is_set = |storage: &Storage| *storage != Storage::default();
    let by_class =
        !is_set(&sources.engine.spec.storage) && sources.class.is_some_and(|class| is_set(&class.spec.storage));
    let change = |field: &str, from, to| {
        let field = sources.owned(&format!("spec.storage{field}"), by_class);
        format!("{field}{}", from_to(from, to))
    };
    let (Some((kind, settings)), Some((live_kind, live_settings))) = (storage(rendered), storage(live)) else {
        return Vec::new();
    };
    if kind != live_kind {
        return vec![change("", Some(live_kind.to_owned()), Some(kind.to_owned()))];
    }
    let pairs = settings.into_iter().zip(live_settings);
    let fields = pairs.map(|((field, to), (_, from))| (field, to, from));
    fields
        .filter(|(_, to, from)| to != from && !same_amount(to.as_deref(), from.as_deref()))
        .map(|(field, to, from)| change(&format!(".{kind}.{field}"), from, to))
        .collect()
}

/// The API server writes a quantity such as 1024Mi as 1Gi.
fn same_amount(one: Option<&str>, other: Option<&str>) -> bool {
    let amount = |text: Option<&str>| text.and_then(|text| text.parse::<Amount>().ok());
    amount(one).is_some() && amount(one) == amount(other)
}

type Settings = Vec<(&'static str, Option<String>)>;

/// The kind of the storage of a generation, and its settings by the names that users know.
fn storage(set: &StatefulSet) -> Option<(&'static str, Settings)> {
    let spec = set.spec.as_ref()?;
    let mut claims = spec.volume_claim_templates.iter().flatten();
    if let Some(claim) = claims.find(|claim| claim.metadata.name.as_deref() == Some(DATA_VOLUME)) {
        return Some(("persistentVolumeClaim", of_claim(claim.spec.as_ref()?)));
    }
    let mut volumes = spec.template.spec.as_ref()?.volumes.iter().flatten();
    match volumes.find(|volume| volume.name == DATA_VOLUME)? {
        Volume {
            host_path: Some(source),
            ..
        } => Some(("hostPath", of_host_path(source))),
        Volume {
            empty_dir: Some(source),
            ..
        } => Some(("emptyDir", of_empty_dir(source))),
        _ => None,
    }
}

fn of_claim(claim: &PersistentVolumeClaimSpec) -> Settings {
    let requests = claim
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    let size = requests.and_then(|requests| requests.get("storage"));
    vec![
        ("size", size.map(|size| size.0.clone())),
        ("storageClassName", claim.storage_class_name.clone()),
        ("accessModes", claim.access_modes.as_ref().map(|modes| modes.join(", "))),
    ]
}

fn of_host_path(source: &HostPathVolumeSource) -> Settings {
    // The API server sets an empty type.
    let type_ = source.type_.clone().filter(|type_| !type_.is_empty());
    vec![("path", Some(source.path.clone())), ("type", type_)]
}

fn of_empty_dir(source: &EmptyDirVolumeSource) -> Settings {
    let limit = source.size_limit.as_ref();
    vec![
        ("sizeLimit", limit.map(|limit| limit.0.clone())),
        ("medium", source.medium.clone()),
    ]
}
