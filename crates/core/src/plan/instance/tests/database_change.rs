//! Changes of the database.

use super::*;

#[test]
fn is_rejected_while_engines_depend_on_the_old_database() {
    let case = instance().ready().at(Ready).external().engines(&["a", "b"]);
    assert_eq!(writes(&case), []);
    let status = case.status();
    assert_eq!(status.metadata_endpoint, "metadata:7000", "engines go on");
    assert_eq!(status.phase, Some(Degraded));
    let (reason, message) = ready_condition(&case);
    assert_eq!(reason, "PostgresSwitchRefused");
    assert!(message.contains("2 engines (a, b)"), "{message}");
    assert!(message.contains("Remove spec.metadata.postgres again"), "{message}");
    let back = instance()
        .external()
        .but(|case| case.observed.credentials = Credentials::Usable);
    let back = back
        .ready()
        .engines(&["a"])
        .but(|case| case.desired.database = Database::Internal);
    assert_eq!(writes(&back), []);
    assert!(ready_condition(&back).1.contains("Restore spec.metadata.postgres"));
}

#[test]
fn is_carried_out_once_no_engine_is_left_and_keeps_the_data() {
    let case = instance().ready().external();
    let moving = case
        .clone()
        .with(InstanceObject::MetadataDeployment, |child| child.intact = false);
    assert_eq!(
        writes(&moving),
        [InstanceWrite::Apply(InstanceObject::MetadataDeployment)]
    );
    assert!(moving.needs_live_reads(), "an engine may have come");
    let moved = case.but(|case| case.observed.database = Some(Database::External));
    let starting = moved.clone().pods(Component::Metadata, pods(1, 0));
    assert_eq!(writes(&starting), [], "the old one stays until the service has left it");
    let kinds: Vec<String> = writes(&moved)
        .into_iter()
        .map(|write| match write {
            InstanceWrite::Delete { kind, .. } => kind.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["StatefulSet", "Service"]);
}
