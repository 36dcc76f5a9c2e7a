//! The plan of a class in each situation.

use firebolt_api::FireboltEngineClassStatus;
use firebolt_api::condition::Condition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::fixture::{Case, class};
use super::*;
use crate::plan::Severity;

/// Status, reason and message of the `Ready` condition.
fn ready_condition(case: &Case) -> (String, String, String) {
    let ready = case.ready();
    (ready.status, ready.reason, ready.message)
}

fn status(case: &Case) -> FireboltEngineClassStatus {
    case.plan().status.expect("a new status")
}

/// The events, as `Warning Reason`.
fn emitted(case: &Case) -> Vec<String> {
    let events = case.plan().events.into_iter();
    events
        .map(|event| {
            let severity = match event.severity {
                Severity::Normal => "Normal",
                Severity::Warning => "Warning",
            };
            format!("{severity} {}", event.reason)
        })
        .collect()
}

#[test]
fn a_new_class_gets_its_finalizer_and_its_status_without_an_event() {
    let new = class().finalizers(&[]).bound(&["a", "b"]);
    let plan = new.plan();
    assert_eq!(plan.writes, [ClassWrite::AddFinalizer]);
    assert_eq!((plan.events, plan.requeue_after), (Vec::new(), None));
    let status = status(&new);
    assert_eq!((status.observed_generation, status.bound_engines), (Some(1), 2));
    let (holds, reason, _) = ready_condition(&new);
    assert_eq!((holds.as_str(), reason.as_str()), ("True", "Admissible"));
    assert_eq!(new.ready().observed_generation, Some(1));
    assert!(!new.needs_live_reads());
}

#[rstest]
#[case::admissible(class())]
#[case::refused(class().bad())]
#[case::bound(class().bound(&["a"]))]
#[case::held(class().bound(&["a"]).deleting())]
fn a_class_without_changes_has_an_empty_plan(#[case] case: Case) {
    assert_eq!(case.done().plan(), Plan::default());
}

#[test]
fn the_count_follows_the_engines_and_changes_no_transition_time() {
    let case = class().done();
    let created = case.class.status.clone().expect("a status").conditions;
    let case = case.bound(&["a"]);
    let status = status(&case);
    assert_eq!(status.bound_engines, 1);
    assert_eq!(status.conditions, created);
    assert_eq!(emitted(&case), [""; 0]);
    let fewer = case.done().bound(&[]);
    assert_eq!(fewer.plan().status.map(|status| status.bound_engines), Some(0));
}

#[test]
fn an_edit_updates_the_observed_generation() {
    let case = class()
        .done()
        .template(&json!({ "metadata": { "labels": { "team": "one" } } }));
    let status = status(&case);
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(status.conditions[0].observed_generation, Some(2));
    assert_eq!(emitted(&case), [""; 0]);
}

#[test]
fn a_template_with_operator_owned_fields_is_reported_until_it_is_corrected() {
    let good = class().bound(&["a"]).done();
    let since = good.ready().last_transition_time;
    let bad = good.bad();
    let (holds, reason, message) = ready_condition(&bad);
    assert_eq!((holds.as_str(), reason.as_str()), ("False", "OperatorOwnedFieldSet"));
    assert!(
        message.contains("spec.template.spec.containers[engine].command: Forbidden"),
        "{message}"
    );
    assert_eq!(emitted(&bad), ["Warning OperatorOwnedFieldSet"]);
    assert!(bad.ready().last_transition_time.0 > since.0);
    assert_eq!(
        status(&bad).bound_engines,
        1,
        "engines that cannot use it still reference it"
    );
    let corrected = bad.done().template(&json!({}));
    assert_eq!(ready_condition(&corrected).1, "Admissible");
    assert_eq!(emitted(&corrected), ["Normal Admissible"]);
}

