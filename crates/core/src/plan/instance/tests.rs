//! What is decided in each situation.

use firebolt_api::InstancePhase::{self, Degraded, Failed, Provisioning, Ready};
use firebolt_api::condition::InstanceCondition;
use rstest::rstest;
use strum::IntoEnumIterator;

use super::fixture::{Case, instance, ours, pods};
use super::*;
use crate::plan::{Child, Meta, Severity};

fn writes(case: &Case) -> Vec<Write> {
    case.plan().writes
}

fn create(objects: &[Object]) -> Vec<Write> {
    objects.iter().map(|object| Write::Create(*object)).collect()
}

/// Reason and message of the whole instance.
fn said(case: &Case) -> (String, String) {
    let ready = case.condition(InstanceCondition::Ready);
    (ready.reason, ready.message)
}

mod the_order {
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
}

mod what_is_said {
    use super::*;

    #[test]
    fn a_component_that_is_not_ready_has_no_address() {
        let status = instance().ready().status();
        assert_eq!(status.phase, Some(Ready));
        assert_eq!(
            (status.metadata_endpoint.as_str(), status.gateway_endpoint.as_str()),
            ("metadata:7000", "gateway")
        );
        assert!(status.metadata_ready && status.gateway_ready);
        let status = instance().ready().pods(Component::Metadata, pods(1, 0)).status();
        assert_eq!(
            (status.metadata_endpoint.as_str(), status.gateway_endpoint.as_str()),
            ("", "gateway")
        );
        assert!(!status.metadata_ready);
        let status = instance().ready().pods(Component::Gateway, pods(2, 0)).status();
        assert_eq!(
            (status.metadata_endpoint.as_str(), status.gateway_endpoint.as_str()),
            ("metadata:7000", "")
        );
    }

    #[rstest]
    #[case::new(instance(), None, Provisioning)]
    #[case::still_new(instance(), Some(Provisioning), Provisioning)]
    #[case::up(instance().ready(), Some(Provisioning), Ready)]
    #[case::lost(instance().ready().pods(Component::Gateway, pods(2, 0)), Some(Ready), Degraded)]
    #[case::still_lost(instance().ready().pods(Component::Metadata, pods(1, 0)), Some(Degraded), Degraded)]
    #[case::back(instance().ready(), Some(Degraded), Ready)]
    #[case::recovered(instance().ready(), Some(Failed), Ready)]
    #[case::recovering(instance().ready().pods(Component::Metadata, pods(1, 0)), Some(Failed), Degraded)]
    #[case::recovering_new(instance(), Some(Failed), Provisioning)]
    fn the_phase_follows_from_the_components(
        #[case] case: Case,
        #[case] before: Option<InstancePhase>,
        #[case] after: InstancePhase,
    ) {
        let case = match before {
            Some(before) => case.at(before),
            None => case,
        };
        assert_eq!(case.status().phase, Some(after));
    }

    #[test]
    fn a_new_instance_says_what_it_waits_for() {
        let (reason, message) = said(&instance());
        assert_eq!(reason, "Initializing");
        assert_eq!(message, "PostgreSQL is being created.");
        let starting = Object::iter()
            .filter(|object| object.component() != Component::Gateway)
            .fold(instance(), Case::has)
            .pods(Component::Postgres, pods(1, 0))
            .pods(Component::Metadata, pods(1, 0));
        let (reason, message) = said(&starting);
        assert_eq!(reason, "Provisioning");
        assert_eq!(
            message,
            "The metadata service is not ready: 0 of 1 pods ready. PostgreSQL: 0 of 1 pods ready."
        );
    }

    #[test]
    fn a_failure_is_told_before_what_is_merely_under_way() {
        let taken = Child {
            meta: Meta {
                owned: false,
                ..ours("theirs")
            },
            intact: false,
        };
        let case = instance().but(|case| {
            case.observed.objects.insert(Object::GatewayDeployment, taken);
        });
        assert_eq!(case.status().phase, Some(Failed));
        assert_eq!(said(&case).0, "ForeignObject");
    }

    #[test]
    fn what_kubernetes_has_not_looked_at_yet_is_as_it_was() {
        let unseen = Workload {
            observed: false,
            ..pods(1, 1)
        };
        let rest = instance().ready().reported();
        for component in [Component::Metadata, Component::Gateway] {
            let case = rest.clone().pods(component, unseen.clone());
            assert_eq!(case.plan().status, None, "{component}");
            let edited = case.but(|case| case.instance.metadata.generation = Some(2));
            assert_eq!(
                edited.plan().status,
                None,
                "{component}: nothing to say of the new generation yet"
            );
        }
        let new = instance().ready().pods(Component::Metadata, unseen);
        assert!(!new.status().metadata_ready, "nothing was ever said of it");
    }

