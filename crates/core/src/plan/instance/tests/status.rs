//! Conditions, phases, addresses and events.

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
fn a_new_instance_reports_what_it_waits_for() {
    let (reason, message) = ready_condition(&instance());
    assert_eq!(reason, "Initializing");
    assert_eq!(message, "PostgreSQL is being created.");
    let starting = InstanceObject::iter()
        .filter(|object| object.component() != Component::Gateway)
        .fold(instance(), Case::has)
        .pods(Component::Postgres, pods(1, 0))
        .pods(Component::Metadata, pods(1, 0));
    let (reason, message) = ready_condition(&starting);
    assert_eq!(reason, "Provisioning");
    assert_eq!(
        message,
        "The metadata service is not ready: 0 of 1 pods ready. PostgreSQL is not ready: 0 of 1 pods ready."
    );
}

#[test]
fn a_failure_is_reported_before_what_is_in_progress() {
    let taken = ObservedChild {
        meta: Meta {
            owned: false,
            ..ours("theirs")
        },
        intact: false,
    };
    let case = instance().but(|case| {
        case.observed.objects.insert(InstanceObject::GatewayDeployment, taken);
    });
    assert_eq!(case.status().phase, Some(Failed));
    assert_eq!(ready_condition(&case).0, "ForeignObject");
}

#[test]
fn the_status_is_kept_until_kubernetes_has_observed_a_change() {
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
            "{component}: nothing to report of the new generation yet"
        );
    }
    let new = instance().ready().pods(Component::Metadata, unseen);
    assert!(!new.status().metadata_ready, "nothing was ever ready_condition of it");
}

#[test]
fn a_change_that_was_just_written_is_not_observed_yet() {
    let edited = instance()
        .ready()
        .reported()
        .but(|case| case.instance.metadata.generation = Some(2));
    let writing = edited
        .clone()
        .with(InstanceObject::MetadataDeployment, |child| child.intact = false);
    assert_eq!(
        writing.plan().status,
        None,
        "nothing to report of the new generation yet"
    );
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
fn an_instance_that_cannot_be_reconciled_reports_it() {
    let case = instance().ready().at(Ready);
    let status = case.stuck("no rights").expect("news");
    assert_eq!(status.phase, Some(Degraded));
    assert_eq!(status.conditions[0].reason, "EnsureFailed");
    let reported = case.but(|case| case.instance.status = Some(status));
    assert_eq!(reported.stuck("no rights"), None);
}

#[test]
fn a_gateway_without_pods_names_the_field() {
    let (_, message) = ready_condition(&instance().ready().pods(Component::Gateway, pods(0, 0)));
    assert!(message.contains("spec.gateway.replicas is 0"), "{message}");
}

#[test]
fn a_rejected_template_is_reported_and_its_component_is_not_modified() {
    for (component, kind) in [
        (Component::Metadata, InstanceCondition::MetadataReady),
        (Component::Gateway, InstanceCondition::GatewayReady),
    ] {
        let objects = InstanceObject::iter().filter(|object| object.component() == component);
        let case = objects.fold(instance().ready(), |case, object| {
            case.with(object, |child| child.intact = false)
        });
        let case = case.but(|case| {
            case.desired.rejected.insert(component, "not like this".to_owned());
        });
        assert_eq!(writes(&case), []);
        assert_eq!(case.condition(kind).reason, "TemplateRejected");
        assert_eq!(
            ready_condition(&case),
            ("TemplateRejected".to_owned(), "not like this".to_owned())
        );
        assert_eq!(case.plan().events[0].severity, Severity::Warning);
    }
}

#[test]
fn a_rejected_write_is_reported_and_the_other_components_continue() {
    let case = instance()
        .ready()
        .lost(InstanceObject::MetadataService)
        .lost(InstanceObject::GatewayBudget);
    let case = case.but(|case| {
        case.rejected.insert(Component::Metadata, "quota".to_owned());
    });
    assert_eq!(writes(&case), create(&[InstanceObject::GatewayBudget]));
    let (reason, message) = ready_condition(&case);
    assert_eq!(reason, "EnsureFailed");
    assert!(message.ends_with("quota"), "{message}");
    let case = instance().ready().but(|case| {
        case.rejected.insert(Component::Postgres, "quota".to_owned());
    });
    assert_eq!(ready_condition(&case).0, "PostgresEnsureFailed");
}

#[test]
fn a_foreign_object_is_never_modified() {
    for object in InstanceObject::iter().filter(|object| *object != InstanceObject::PostgresCredentials) {
        let case = instance().ready().with(object, |child| {
            child.meta.owned = false;
            child.intact = false;
        });
        assert_eq!(writes(&case), [], "{object:?}");
        assert_eq!(case.status().phase, Some(Failed), "{object:?}");
        let (reason, message) = ready_condition(&case);
        assert_eq!(reason, "ForeignObject");
        assert!(
            message.contains(&format!("{} {}", object.kind(), object.name("main"))),
            "{message}"
        );
        assert!(case.plan().requeue_after.is_some(), "nothing is watched");
        assert!(case.needs_live_reads());
    }
}

#[test]
fn each_change_of_phase_is_reported_once() {
    let emitted = |case: &Case| -> Vec<(Severity, String)> {
        let events = case.plan().events.into_iter();
        events.map(|event| (event.severity, event.reason)).collect()
    };
    assert_eq!(emitted(&instance()), [(Severity::Normal, "Provisioning".to_owned())]);
    assert_eq!(emitted(&instance().reported()), []);
    assert_eq!(
        emitted(&instance().ready().at(Provisioning)),
        [(Severity::Normal, "Ready".to_owned())]
    );
    let lost = instance().ready().reported().pods(Component::Gateway, pods(2, 0));
    assert_eq!(emitted(&lost), [(Severity::Warning, "Degraded".to_owned())]);
    assert_eq!(emitted(&lost.reported()), []);
}

#[test]
fn components_that_another_version_of_the_operator_rendered_are_named() {
    let outdated = |components: &[Component]| {
        let components = components.iter().copied().collect();
        instance().ready().but(|case| case.observed.outdated = components)
    };
    let says = |case: &Case| case.condition(InstanceCondition::RenderingOutdated);
    let all = says(&outdated(&[
        Component::Gateway,
        Component::Metadata,
        Component::Postgres,
    ]));
    assert_eq!((all.status.as_str(), all.reason.as_str()), ("True", "OperatorUpgraded"));
    assert!(
        all.message
            .contains("rendered the pods of PostgreSQL, the metadata service and the gateway; this one"),
        "{}",
        all.message
    );
    let one = outdated(&[Component::Gateway]);
    assert!(
        says(&one).message.contains("the pods of the gateway; this one"),
        "{}",
        says(&one).message
    );
    assert_eq!(one.status().phase, Some(Ready));
    assert_eq!(writes(&one), []);
    let has = |case: &Case| {
        case.status()
            .conditions
            .iter()
            .any(|it| it.type_ == "RenderingOutdated")
    };
    let adopted = one.reported().but(|case| case.observed.outdated.clear());
    let unread = adopted
        .clone()
        .but(|case| case.observed.credentials = Credentials::Unknown);
    assert!(!has(&adopted));
    assert!(has(&unread), "what cannot be rendered cannot be compared");
}