#[test]
fn an_unreferenced_class_is_released_after_a_live_list() {
    let case = class().done().deleting();
    assert_eq!(case.plan().writes, [ClassWrite::RemoveFinalizer]);
    assert!(case.needs_live_reads());
    let live = case.live();
    let plan = live.plan();
    assert_eq!(plan.writes, [ClassWrite::RemoveFinalizer]);
    assert_eq!((plan.status, plan.events, plan.requeue_after), (None, Vec::new(), None));
    assert!(!live.needs_live_reads());
}

#[rstest]
#[case::one(
    &["a"],
    &[],
    "It is referenced by engine a. Change or remove spec.engineClassRef in these engines, or delete them."
)]
#[case::many(&["a", "b", "c", "d", "e", "f", "g"], &[], "It is referenced by 7 engines (a, b, c, d, e and 2 more). ")]
#[case::unreadable(&[], &["odd"], "It may be referenced by engine odd, which cannot be parsed. Correct such engines with `kubectl edit`")]
#[case::both(&["a"], &["odd"], "or delete them. It may be referenced by engine odd, which")]
fn a_blocked_deletion_names_the_engines(#[case] bound: &[&str], #[case] unreadable: &[&str], #[case] text: &str) {
    let case = class().done().bound(bound).unreadable(unreadable).deleting();
    let plan = case.plan();
    assert_eq!((plan.writes, plan.requeue_after), (Vec::new(), None));
    assert!(!case.needs_live_reads());
    let (holds, reason, message) = ready_condition(&case);
    assert_eq!((holds.as_str(), reason.as_str()), ("False", "DeletionBlocked"));
    assert!(
        message.starts_with("Class large in namespace data cannot be deleted while engines reference it. ")
            && message.contains(text),
        "{message}"
    );
    assert!(
        message.ends_with(" The deletion then continues automatically."),
        "{message}"
    );
    assert_eq!(emitted(&case), ["Warning DeletionBlocked"]);
    let status = status(&case);
    assert_eq!(status.bound_engines, i32::try_from(bound.len()).expect("few"));
    assert_eq!(status.observed_generation, case.class.metadata.generation);
}

#[test]
fn engines_that_only_a_live_list_shows_are_listed_again() {
    let case = class().done().deleting().bound(&["unwatched"]).live();
    assert_eq!(case.plan().requeue_after, Some(UNSEEN));
    assert_eq!(case.plan().writes, []);
    assert_eq!(
        case.done().plan().requeue_after,
        Some(UNSEEN),
        "as long as they are there"
    );
}

#[test]
fn a_blocked_deletion_completes_when_the_engines_are_gone() {
    let case = class().bound(&["a", "b"]).done().deleting().done().bound(&["b"]);
    assert_eq!(status(&case).bound_engines, 1);
    let case = case.done().bound(&[]);
    assert_eq!(case.plan().writes, [ClassWrite::RemoveFinalizer]);
}

#[rstest]
#[case::another_controller(&["example.com/theirs"], true)]
#[case::several(&["a.com/a", "b.com/b", "c.com/c", "d.com/d"], true)]
#[case::kubernetes(&["foregroundDeletion", "orphan"], false)]
fn a_class_with_foreign_finalizers_no_longer_names_engines(#[case] others: &[&str], #[case] foreign: bool) {
    let finalizers = [others, &[Finalizer::EngineClass.key()]].concat();
    let held = class()
        .bound(&["a"])
        .finalizers(&finalizers)
        .done()
        .deleting()
        .done()
        .bound(&[]);
    assert!(held.needs_live_reads());
    let plan = held.plan();
    assert_eq!(plan.writes, [ClassWrite::RemoveFinalizer]);
    assert_eq!(plan.status.is_some(), foreign);
    if foreign {
        let (_, reason, message) = ready_condition(&held);
        let named = format!(
            "the finalizer {} of another controller",
            others[..others.len().min(3)].join(", ")
        );
        assert!(reason == "DeletionBlocked" && message.contains(&named), "{message}");
        assert_eq!(status(&held).bound_engines, 0);
        assert_eq!(held.done().finalizers(others).plan(), Plan::default());
    }
}

