//! Settings that an engine takes from its class if it has none of its own, and the operator's defaults.

use std::time::Duration;

use firebolt_api::{
    AutoStop, EmptyDirStorage, FireboltEngineClassSpec, FireboltEngineSpec, HostPathStorage, HostPathType,
    PersistentVolumeClaimStorage, Rollout, Storage, StorageMedium,
};

use super::merge::engine_first;

const DRAIN_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The storage of the pods' data: exactly one backend.
#[derive(Clone, Debug, PartialEq)]
pub enum Backend {
    /// A claim for each pod.
    PersistentVolumeClaim(PersistentVolumeClaimStorage),
    /// An `emptyDir` volume.
    EmptyDir(EmptyDirStorage),
    /// A directory of the node.
    HostPath(HostPathStorage),
}

/// Whether and how often an old generation is asked for its running queries. `None`: it is not waited for.
pub(super) fn drain_check(class: Option<&FireboltEngineClassSpec>, engine: &FireboltEngineSpec) -> Option<Duration> {
    let enabled = drain_check_enabled(class, engine) && rollout(class, engine) == Rollout::Graceful;
    enabled.then(|| drain_check_interval(class, engine))
}

fn drain_check_enabled(class: Option<&FireboltEngineClassSpec>, engine: &FireboltEngineSpec) -> bool {
    engine_first(
        class.and_then(|class| class.drain_check_enabled),
        engine.drain_check_enabled,
    )
    .unwrap_or(true)
}

fn drain_check_interval(class: Option<&FireboltEngineClassSpec>, engine: &FireboltEngineSpec) -> Duration {
    let class = class.and_then(|class| class.drain_check_interval.as_ref());
    engine_first(class, engine.drain_check_interval.as_ref()).map_or(DRAIN_CHECK_INTERVAL, firebolt_api::Duration::get)
}

fn rollout(class: Option<&FireboltEngineClassSpec>, engine: &FireboltEngineSpec) -> Rollout {
    engine_first(class.and_then(|class| class.rollout), engine.rollout).unwrap_or(Rollout::Graceful)
}

pub(super) fn ui_sidecar(class: Option<&FireboltEngineClassSpec>, engine: &FireboltEngineSpec) -> bool {
    engine_first(class.and_then(|class| class.ui_sidecar), engine.ui_sidecar).unwrap_or(false)
}

/// The policy of one layer as a whole: policies of two layers are never mixed.
pub(super) fn auto_stop(class: Option<&FireboltEngineClassSpec>, engine: &FireboltEngineSpec) -> Option<AutoStop> {
    engine_first(
        class.and_then(|class| class.auto_stop.clone()),
        engine.auto_stop.clone(),
    )
}

/// The storage of one layer as a whole, so that the backends keep excluding each other.
pub(super) fn storage(class: Option<&FireboltEngineClassSpec>, engine: &FireboltEngineSpec) -> Backend {
    engine_first(
        class.and_then(|class| backend(&class.storage)),
        backend(&engine.storage),
    )
    .unwrap_or_else(|| Backend::EmptyDir(EmptyDirStorage::default()))
}

