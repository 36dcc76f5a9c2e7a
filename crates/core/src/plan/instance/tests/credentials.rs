//! The credentials of the database.

use super::*;

#[test]
fn are_created_only_after_a_live_read() {
    assert!(instance().needs_live_reads());
    assert!(!instance().has(InstanceObject::PostgresCredentials).needs_live_reads());
}

#[test]
fn are_not_replaced_while_the_data_exists() {
    let lost = instance()
        .ready()
        .at(Ready)
        .lost(InstanceObject::PostgresCredentials)
        .but(|case| case.observed.claim = true);
    assert_eq!(writes(&lost), []);
    assert_eq!(lost.status().phase, Some(Failed));
    let (reason, message) = ready_condition(&lost);
    assert_eq!(reason, "PostgresCredentialsLost");
    for part in [
        "main-metadata-postgres-creds",
        "data-main-metadata-pg-0",
        "Restore the Secret",
        "delete StatefulSet main-metadata-pg and then",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(lost.plan().requeue_after.is_some(), "the claim is not watched");
    let given_up = lost.but(|case| case.observed.claim = false);
    assert_eq!(writes(&given_up), create(&[InstanceObject::PostgresCredentials]));
}

#[rstest]
#[case::internal(false, "PostgresEnsureFailed")]
#[case::external(true, "PostgresSecretPreflightFailed")]
fn are_reported_if_invalid(#[case] external: bool, #[case] expected: &str) {
    let case =
        instance().but(|case| case.observed.credentials = Credentials::Unusable("key password is empty".to_owned()));
    let case = if external { case.external() } else { case };
    assert_eq!(writes(&case), []);
    let (reason, message) = ready_condition(&case);
    assert_eq!(reason, expected);
    assert!(message.contains("key password is empty"), "{message}");
    assert_ne!(case.status().phase, Some(Failed));
}

#[rstest]
#[case::unseen(Credentials::Unknown, "Initializing")]
#[case::forbidden(Credentials::Unreadable("forbidden".to_owned()), "ProbeFailed")]
fn are_not_missing_if_they_have_not_been_read(
    #[case] credentials: Credentials,
    #[case] reason: &str,
    #[values(false, true)] external: bool,
) {
    let case = instance().but(|case| case.observed.credentials = credentials);
    let case = if external { case.external() } else { case };
    assert_eq!(writes(&case), []);
    assert_eq!(ready_condition(&case).0, reason);
}

#[rstest]
fn do_not_affect_the_readiness_of_a_running_service_if_unreadable(
    #[values(Credentials::Unknown, Credentials::Unreadable("forbidden".to_owned()))] credentials: Credentials,
    #[values(false, true)] external: bool,
) {
    let case = instance()
        .ready()
        .at(Ready)
        .but(|case| case.observed.credentials = credentials);
    let case = case.lost(InstanceObject::MetadataService);
    let case = if external {
        case.external()
            .but(|case| case.observed.database = Some(Database::External))
    } else {
        case
    };
    assert_eq!(writes(&case), [], "nothing can be rendered");
    assert_eq!(case.status().phase, Some(Ready));
    assert_eq!(case.status().metadata_endpoint, "metadata:7000");
}

#[test]
fn of_an_external_database_are_awaited_and_then_used() {
    let missing = instance().external();
    assert_eq!(writes(&missing), []);
    let (reason, message) = ready_condition(&missing);
    assert_eq!(reason, "PostgresSecretPreflightFailed");
    assert!(
        message.contains("does not exist. Create it with the keys username and password"),
        "{message}"
    );
    let there = missing.but(|case| case.observed.credentials = Credentials::Usable);
    let expected = [
        InstanceObject::MetadataConfig,
        InstanceObject::MetadataDeployment,
        InstanceObject::MetadataService,
    ];
    assert_eq!(writes(&there), create(&expected));
}
