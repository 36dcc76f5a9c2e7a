//! The order of writes.

use super::*;

#[test]
fn the_finalizer_and_the_id_are_written_first() {
    let bare = instance().but(|case| {
        case.instance.metadata.finalizers = None;
        case.instance.spec.id = None;
    });
    assert_eq!(
        writes(&bare),
        [InstanceWrite::AddFinalizer, InstanceWrite::SetId("01JFRESH".to_owned())]
    );
    assert_eq!(bare.plan().status, None);
    assert_eq!(bare.plan().requeue_after, Some(Duration::ZERO));
}

#[test]
fn the_id_of_a_user_is_kept_and_an_empty_one_is_replaced() {
    let named = instance().but(|case| case.instance.metadata.finalizers = None);
    assert_eq!(writes(&named), [InstanceWrite::AddFinalizer]);
    let empty = instance().but(|case| case.instance.spec.id = Some(String::new()));
    assert_eq!(writes(&empty), [InstanceWrite::SetId("01JFRESH".to_owned())]);
}

#[test]
fn postgresql_is_created_before_anything_that_needs_its_password() {
    assert_eq!(
        writes(&instance()),
        create(&[
            InstanceObject::PostgresCredentials,
            InstanceObject::PostgresSet,
            InstanceObject::PostgresService
        ])
    );
}

#[test]
fn the_metadata_service_does_not_wait_for_postgresql_to_be_ready() {
    let case = instance()
        .has(InstanceObject::PostgresCredentials)
        .has(InstanceObject::PostgresSet)
        .has(InstanceObject::PostgresService);
    let expected = [
        InstanceObject::MetadataConfig,
        InstanceObject::MetadataDeployment,
        InstanceObject::MetadataService,
    ];
    assert_eq!(writes(&case), create(&expected));
}

#[test]
fn the_gateway_waits_for_the_metadata_service_and_its_service_is_created_first() {
    let made = InstanceObject::iter()
        .filter(|object| object.component() != Component::Gateway)
        .fold(instance(), Case::has);
    assert_eq!(writes(&made), []);
    let up = made.pods(Component::Metadata, pods(1, 1));
    let first = [
        InstanceObject::GatewayService,
        InstanceObject::GatewayAccount,
        InstanceObject::GatewayRole,
        InstanceObject::GatewayRoleBinding,
    ];
    assert_eq!(writes(&up), create(&first));
    let addressed = first.into_iter().fold(up, Case::has);
    let rest = [
        InstanceObject::GatewayConfig,
        InstanceObject::GatewayDeployment,
        InstanceObject::GatewayBudget,
    ];
    assert_eq!(writes(&addressed), create(&rest));
}

#[test]
fn a_missing_gateway_is_created_again_without_the_metadata_service() {
    let case = instance()
        .ready()
        .pods(Component::Metadata, pods(1, 0))
        .lost(InstanceObject::GatewayDeployment);
    assert_eq!(writes(&case), create(&[InstanceObject::GatewayDeployment]));
}

#[test]
fn an_existing_gateway_is_reconciled_without_the_metadata_service() {
    let case = instance()
        .ready()
        .pods(Component::Metadata, pods(1, 0))
        .lost(InstanceObject::GatewayBudget);
    assert_eq!(writes(&case), create(&[InstanceObject::GatewayBudget]));
}

#[test]
fn an_instance_without_changes_has_an_empty_plan() {
    let rest = instance().ready().reported();
    let plan = rest.plan();
    assert_eq!((plan.writes, plan.status, plan.requeue_after), (Vec::new(), None, None));
    assert_eq!(plan.events, []);
}

#[test]
fn missing_objects_are_created_and_modified_objects_are_applied() {
    for object in InstanceObject::iter() {
        let lost = instance().ready().lost(object);
        assert!(writes(&lost).contains(&InstanceWrite::Create(object)), "{object:?}");
        if object == InstanceObject::PostgresCredentials {
            continue;
        }
        let changed = instance().ready().with(object, |child| child.intact = false);
        assert_eq!(writes(&changed), [InstanceWrite::Apply(object)], "{object:?}");
        let terminating = instance().ready().with(object, |child| {
            child.intact = false;
            child.meta.terminating = true;
        });
        assert_eq!(writes(&terminating), [], "{object:?} has to be gone first");
    }
}

#[test]
fn a_service_account_of_a_user_replaces_that_of_the_operator() {
    let user = |case: Case| case.but(|case| case.desired.own_account = false);
    let gone = user(instance().ready());
    let deleted: Vec<String> = writes(&gone)
        .into_iter()
        .map(|write| match write {
            InstanceWrite::Delete { kind, name, .. } => format!("{kind} {name}"),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        deleted,
        [
            "ServiceAccount main-gateway",
            "Role main-gateway-wake",
            "RoleBinding main-gateway-wake"
        ]
    );
    assert!(gone.needs_live_reads());
    let rolling = Workload {
        updated: 0,
        ..pods(1, 1)
    };
    assert_eq!(
        writes(&gone.pods(Component::Gateway, rolling)),
        [],
        "a pod still runs under ours"
    );
    let never = [
        InstanceObject::GatewayAccount,
        InstanceObject::GatewayRole,
        InstanceObject::GatewayRoleBinding,
    ]
    .into_iter()
    .fold(user(instance().ready()), Case::lost);
    assert_eq!(writes(&never), []);
}
