//! Rules for the settings of an instance outside of its pod templates.

use std::time::Duration;

use firebolt_api::FireboltInstance;

use super::violation::{Violation, ViolationKind};
use crate::render::instance::gateway::GATEWAY_PORTS;
use crate::render::instance::is_plain;

const SHORTEST_WAKE: Duration = Duration::from_secs(1);
const LONGEST_WAKE: Duration = Duration::from_hours(1);

/// Violations of the settings of the metadata service, including the id of the instance, which is its account there.
pub(super) fn metadata(instance: &FireboltInstance) -> Vec<Violation> {
    let violations = [id(instance), replicas(instance), credentials(instance)];
    violations.into_iter().flatten().collect()
}

/// Violations of the settings of the gateway.
pub(super) fn gateway(instance: &FireboltInstance) -> Vec<Violation> {
    let violations = [metrics_port(instance), wake_timeout(instance)];
    violations.into_iter().flatten().collect()
}

fn id(instance: &FireboltInstance) -> Option<Violation> {
    let id = instance.spec.id.as_deref().unwrap_or_default();
    let wrong = id.chars().find(|character| !is_plain(*character))?;
    Some(Violation::new(
        "spec.id",
        ViolationKind::Invalid,
        format!("The character {wrong:?} is not allowed in an id. Use printable characters only, or omit spec.id."),
    ))
}

fn replicas(instance: &FireboltInstance) -> Option<Violation> {
    instance.spec.metadata.replicas.filter(|replicas| *replicas != 1)?;
    Some(Violation::new(
        "spec.metadata.replicas",
        ViolationKind::Invalid,
        "The metadata service has a single writer. Set 1, or remove this field.",
    ))
}

fn credentials(instance: &FireboltInstance) -> Option<Violation> {
    let external = instance.spec.metadata.postgres.as_ref()?;
    external.credentials_secret_ref.name.is_empty().then(|| {
        Violation::new(
            "spec.metadata.postgres.credentialsSecretRef.name",
            ViolationKind::Required,
            "Name the Secret in this namespace that holds the username and the password for the database.",
        )
    })
}

fn metrics_port(instance: &FireboltInstance) -> Option<Violation> {
    let port = instance.spec.gateway.metrics_port;
    let message = match u16::try_from(port) {
        Ok(port) if GATEWAY_PORTS.contains(&port) => {
            format!("Port {port} of the gateway pods is already used for another purpose. Choose another port.")
        }
        Ok(1..) => return None,
        Ok(0) | Err(_) => format!("{port} is not a port. Choose a number from 1 to 65535."),
    };
    Some(Violation::new(
        "spec.gateway.metricsPort",
        ViolationKind::Invalid,
        message,
    ))
}

/// The schema has the same limits, but an older schema may be installed that has none.
fn wake_timeout(instance: &FireboltInstance) -> Option<Violation> {
    let timeout = &instance.spec.gateway.wake_timeout;
    if (SHORTEST_WAKE..=LONGEST_WAKE).contains(&timeout.get()) {
        return None;
    }
    Some(Violation::new(
        "spec.gateway.wakeTimeout",
        ViolationKind::Invalid,
        format!("Queries cannot be held for {timeout}. Choose a duration from 1s to 1h, such as 2m."),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::fixture::{EXTERNAL_SECRET, instance};
    use crate::admit::{gateway_settings, metadata_settings};
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    /// Asserts that this is the only violation of the instance.
    fn assert_rejected(instance: &FireboltInstance, path: &str, kind: ViolationKind, text: &str) {
        let found = crate::admit::instance(instance);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].path.as_str(), found[0].kind), (path, kind));
        assert!(found[0].message.contains(text), "{}", found[0]);
    }

    #[rstest]
    #[case(json!({}), true)]
    #[case(json!({ "replicas": 1 }), true)]
    #[case(json!({ "replicas": 0 }), false)]
    #[case(json!({ "replicas": 2 }), false)]
    fn the_metadata_service_has_one_replica(#[case] metadata: serde_json::Value, #[case] accepted: bool) {
        let instance = instance(&metadata, &json!({}));
        if accepted {
            assert_eq!(metadata_settings(&instance), []);
        } else {
            assert_rejected(
                &instance,
                "spec.metadata.replicas",
                ViolationKind::Invalid,
                "single writer",
            );
        }
    }

    #[rstest]
    #[case(EXTERNAL_SECRET, true)]
    #[case("", false)]
    fn an_external_database_has_credentials(#[case] secret: &str, #[case] accepted: bool) {
        let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": secret } });
        let instance = instance(&json!({ "postgres": postgres }), &json!({}));
        if accepted {
            assert_eq!(metadata_settings(&instance), []);
        } else {
            let path = "spec.metadata.postgres.credentialsSecretRef.name";
            assert_rejected(&instance, path, ViolationKind::Required, "Name the Secret");
        }
    }

    #[rstest]
    #[case::left_out(None)]
    #[case::empty(Some(""))]
    #[case::ulid(Some("01J00000000000000000000000"))]
    #[case::markup(Some("<a> & \"b\" 'c' ä 🔥"))]
    fn an_id_may_have_any_printable_character(#[case] id: Option<&str>) {
        let mut instance = instance(&json!({}), &json!({}));
        instance.spec.id = id.map(str::to_owned);
        assert_eq!(metadata_settings(&instance), []);
    }

    #[rstest]
    #[case::null("a\0")]
    #[case::bell("\u{7}")]
    #[case::line_break("a\nb")]
    #[case::delete("\u{7f}")]
    #[case::no_character("\u{ffff}")]
    fn an_id_may_not_have_characters_that_no_file_can_hold(#[case] id: &str) {
        let mut instance = instance(&json!({}), &json!({}));
        instance.spec.id = Some(id.to_owned());
        assert_rejected(&instance, "spec.id", ViolationKind::Invalid, "is not allowed in an id");
    }

    #[rstest]
    #[case::left_out(json!({}), true)]
    #[case::shortest(json!({ "wakeTimeout": "1000ms" }), true)]
    #[case::longest(json!({ "wakeTimeout": "60m" }), true)]
    #[case::nothing(json!({ "wakeTimeout": "0s" }), false)]
    #[case::too_short(json!({ "wakeTimeout": "999ms" }), false)]
    #[case::too_long(json!({ "wakeTimeout": "1h1ns" }), false)]
    fn queries_are_held_for_a_second_to_an_hour(#[case] gateway: serde_json::Value, #[case] accepted: bool) {
        let instance = instance(&json!({}), &gateway);
        if accepted {
            assert_eq!(gateway_settings(&instance), []);
        } else {
            assert_rejected(
                &instance,
                "spec.gateway.wakeTimeout",
                ViolationKind::Invalid,
                "from 1s to 1h",
            );
        }
    }

    proptest! {
        #[test]
        fn only_ports_without_another_purpose_are_for_metrics(
            port in prop_oneof![any::<i32>(), -1..70_000, 8079..8082, 9899..9906],
        ) {
            let taken = [8080, 9901, 9902, 9903];
            let instance = instance(&json!({}), &json!({ "metricsPort": port }));
            let accepted = (1..=65_535).contains(&port) && !taken.contains(&port);
            prop_assert_eq!(gateway_settings(&instance).is_empty(), accepted);
            if !accepted {
                assert_rejected(&instance, "spec.gateway.metricsPort", ViolationKind::Invalid, "Choose");
            }
        }
    }
}
