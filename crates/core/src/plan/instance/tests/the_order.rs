//! What is written when.

use super::*;

#[test]
fn first_come_a_finalizer_and_an_identity() {
    let bare = instance().but(|case| {
        case.instance.metadata.finalizers = None;
        case.instance.spec.id = None;
    });
    assert_eq!(
        writes(&bare),
        [Write::AddFinalizer, Write::SetId("01JFRESH".to_owned())]
    );
    assert_eq!(bare.plan().status, None);
    assert_eq!(bare.plan().look_again, Some(Duration::ZERO));
}

#[test]
fn an_identity_of_a_user_is_kept_and_an_empty_one_is_none() {
    let named = instance().but(|case| case.instance.metadata.finalizers = None);
    assert_eq!(writes(&named), [Write::AddFinalizer]);
    let empty = instance().but(|case| case.instance.spec.id = Some(String::new()));
    assert_eq!(writes(&empty), [Write::SetId("01JFRESH".to_owned())]);
}

#[test]
fn then_comes_postgresql_and_nothing_that_needs_its_password() {
    assert_eq!(
        writes(&instance()),
        create(&[
            Object::PostgresCredentials,
            Object::PostgresSet,
            Object::PostgresService
        ])
    );
}

#[test]
fn the_metadata_service_does_not_wait_for_postgresql_to_be_up() {
    let case = instance()
        .has(Object::PostgresCredentials)
        .has(Object::PostgresSet)
        .has(Object::PostgresService);
    let expected = [
        Object::MetadataConfig,
        Object::MetadataDeployment,
        Object::MetadataService,
    ];
    assert_eq!(writes(&case), create(&expected));
}

#[test]
fn the_gateway_waits_for_the_metadata_service_and_begins_with_its_service() {
    let made = Object::iter()
        .filter(|object| object.component() != Component::Gateway)
        .fold(instance(), Case::has);
    assert_eq!(writes(&made), []);
    let up = made.pods(Component::Metadata, pods(1, 1));
    let first = [
        Object::GatewayService,
        Object::GatewayAccount,
        Object::GatewayRole,
        Object::GatewayRoleBinding,
    ];
    assert_eq!(writes(&up), create(&first));
    let addressed = first.into_iter().fold(up, Case::has);
    let rest = [Object::GatewayConfig, Object::GatewayDeployment, Object::GatewayBudget];
    assert_eq!(writes(&addressed), create(&rest));
}

#[test]
fn a_gateway_that_was_lost_comes_back_without_the_metadata_service() {
    let case = instance()
        .ready()
        .pods(Component::Metadata, pods(1, 0))
        .lost(Object::GatewayDeployment);
    assert_eq!(writes(&case), create(&[Object::GatewayDeployment]));
}

#[test]
fn a_gateway_that_exists_is_looked_after_without_the_metadata_service() {
    let case = instance()
        .ready()
        .pods(Component::Metadata, pods(1, 0))
        .lost(Object::GatewayBudget);
    assert_eq!(writes(&case), create(&[Object::GatewayBudget]));
}

#[test]
fn at_rest_nothing_is_written() {
    let rest = instance().ready().reported();
    let plan = rest.plan();
    assert_eq!((plan.writes, plan.status, plan.look_again), (Vec::new(), None, None));
    assert_eq!(plan.events, []);
}

#[test]
fn whatever_was_lost_comes_back_and_whatever_was_changed_is_set_right() {
    for object in Object::iter() {
        let lost = instance().ready().lost(object);
        assert!(writes(&lost).contains(&Write::Create(object)), "{object:?}");
        if object == Object::PostgresCredentials {
            continue;
        }
        let changed = instance().ready().with(object, |child| child.intact = false);
        assert_eq!(writes(&changed), [Write::Apply(object)], "{object:?}");
        let going = instance().ready().with(object, |child| {
            child.intact = false;
            child.meta.terminating = true;
        });
        assert_eq!(writes(&going), [], "{object:?} has to be gone first");
    }
}

#[test]
fn an_account_of_a_user_takes_the_place_of_ours() {
    let user = |case: Case| case.but(|case| case.wanted.own_account = false);
    let gone = user(instance().ready());
    let deleted: Vec<String> = writes(&gone)
        .into_iter()
        .map(|write| match write {
            Write::Delete { kind, name, .. } => format!("{kind} {name}"),
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
    let never = [Object::GatewayAccount, Object::GatewayRole, Object::GatewayRoleBinding]
        .into_iter()
        .fold(user(instance().ready()), Case::lost);
    assert_eq!(writes(&never), []);
}