    #[test]
    fn what_is_only_just_written_has_not_been_looked_at() {
        let edited = instance()
            .ready()
            .reported()
            .but(|case| case.instance.metadata.generation = Some(2));
        let writing = edited
            .clone()
            .with(Object::MetadataDeployment, |child| child.intact = false);
        assert_eq!(writing.plan().status, None, "nothing to say of the new generation yet");
        let status = edited.status();
        assert_eq!(status.observed_generation, Some(2));
        assert!(
            status
                .conditions
                .iter()
                .all(|condition| condition.observed_generation == Some(2))
        );
    }

    #[test]
    fn an_instance_that_cannot_be_looked_after_says_so() {
        let case = instance().ready().at(Ready);
        let status = case.stuck("no rights").expect("news");
        assert_eq!(status.phase, Some(Degraded));
        assert_eq!(status.conditions[0].reason, "EnsureFailed");
        let told = case.but(|case| case.instance.status = Some(status));
        assert_eq!(told.stuck("no rights"), None);
    }

    #[test]
    fn a_gateway_without_pods_says_whose_wish_that_is() {
        let (_, message) = said(&instance().ready().pods(Component::Gateway, pods(0, 0)));
        assert!(message.contains("spec.gateway.replicas is 0"), "{message}");
    }

    #[test]
    fn a_rejected_template_is_named_and_its_component_left_alone() {
        for (component, kind) in [
            (Component::Metadata, InstanceCondition::MetadataReady),
            (Component::Gateway, InstanceCondition::GatewayReady),
        ] {
            let objects = Object::iter().filter(|object| object.component() == component);
            let case = objects.fold(instance().ready(), |case, object| {
                case.with(object, |child| child.intact = false)
            });
            let case = case.but(|case| {
                case.wanted.rejected.insert(component, "not like this".to_owned());
            });
            assert_eq!(writes(&case), []);
            assert_eq!(case.condition(kind).reason, "TemplateRejected");
            assert_eq!(said(&case), ("TemplateRejected".to_owned(), "not like this".to_owned()));
            assert_eq!(case.plan().events[0].severity, Severity::Warning);
        }
    }

    #[test]
    fn a_refused_write_is_told_and_the_other_components_go_on() {
        let case = instance()
            .ready()
            .lost(Object::MetadataService)
            .lost(Object::GatewayBudget);
        let case = case.but(|case| {
            case.observed.refused.insert(Component::Metadata, "quota".to_owned());
        });
        assert_eq!(writes(&case), create(&[Object::GatewayBudget]));
        let (reason, message) = said(&case);
        assert_eq!(reason, "EnsureFailed");
        assert!(message.ends_with("quota"), "{message}");
        let case = instance().ready().but(|case| {
            case.observed.refused.insert(Component::Postgres, "quota".to_owned());
        });
        assert_eq!(said(&case).0, "PostgresEnsureFailed");
    }

    #[test]
    fn an_object_of_somebody_else_is_never_touched() {
        for object in Object::iter().filter(|object| *object != Object::PostgresCredentials) {
            let case = instance().ready().with(object, |child| {
                child.meta.owned = false;
                child.intact = false;
            });
            assert_eq!(writes(&case), [], "{object:?}");
            assert_eq!(case.status().phase, Some(Failed), "{object:?}");
            let (reason, message) = said(&case);
            assert_eq!(reason, "ForeignObject");
            assert!(
                message.contains(&format!("{} {}", object.kind(), object.name("main"))),
                "{message}"
            );
            assert!(case.plan().look_again.is_some(), "nothing tells when it goes");
            assert!(case.needs_live_reads());
        }
    }

    #[test]
    fn each_change_of_phase_is_told_once() {
        let told = |case: &Case| -> Vec<(Severity, String)> {
            let events = case.plan().events.into_iter();
            events.map(|event| (event.severity, event.reason)).collect()
        };
        assert_eq!(told(&instance()), [(Severity::Normal, "Provisioning".to_owned())]);
        assert_eq!(told(&instance().reported()), []);
        assert_eq!(
            told(&instance().ready().at(Provisioning)),
            [(Severity::Normal, "Ready".to_owned())]
        );
        let lost = instance().ready().reported().pods(Component::Gateway, pods(2, 0));
        assert_eq!(told(&lost), [(Severity::Warning, "Degraded".to_owned())]);
        assert_eq!(told(&lost.reported()), []);
    }
}

mod credentials {
    use super::*;

    #[test]
    fn new_ones_are_made_only_after_a_live_look() {
        assert!(instance().needs_live_reads());
        assert!(!instance().has(Object::PostgresCredentials).needs_live_reads());
    }

