//! What another version of the operator rendered.

use rstest::rstest;
use serde_json::json;

use super::*;

/// A StatefulSet that another version of the operator rendered, as it stands in the cluster.
fn outdated_set(change: impl FnOnce(&mut StatefulSet)) -> ObservedSet {
    set(|set| {
        let annotations = set.metadata.annotations.as_mut().unwrap();
        annotations.insert(Annotation::RenderingHash.key().to_owned(), "engine=other".to_owned());
        set.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers[0].image = Some("other:1".to_owned());
        change(set);
    })
}

#[test]
fn another_rendering_of_the_same_inputs_is_outdated_and_not_tampered_with() {
    let seen = outdated_set(|_| ());
    assert_eq!(seen.template_hash, Some(render::template_hash(&effective())));
    assert!(
        seen.outdated.contains(&"container `engine`") && !seen.tampered,
        "{seen:?}"
    );
    assert_eq!(set(|_| ()).outdated, [""; 0]);
}

/// What was rendered then is not known field by field, but Kubernetes knows whether the pods are still the same.
#[rstest]
#[case::same_pods("r1", "r1", 2, false)]
#[case::other_pods("r1", "r2", 2, true)]
#[case::not_observed_yet("r1", "r2", 1, false)]
fn a_change_of_another_rendering_shows_in_its_revisions(
    #[case] current: &str,
    #[case] update: &str,
    #[case] observed: i64,
    #[case] tampered: bool,
) {
    let seen = outdated_set(|set| {
        set.metadata.generation = Some(2);
        let status = json!({ "replicas": 2, "observedGeneration": observed, "currentRevision": current, "updateRevision": update });
        set.status = Some(serde_json::from_value(status).unwrap());
    });
    assert_eq!(seen.tampered, tampered);
}

#[test]
fn replicas_of_another_rendering_that_another_client_changed_are_tampering() {
    let seen = outdated_set(|set| {
        set.metadata.generation = Some(2);
        set.spec.as_mut().unwrap().replicas = Some(9);
    });
    assert!(seen.tampered);
}

#[test]
fn the_configuration_of_another_rendering_is_compared_with_its_own_record() {
    let intact = |change: fn(&mut ConfigMap)| {
        let generation = observed(|objects| {
            let annotations = objects.stateful_sets[0].metadata.annotations.as_mut().unwrap();
            annotations.insert(Annotation::RenderingHash.key().to_owned(), "config=other".to_owned());
            let config_map = &mut objects.config_maps[0];
            config_map.data = Some([("config.yaml".to_owned(), "other: true".to_owned())].into());
            let hash = crate::canonical::hash(&config_map.data);
            let annotations = config_map.metadata.annotations.as_mut().unwrap();
            annotations.insert(Annotation::ConfigHash.key().to_owned(), hash);
            change(config_map);
        });
        generation.config_map.unwrap().intact
    };
    assert!(intact(|_| ()));
    assert!(!intact(|config_map| config_map.data = None));
}

/// The engine has been rolled out, and nothing else says that its inputs have changed since.
#[rstest]
#[case::rolled_out(Some(4), None, true)]
#[case::edited_since(Some(3), None, false)]
#[case::never_rolled_out(None, None, false)]
#[case::of_another_class(Some(4), Some(Annotation::EngineClassHash), false)]
#[case::another_configuration(Some(4), Some(Annotation::CustomEngineConfigHash), false)]
fn a_generation_with_a_hash_of_another_version_is_adopted(
    #[case] rolled_out: Option<i64>,
    #[case] differs: Option<Annotation>,
    #[case] adopted: bool,
) {
    for hash in [Some("1-0123456789abcdef"), None] {
        let mut engine = engine();
        engine.metadata.generation = Some(4);
        let status = json!({ "currentGeneration": 3, "activeGeneration": 3, "observedGeneration": rolled_out });
        engine.status = Some(serde_json::from_value(status).unwrap());
        let mut objects = generation(3);
        let annotations = objects.stateful_sets[0].metadata.annotations.as_mut().unwrap();
        annotations.remove(Annotation::TemplateHash.key());
        annotations.remove(Annotation::RenderingHash.key());
        annotations.extend(hash.map(|hash| (Annotation::TemplateHash.key().to_owned(), hash.to_owned())));
        annotations.extend(differs.map(|differs| (differs.key().to_owned(), "x".to_owned())));
        let seen = compare(&engine, &desired(), &snapshot(&objects))
            .generations
            .remove(&3)
            .unwrap();
        let recorded = seen.stateful_set.unwrap().template_hash;
        let expected = if adopted {
            Some(render::template_hash(&effective()))
        } else {
            hash.map(str::to_owned)
        };
        assert_eq!(recorded, expected);
    }
}
