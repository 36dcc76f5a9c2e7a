//! The deletion of an instance.

use super::*;

fn deleted(case: &Case) -> Vec<String> {
    let writes = writes(case).into_iter();
    writes
        .map(|write| match write {
            Write::Delete { kind, name, .. } => format!("{kind} {name}"),
            other => format!("{other:?}"),
        })
        .collect()
}

/// As if everything that was asked for were gone.
fn after(case: Case) -> Case {
    let going = deleted(&case);
    case.but(|case| {
        case.observed
            .leftovers
            .retain(|leftover| !going.contains(&format!("{} {}", leftover.kind, leftover.name)));
    })
}

#[test]
fn comes_component_by_component_and_the_password_last() {
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
fn clears_the_addresses_and_says_how_far_it_is() {
    let case = instance().ready().at(Ready).deleting();
    let status = case.status();
    assert_eq!(
        (status.metadata_endpoint.as_str(), status.gateway_endpoint.as_str()),
        ("", "")
    );
    let (reason, message) = said(&case);
    assert_eq!(reason, "Deleting");
    assert!(
        message.starts_with("Gateway is being removed: Service main-gateway, "),
        "{message}"
    );
}

#[test]
fn waits_while_engines_refer_to_it_and_keeps_it_working() {
    let case = instance()
        .ready()
        .at(Ready)
        .lost(Object::GatewayBudget)
        .deleting()
        .engines(&["a"]);
    assert_eq!(writes(&case), create(&[Object::GatewayBudget]));
    let (reason, message) = said(&case);
    assert_eq!(reason, "DeletionBlocked");
    assert!(message.contains("needed by engine a"), "{message}");
    assert_eq!(case.status().metadata_endpoint, "metadata:7000");
}

#[test]
fn puts_nothing_back_that_kubernetes_takes_away_first() {
    let case = instance()
        .ready()
        .lost(Object::GatewayBudget)
        .deleting()
        .engines(&["a"]);
    let case = case.but(|case| {
        let finalizers = case.instance.metadata.finalizers.get_or_insert_default();
        finalizers.push("foregroundDeletion".to_owned());
    });
    assert_eq!(writes(&case), []);
    assert_eq!(said(&case).0, "DeletionBlocked");
}

#[test]
fn leaves_alone_what_belongs_to_others() {
    let case = instance()
        .ready()
        .with(Object::MetadataService, |child| child.meta.owned = false);
    let case = after(case.deleting());
    assert_eq!(
        deleted(&case),
        ["ConfigMap main-metadata-config", "Deployment main-metadata"]
    );
}

#[test]
fn does_not_wait_for_a_finalizer_of_somebody_else_but_tells_of_it() {
    let held = |child: &mut Child| {
        child.meta.terminating = true;
        child.meta.foreign_finalizers = vec!["example.com/keep".to_owned()];
    };
    let case = instance()
        .has(Object::GatewayService)
        .with(Object::GatewayService, held)
        .at(Ready)
        .deleting();
    let plan = case.plan();
    assert_eq!(plan.writes, []);
    assert_eq!(plan.events[0].reason, "ExternalFinalizerOnOwnedResource");
    assert_eq!(said(&case).0, "ExternalFinalizer");
    let told = case.reported();
    assert_eq!(writes(&told), [Write::RemoveFinalizer]);
}

#[test]
fn is_nobodys_business_without_our_finalizer() {
    let case = instance()
        .ready()
        .deleting()
        .but(|case| case.instance.metadata.finalizers = None);
    let plan = case.plan();
    assert_eq!((plan.writes, plan.status), (Vec::new(), None));
}

#[test]
fn a_claim_of_the_database_goes_too() {
    let claim = Leftover {
        component: Component::Postgres,
        order: Order::Data,
        kind: Kind::PersistentVolumeClaim,
        name: "data-main-metadata-pg-0".to_owned(),
        meta: ours("claim"),
    };
    let case = instance()
        .has(Object::PostgresCredentials)
        .at(Ready)
        .deleting()
        .but(|case| case.observed.leftovers.push(claim));
    assert_eq!(deleted(&case), ["PersistentVolumeClaim data-main-metadata-pg-0"]);
    let held = case.but(|case| {
        let claim = case.observed.leftovers.last_mut().expect("the claim");
        claim.meta.terminating = true;
        claim.meta.foreign_finalizers = vec!["example.com/backup".to_owned()];
    });
    assert_eq!(deleted(&held.clone().reported()), [""; 0], "its password stays with it");
    let (reason, message) = said(&held);
    assert_eq!(reason, "ExternalFinalizer");
    assert!(message.contains("Its password and the instance stay"), "{message}");
    let released = held.but(|case| drop(case.observed.leftovers.pop()));
    assert_eq!(deleted(&released), ["Secret main-metadata-postgres-creds"]);
}

#[test]
fn orphaned_means_that_everything_stays() {
    let case = instance().ready().deleting().but(|case| {
        let finalizers = case.instance.metadata.finalizers.get_or_insert_default();
        finalizers.push("orphan".to_owned());
    });
    assert_eq!(writes(&case), [Write::RemoveFinalizer]);
}

#[test]
fn an_engine_that_comes_late_does_not_bring_it_back() {
    for object in [
        Object::PostgresSet,
        Object::MetadataDeployment,
        Object::PostgresCredentials,
    ] {
        let case = instance().ready().lost(object).deleting().engines(&["late"]);
        assert_eq!(writes(&case), [], "{object:?}");
        assert_eq!(said(&case).0, "DeletionBlocked");
    }
    let going = instance()
        .ready()
        .with(Object::MetadataDeployment, |child| child.meta.terminating = true);
    assert_eq!(
        writes(&going.lost(Object::GatewayBudget).deleting().engines(&["late"])),
        []
    );
}
