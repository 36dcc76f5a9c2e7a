//! Protection of objects that engines depend on: their deletion, and a change of the database.

use firebolt_api::FireboltInstance;
use firebolt_api::condition::{InstanceCondition, InstanceReason};

use super::violation::{Violation, ViolationKind};
use crate::database::{Database, change_rejected};
use crate::names;

/// The violation if a class is deleted while engines reference it.
#[must_use]
pub fn engine_class_deletion(name: &str, namespace: &str, engines: &[String]) -> Option<Violation> {
    let remedy = "Change or remove spec.engineClassRef of the engines first";
    still_used(&format!("FireboltEngineClass {name}"), namespace, engines, remedy)
}

/// The violation if an instance is deleted while engines reference it.
#[must_use]
pub fn instance_deletion(name: &str, namespace: &str, engines: &[String]) -> Option<Violation> {
    let remedy = "Delete the engines first";
    still_used(&format!("FireboltInstance {name}"), namespace, engines, remedy)
}

fn still_used(what: &str, namespace: &str, engines: &[String], remedy: &str) -> Option<Violation> {
    if engines.is_empty() {
        return None;
    }
    let users = names::engines(engines);
    let message =
        format!("{what} in namespace {namespace} cannot be deleted while it is referenced by {users}. {remedy}.");
    Some(Violation::new("metadata.name", ViolationKind::Forbidden, message))
}

/// Violations of a change of an instance that these engines reference.
#[must_use]
pub fn instance_change(old: &FireboltInstance, new: &FireboltInstance, engines: &[String]) -> Vec<Violation> {
    let (before, after) = (database(old), database(new));
    if before == after || engines.is_empty() || is_way_back(old) {
        return Vec::new();
    }
    let message = change_rejected(before, engines).join(" ");
    vec![Violation::new(
        "spec.metadata.postgres",
        ViolationKind::Forbidden,
        message,
    )]
}

fn database(instance: &FireboltInstance) -> Database {
    match instance.spec.metadata.postgres {
        Some(_) => Database::External,
        None => Database::Internal,
    }
}

/// Whether the controller rejected the change that led to this version: then the next change is the remedy.
fn is_way_back(instance: &FireboltInstance) -> bool {
    let conditions = instance.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| {
        condition.type_ == <&str>::from(InstanceCondition::Ready)
            && condition.reason == <&str>::from(InstanceReason::PostgresSwitchRefused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::fixture;
    use rstest::rstest;
    use serde_json::json;

    fn named(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("engine-{index}")).collect()
    }

    #[rstest]
    #[case(0, None)]
    #[case(1, Some("engine engine-0."))]
    #[case(2, Some("2 engines (engine-0, engine-1)."))]
    #[case(6, Some("6 engines (engine-0, engine-1, engine-2, engine-3, engine-4 and 1 more)."))]
    fn what_engines_refer_to_is_not_deleted(#[case] count: usize, #[case] users: Option<&str>) {
        for (violation, what, remedy) in [
            (
                engine_class_deletion("large", "prod", &named(count)),
                "FireboltEngineClass large",
                "spec.engineClassRef",
            ),
            (
                instance_deletion("main", "prod", &named(count)),
                "FireboltInstance main",
                "Delete the engines first.",
            ),
        ] {
            assert_eq!(violation.is_some(), users.is_some());
            let (Some(violation), Some(users)) = (violation, users) else {
                continue;
            };
            assert_eq!(
                (violation.path.as_str(), violation.kind),
                ("metadata.name", ViolationKind::Forbidden)
            );
            let start = format!("{what} in namespace prod cannot be deleted while it is referenced by {users}");
            assert!(violation.message.starts_with(&start), "{violation}");
            assert!(violation.message.contains(remedy), "{violation}");
        }
    }

    fn instance(database: Database, reason: &str) -> FireboltInstance {
        let metadata = match database {
            Database::Internal => json!({}),
            Database::External => {
                json!({ "postgres": { "host": "h", "database": "d", "credentialsSecretRef": { "name": "s" } } })
            }
        };
        let mut instance = fixture::instance(&metadata, &json!({}));
        let condition = json!({
            "type": "Ready", "status": "False", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        instance.status = Some(serde_json::from_value(json!({ "conditions": [condition] })).expect("a status"));
        instance
    }

    #[rstest]
    #[case::to_another(Database::Internal, Database::External, "Remove spec.metadata.postgres again")]
    #[case::back_to_our_own(Database::External, Database::Internal, "Restore spec.metadata.postgres")]
    fn the_database_of_engines_does_not_change(
        #[case] before: Database,
        #[case] after: Database,
        #[case] remedy: &str,
    ) {
        let (old, new) = (
            instance(before, "AllComponentsReady"),
            instance(after, "AllComponentsReady"),
        );
        let refused = instance_change(&old, &new, &named(2));
        assert_eq!(refused.len(), 1);
        assert_eq!(
            (refused[0].path.as_str(), refused[0].kind),
            ("spec.metadata.postgres", ViolationKind::Forbidden)
        );
        for text in [remedy, "2 engines (engine-0, engine-1)"] {
            assert!(refused[0].message.contains(text), "{}", refused[0]);
        }
        assert_eq!(instance_change(&old, &new, &[]), [], "no engine references it");
        assert_eq!(instance_change(&old, &old, &named(2)), [], "it is the same");
    }

    #[test]
    fn a_change_that_the_controller_refused_can_be_taken_back() {
        let stuck = instance(Database::External, "PostgresSwitchRefused");
        let back = instance(Database::Internal, "PostgresSwitchRefused");
        assert_eq!(instance_change(&stuck, &back, &named(1)), []);
    }
}