    #[test]
    fn lost_ones_are_not_replaced_while_the_data_is_there() {
        let lost = instance()
            .ready()
            .at(Ready)
            .lost(Object::PostgresCredentials)
            .but(|case| case.observed.claim = true);
        assert_eq!(writes(&lost), []);
        assert_eq!(lost.status().phase, Some(Failed));
        let (reason, message) = said(&lost);
        assert_eq!(reason, "PostgresCredentialsLost");
        for part in [
            "main-metadata-postgres-creds",
            "data-main-metadata-pg-0",
            "Restore the Secret",
            "delete StatefulSet main-metadata-pg and then",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(lost.plan().look_again.is_some(), "the claim is not watched");
        let given_up = lost.but(|case| case.observed.claim = false);
        assert_eq!(writes(&given_up), create(&[Object::PostgresCredentials]));
    }

    #[rstest]
    #[case::internal(false, "PostgresEnsureFailed")]
    #[case::external(true, "PostgresSecretPreflightFailed")]
    fn unusable_ones_are_told(#[case] external: bool, #[case] expected: &str) {
        let case = instance()
            .but(|case| case.observed.credentials = Credentials::Unusable("key password is empty".to_owned()));
        let case = if external { case.external() } else { case };
        assert_eq!(writes(&case), []);
        let (reason, message) = said(&case);
        assert_eq!(reason, expected);
        assert!(message.contains("key password is empty"), "{message}");
        assert_ne!(case.status().phase, Some(Failed));
    }

    #[rstest]
    #[case::unseen(Credentials::Unknown, "Initializing")]
    #[case::forbidden(Credentials::Unreadable("forbidden".to_owned()), "ProbeFailed")]
    fn ones_that_nobody_has_seen_are_not_missing(
        #[case] credentials: Credentials,
        #[case] reason: &str,
        #[values(false, true)] external: bool,
    ) {
        let case = instance().but(|case| case.observed.credentials = credentials);
        let case = if external { case.external() } else { case };
        assert_eq!(writes(&case), []);
        assert_eq!(said(&case).0, reason);
    }

    #[rstest]
    fn a_service_that_runs_is_no_less_ready_because_they_cannot_be_read(
        #[values(Credentials::Unknown, Credentials::Unreadable("forbidden".to_owned()))] credentials: Credentials,
        #[values(false, true)] external: bool,
    ) {
        let case = instance()
            .ready()
            .at(Ready)
            .but(|case| case.observed.credentials = credentials);
        let case = case.lost(Object::MetadataService);
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
    fn of_an_external_database_they_are_awaited_and_then_used() {
        let missing = instance().external();
        assert_eq!(writes(&missing), []);
        let (reason, message) = said(&missing);
        assert_eq!(reason, "PostgresSecretPreflightFailed");
        assert!(
            message.contains("does not exist. Create it with the keys username and password"),
            "{message}"
        );
        let there = missing.but(|case| case.observed.credentials = Credentials::Usable);
        let expected = [
            Object::MetadataConfig,
            Object::MetadataDeployment,
            Object::MetadataService,
        ];
        assert_eq!(writes(&there), create(&expected));
    }
}

mod another_database {
    use super::*;

    #[test]
    fn is_refused_while_engines_depend_on_the_old_one() {
        let case = instance().ready().at(Ready).external().engines(&["a", "b"]);
        assert_eq!(writes(&case), []);
        let status = case.status();
        assert_eq!(status.metadata_endpoint, "metadata:7000", "engines go on");
        assert_eq!(status.phase, Some(Degraded));
        let (reason, message) = said(&case);
        assert_eq!(reason, "PostgresSwitchRefused");
        assert!(message.contains("2 engines (a, b)"), "{message}");
        assert!(message.contains("Remove spec.metadata.postgres again"), "{message}");
        let back = instance()
            .external()
            .but(|case| case.observed.credentials = Credentials::Usable);
        let back = back
            .ready()
            .engines(&["a"])
            .but(|case| case.wanted.database = Database::Internal);
        assert_eq!(writes(&back), []);
        assert!(said(&back).1.contains("Put spec.metadata.postgres back"));
    }

    #[test]
    fn takes_the_place_of_our_own_once_no_engine_is_left_and_leaves_the_data_alone() {
        let case = instance().ready().external();
        let moving = case
            .clone()
            .with(Object::MetadataDeployment, |child| child.intact = false);
        assert_eq!(writes(&moving), [Write::Apply(Object::MetadataDeployment)]);
        assert!(moving.needs_live_reads(), "an engine may have come");
        let moved = case.but(|case| case.observed.database = Some(Database::External));
        let starting = moved.clone().pods(Component::Metadata, pods(1, 0));
        assert_eq!(writes(&starting), [], "the old one stays until the service has left it");
        let kinds: Vec<String> = writes(&moved)
            .into_iter()
            .map(|write| match write {
                Write::Delete { kind, .. } => kind.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, ["StatefulSet", "Service"]);
    }
}

mod the_end {
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
}