#[test]
fn the_template_of_a_class_that_is_being_deleted_is_not_validated() {
    let case = class().bad().bound(&["a"]).done().deleting();
    assert_eq!(ready_condition(&case).1, "DeletionBlocked");
    assert_eq!(case.bound(&[]).live().plan().writes, [ClassWrite::RemoveFinalizer]);
}

#[rstest]
#[case::never_had(&[])]
#[case::of_another_controller(&["example.com/theirs"])]
fn a_terminating_class_without_our_finalizer_is_not_modified(#[case] finalizers: &[&str]) {
    let case = class().bound(&["a"]).finalizers(finalizers).deleting();
    assert_eq!(case.plan(), Plan::default());
}

#[test]
fn conditions_of_other_controllers_are_kept() {
    let theirs = Condition {
        type_: "Audited".to_owned(),
        status: "True".to_owned(),
        reason: "ByHand".to_owned(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    };
    let case = class().but(|case| {
        case.class.status.get_or_insert_default().conditions = vec![theirs.clone()];
    });
    let conditions = status(&case).conditions;
    assert_eq!((conditions.len(), &conditions[0]), (2, &theirs));
    assert_eq!(emitted(&case), [""; 0]);
}

/// An arbitrary situation.
fn anything() -> impl Strategy<Value = Case> {
    let some = || prop::sample::subsequence(vec!["a", "b", "d", "e", "f", "g", "h"], 0..=7);
    let holders = prop::sample::subsequence(vec!["example.com/theirs", Finalizer::EngineClass.key()], 0..=2);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (some(), some(), holders, flags).prop_map(|(bound, unreadable, holders, (bad, deleting, live, known))| {
        let case = class().finalizers(&holders);
        let case = if known { case.done() } else { case };
        let case = if bad { case.bad() } else { case };
        let case = if live { case.live() } else { case };
        let case = case.bound(&bound).unreadable(&unreadable);
        if deleting { case.deleting() } else { case }
    })
}

proptest! {
    #[test]
    fn a_class_is_released_only_if_it_is_being_deleted_and_unreferenced(case in anything()) {
        let deleting = case.class.metadata.deletion_timestamp.is_some();
        let needed = !case.observed.bound.is_empty() || !case.observed.unreadable.is_empty();
        for write in case.plan().writes {
            match write {
                ClassWrite::RemoveFinalizer => {
                    prop_assert!(deleting && !needed);
                    prop_assert_eq!(case.needs_live_reads(), case.observed.reads == Reads::Cached);
                }
                ClassWrite::AddFinalizer => prop_assert!(!deleting),
            }
        }
    }

    #[test]
    fn a_plan_is_idempotent(case in anything()) {
        let plan = case.plan();
        let after = case.done().but(|case| {
            let finalizers = case.class.metadata.finalizers.get_or_insert_default();
            for write in &plan.writes {
                finalizers.retain(|name| name != Finalizer::EngineClass.key());
                match write {
                    ClassWrite::AddFinalizer => finalizers.push(Finalizer::EngineClass.key().to_owned()),
                    ClassWrite::RemoveFinalizer => {}
                }
            }
        });
        let next = after.plan();
        prop_assert_eq!((next.writes, next.status, next.events), (Vec::new(), None, Vec::new()));
    }
}

#[test]
fn a_new_number_of_engines_throttles_and_nothing_else_does() {
    let counted = class().bound(&["a"]).done();
    assert_eq!(counted.clone().bound(&["a", "b"]).plan().throttle, Some(COUNT_INTERVAL));
    assert_eq!(class().bound(&["a"]).plan().throttle, None, "the first count");
    assert_eq!(counted.clone().bad().plan().throttle, None, "another field changed");
    assert_eq!(counted.plan().throttle, None);
}

#[test]
fn corrections_of_the_finalizer_are_limited() {
    let delay = Some(std::time::Duration::from_secs(5));
    let rests = class().done().but(|case| case.limits.drift = delay);
    assert_eq!(rests.plan().throttle, None, "nothing is corrected");
    assert_eq!(rests.finalizers(&[]).plan().throttle, delay);
}