/// The backend of a layer, without values that mean the same as none. The name of the class of a claim is not among
/// them: an empty one excludes the default class.
fn backend(storage: &Storage) -> Option<Backend> {
    let Storage {
        persistent_volume_claim: claim,
        mut empty_dir,
        mut host_path,
    } = storage.clone();
    let claim = claim.map(|claim| match claim.access_modes.as_slice() {
        [] => PersistentVolumeClaimStorage {
            access_modes: PersistentVolumeClaimStorage::default().access_modes,
            ..claim
        },
        [..] => claim,
    });
    if let Some(source) = &mut empty_dir {
        source.medium.take_if(|medium| *medium == StorageMedium::Default);
    }
    if let Some(source) = &mut host_path {
        source.type_.take_if(|kind| *kind == HostPathType::Unset);
    }
    claim
        .map(Backend::PersistentVolumeClaim)
        .or(empty_dir.map(Backend::EmptyDir))
        .or(host_path.map(Backend::HostPath))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    /// Both layers with the given settings, where null leaves a layer without any.
    fn layers(class: &Value, engine: &Value) -> (FireboltEngineClassSpec, FireboltEngineSpec) {
        let with = |mut base: Value, settings: &Value| {
            for (key, value) in settings.as_object().into_iter().flatten() {
                base[key] = value.clone();
            }
            base
        };
        let class = with(json!({ "template": {} }), class);
        let engine = with(json!({ "instanceRef": "i", "replicas": 1 }), engine);
        (
            serde_json::from_value(class).expect("a class"),
            serde_json::from_value(engine).expect("an engine"),
        )
    }

    #[rstest]
    #[case::neither(json!({}), json!({}), false)]
    #[case::class(json!({ "uiSidecar": true }), json!({}), true)]
    #[case::engine(json!({}), json!({ "uiSidecar": true }), true)]
    #[case::engine_says_no(json!({ "uiSidecar": true }), json!({ "uiSidecar": false }), false)]
    fn the_ui_is_off_unless_asked_for(#[case] class: Value, #[case] engine: Value, #[case] expected: bool) {
        let (class, engine) = layers(&class, &engine);
        assert_eq!(ui_sidecar(Some(&class), &engine), expected);
    }

    #[rstest]
    #[case::neither(json!({}), json!({}), Some(5))]
    #[case::class_interval(json!({ "drainCheckInterval": "2s" }), json!({}), Some(2))]
    #[case::engine_interval(json!({ "drainCheckInterval": "2s" }), json!({ "drainCheckInterval": "3s" }), Some(3))]
    #[case::class_off(json!({ "drainCheckEnabled": false }), json!({}), None)]
    #[case::engine_on_again(json!({ "drainCheckEnabled": false }), json!({ "drainCheckEnabled": true }), Some(5))]
    #[case::class_recreates(json!({ "rollout": "recreate" }), json!({}), None)]
    #[case::engine_is_graceful(json!({ "rollout": "recreate" }), json!({ "rollout": "graceful" }), Some(5))]
    #[case::recreate_beats_the_check(json!({}), json!({ "rollout": "recreate", "drainCheckEnabled": true }), None)]
    fn old_generations_are_drained_by_default(
        #[case] class: Value,
        #[case] engine: Value,
        #[case] seconds: Option<u64>,
    ) {
        let (class, engine) = layers(&class, &engine);
        assert_eq!(drain_check(Some(&class), &engine), seconds.map(Duration::from_secs));
    }

    #[rstest]
    #[case::neither(json!({}), json!({}), None)]
    #[case::class(json!({ "autoStop": { "activeReplicas": 2, "idleTimeout": "1m" } }), json!({}), Some((2, 60)))]
    #[case::engine_as_a_whole(json!({ "autoStop": { "activeReplicas": 2, "idleTimeout": "1m" } }), json!({ "autoStop": { "activeReplicas": 3 } }), Some((3, 1800)))]
    fn an_auto_stop_policy_is_taken_whole(
        #[case] class: Value,
        #[case] engine: Value,
        #[case] expected: Option<(i32, u64)>,
    ) {
        let (class, engine) = layers(&class, &engine);
        let policy = auto_stop(Some(&class), &engine);
        assert_eq!(
            policy.map(|policy| (policy.active_replicas, policy.idle_timeout.get().as_secs())),
            expected
        );
    }

    #[rstest]
    #[case::neither(json!({}), json!({}), "emptyDir")]
    #[case::class(json!({ "storage": { "hostPath": { "path": "/d" } } }), json!({}), "hostPath")]
    #[case::engine(json!({ "storage": { "hostPath": { "path": "/d" } } }), json!({ "storage": { "persistentVolumeClaim": {} } }), "claim")]
    #[case::engine_names_the_default(json!({ "storage": { "hostPath": { "path": "/d" } } }), json!({ "storage": { "emptyDir": {} } }), "emptyDir")]
    #[case::engine_is_silent(json!({ "storage": { "persistentVolumeClaim": {} } }), json!({ "storage": {} }), "claim")]
    fn storage_is_taken_whole(#[case] class: Value, #[case] engine: Value, #[case] expected: &str) {
        let (class, engine) = layers(&class, &engine);
        let found = match storage(Some(&class), &engine) {
            Backend::PersistentVolumeClaim(_) => "claim",
            Backend::EmptyDir(_) => "emptyDir",
            Backend::HostPath(_) => "hostPath",
        };
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case::access_modes(json!({ "persistentVolumeClaim": { "accessModes": [] } }), json!({ "persistentVolumeClaim": {} }))]
    #[case::medium(json!({ "emptyDir": { "medium": "" } }), json!({ "emptyDir": {} }))]
    #[case::type_(json!({ "hostPath": { "path": "/d", "type": "" } }), json!({ "hostPath": { "path": "/d" } }))]
    fn empty_settings_of_a_volume_are_the_defaults(#[case] empty: Value, #[case] bare: Value) {
        let of = |storage: &Value| {
            let (class, engine) = layers(&json!({ "storage": storage }), &json!({ "storage": storage }));
            let alone = super::storage(None, &engine);
            assert_eq!(super::storage(Some(&class), &layers(&json!({}), &json!({})).1), alone);
            alone
        };
        assert_eq!(of(&empty), of(&bare));
        let no_class = json!({ "persistentVolumeClaim": { "storageClassName": "" } });
        assert_ne!(of(&no_class), of(&json!({ "persistentVolumeClaim": {} })));
    }

    #[test]
    fn an_engine_without_a_class_has_the_defaults_of_the_operator() {
        let (_, engine) = layers(&json!({}), &json!({}));
        assert_eq!(drain_check(None, &engine), Some(DRAIN_CHECK_INTERVAL));
        assert!(!ui_sidecar(None, &engine) && auto_stop(None, &engine).is_none());
        assert_eq!(storage(None, &engine), Backend::EmptyDir(EmptyDirStorage::default()));
    }
}
