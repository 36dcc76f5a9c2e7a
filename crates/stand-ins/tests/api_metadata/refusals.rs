//! Rejected configurations: the program ends with code 1, reports the cause, and was never healthy.

use stand_ins::loopback::free_address;

use crate::database::Server;
use crate::service::{DATABASE, Password, RETRY, Setup, USER};

/// The reason that it gives.
async fn refusal(setup: &Setup) -> String {
    let (code, log) = setup.start().ends_unhealthy().await;
    assert_eq!(code, Some(1), "{log}");
    let error = log.lines().find_map(|line| line.strip_prefix("error: "));
    error.unwrap_or_else(|| panic!("it gives a reason: {log}")).to_owned()
}

/// A setup without a database. An error about the database shows that everything else was accepted.
fn without_database() -> Setup {
    Setup::xml(free_address().expect("a free address"))
}

#[tokio::test]
async fn a_configuration_of_something_else_is_refused() {
    let mut setup = without_database();
    setup.config = setup.config.replace("pensieve_lite>", "engine>");
    let refusal = refusal(&setup).await;
    assert!(
        refusal.ends_with("its root is engine in place of pensieve_lite"),
        "{refusal}"
    );
}

#[tokio::test]
async fn a_missing_value_is_named() {
    let setup = without_database().with("<schema>public</schema>", "");
    let refusal = refusal(&setup).await;
    let name = "pensieve_lite.metadata_storage.postgresql.schema";
    assert_eq!(refusal, format!("read the configuration: {name} is missing"));
}

#[tokio::test]
async fn a_missing_credential_file_is_named() {
    let mut setup = without_database();
    setup.password = Password::HasNoFile;
    let refusal = refusal(&setup).await;
    assert!(refusal.starts_with("read the credential file "), "{refusal}");
    assert!(refusal.contains("/password: No such file"), "{refusal}");
}

#[tokio::test]
async fn a_missing_variable_is_named() {
    let mut setup = without_database();
    setup.password = Password::HasNoVariable;
    let refusal = refusal(&setup).await;
    assert!(refusal.ends_with("POSTGRES_PASSWORD_FILE is not set"), "{refusal}");
}

#[tokio::test]
async fn a_database_that_stays_away_is_given_up() {
    let mut setup = without_database();
    setup.arguments = vec!["--give-up-after", "1"];
    let refusal = refusal(&setup).await;
    assert!(
        refusal.starts_with(&format!("open the database {DATABASE} on 127.")),
        "{refusal}"
    );
    assert!(refusal.contains("Connection refused"), "{refusal}");
}

#[tokio::test]
async fn what_the_database_refuses_is_passed_on_at_once() {
    let server = Server::start();
    let wrong_password = Setup {
        password: Password::Is("wrong"),
        ..Setup::xml(server.address())
    };
    let no_database = Setup::xml(server.address()).with(DATABASE, "elsewhere");
    let no_schema = Setup::xml(server.address()).with("<schema>public", "<schema>elsewhere");
    let faults = [
        (
            wrong_password,
            format!("password authentication failed for user \"{USER}\""),
        ),
        (no_database, "database \"elsewhere\" does not exist".to_owned()),
        (no_schema, "schema \"elsewhere\" does not exist".to_owned()),
    ];
    for (setup, fault) in faults {
        let (code, log) = setup.start().ends_unhealthy().await;
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains(&fault), "{log}");
        assert!(!log.contains(RETRY), "it does not ask twice: {log}");
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let server = Server::start();
    let setup = Setup::xml(server.address());
    let _taken = std::net::TcpListener::bind(setup.listen).expect("listen");
    let refusal = refusal(&setup).await;
    assert!(
        refusal.starts_with(&format!("serve gRPC on {}", setup.listen)),
        "{refusal}"
    );
    assert!(refusal.contains("in use"), "{refusal}");
}
