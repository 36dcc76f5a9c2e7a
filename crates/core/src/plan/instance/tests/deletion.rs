//! The deletion of an instance.

use super::*;

fn deleted(case: &Case) -> Vec<String> {
    let writes = writes(case).into_iter();
    writes
        .map(|write| match write {
            InstanceWrite::Delete { kind, name, .. } => format!("{kind} {name}"),
            other => format!("{other:?}"),
        })
        .collect()
}

/// As if everything that the plan deletes were gone.
fn after(case: Case) -> Case {
    let deleted_now = deleted(&case);
    case.but(|case| {
        case.observed
            .leftovers
            .retain(|leftover| !deleted_now.contains(&format!("{} {}", leftover.kind, leftover.name)));
    })
}

#[test]
fn deletes_component_by_component_and_the_password_last() {
    let case = instance().ready().deleting();
    assert!(case.needs_live_reads());
    assert_eq!(deleted(&case).len(), 7);
    assert!(deleted(&case).contains(&"Deployment main-gateway".to_owned()));
    let case = after(case);
    assert_eq!(
        deleted(&case),
        [
            "ConfigMap main-metadata-config",
            "Deployment main-metadata",
            "Service main-metadata"
        ]
    );
    let case = after(case);
    assert_eq!(
        deleted(&case),
        ["StatefulSet main-metadata-pg", "Service main-metadata-pg"]
    );
    let case = after(case);
    assert_eq!(deleted(&case), ["Secret main-metadata-postgres-creds"]);
    let case = after(case);
    assert_eq!(deleted(&case), ["RemoveFinalizer"]);
}

#[test]
fn clears_the_addresses_and_reports_the_progress() {
    let case = instance().ready().at(Ready).deleting();
    let status = case.status();
    assert_eq!(
        (status.metadata_endpoint.as_str(), status.gateway_endpoint.as_str()),
        ("", "")
    );
    let (reason, message) = ready_condition(&case);
    assert_eq!(reason, "Deleting");
    assert!(
        message.starts_with("Deleting the gateway: Service main-gateway, "),
        "{message}"
    );
}

#[test]
fn waits_while_engines_reference_it_and_keeps_it_working() {
    let case = instance()
        .ready()
        .at(Ready)
        .lost(InstanceObject::GatewayBudget)
        .deleting()
        .engines(&["a"]);
    assert_eq!(writes(&case), create(&[InstanceObject::GatewayBudget]));
    let (reason, message) = ready_condition(&case);
    assert_eq!(reason, "DeletionBlocked");
    assert!(message.contains("referenced by engine a"), "{message}");
    assert_eq!(case.status().metadata_endpoint, "metadata:7000");
}

#[test]
fn does_not_create_again_what_kubernetes_deletes_in_the_foreground() {
    let case = instance()
        .ready()
        .lost(InstanceObject::GatewayBudget)
        .deleting()
        .engines(&["a"]);
    let case = case.but(|case| {
        let finalizers = case.instance.metadata.finalizers.get_or_insert_default();
        finalizers.push("foregroundDeletion".to_owned());
    });
    assert_eq!(writes(&case), []);
    assert_eq!(ready_condition(&case).0, "DeletionBlocked");
}

#[test]
fn does_not_delete_foreign_objects() {
    let case = instance()
        .ready()
        .with(InstanceObject::MetadataService, |child| child.meta.owned = false);
    let case = after(case.deleting());
    assert_eq!(
        deleted(&case),
        ["ConfigMap main-metadata-config", "Deployment main-metadata"]
    );
}

#[test]
fn does_not_wait_for_a_foreign_finalizer_but_reports_it() {
    let held = |child: &mut ObservedChild| {
        child.meta.terminating = true;
        child.meta.foreign_finalizers = vec!["example.com/keep".to_owned()];
    };
    let case = instance()
        .has(InstanceObject::GatewayService)
        .with(InstanceObject::GatewayService, held)
        .at(Ready)
        .deleting();
    let plan = case.plan();
    assert_eq!(plan.writes, []);
    assert_eq!(plan.events[0].reason, "ExternalFinalizerOnOwnedResource");
    assert_eq!(ready_condition(&case).0, "ExternalFinalizer");
    let reported = case.reported();
    assert_eq!(writes(&reported), [InstanceWrite::RemoveFinalizer]);
}

#[test]
fn plans_nothing_without_our_finalizer() {
    let case = instance()
        .ready()
        .deleting()
        .but(|case| case.instance.metadata.finalizers = None);
    let plan = case.plan();
    assert_eq!((plan.writes, plan.status), (Vec::new(), None));
}

#[test]
fn deletes_the_claim_of_the_database() {
    let claim = Leftover {
        component: Component::Postgres,
        order: Order::Data,
        kind: InstanceObjectKind::PersistentVolumeClaim,
        name: "data-main-metadata-pg-0".to_owned(),
        meta: ours("claim"),
    };
    let case = instance()
        .has(InstanceObject::PostgresCredentials)
        .at(Ready)
        .deleting()
        .but(|case| case.observed.leftovers.push(claim));
    assert_eq!(deleted(&case), ["PersistentVolumeClaim data-main-metadata-pg-0"]);
    let held = case.but(|case| {
        let claim = case.observed.leftovers.last_mut().expect("the claim");
        claim.meta.terminating = true;
        claim.meta.foreign_finalizers = vec!["example.com/backup".to_owned()];
    });
    assert_eq!(
        deleted(&held.clone().reported()),
        [""; 0],
        "its password is kept as well"
    );
    let (reason, message) = ready_condition(&held);
    assert_eq!(reason, "ExternalFinalizer");
    assert!(
        message.contains("The Secret with the database password and the instance are kept"),
        "{message}"
    );
    let released = held.but(|case| drop(case.observed.leftovers.pop()));
    assert_eq!(deleted(&released), ["Secret main-metadata-postgres-creds"]);
}

#[test]
fn keeps_everything_if_orphaned() {
    let case = instance().ready().deleting().but(|case| {
        let finalizers = case.instance.metadata.finalizers.get_or_insert_default();
        finalizers.push("orphan".to_owned());
    });
    assert_eq!(writes(&case), [InstanceWrite::RemoveFinalizer]);
}

#[test]
fn an_engine_that_is_created_late_does_not_restore_deleted_objects() {
    for object in [
        InstanceObject::PostgresSet,
        InstanceObject::MetadataDeployment,
        InstanceObject::PostgresCredentials,
    ] {
        let case = instance().ready().lost(object).deleting().engines(&["late"]);
        assert_eq!(writes(&case), [], "{object:?}");
        assert_eq!(ready_condition(&case).0, "DeletionBlocked");
    }
    let terminating = instance().ready().with(InstanceObject::MetadataDeployment, |child| {
        child.meta.terminating = true;
    });
    assert_eq!(
        writes(
            &terminating
                .lost(InstanceObject::GatewayBudget)
                .deleting()
                .engines(&["late"])
        ),
        []
    );
}
