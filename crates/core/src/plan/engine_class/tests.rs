//! What is decided in each situation.

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

/// Status, reason and message.
fn said(case: &Case) -> (String, String, String) {
    let ready = case.ready();
    (ready.status, ready.reason, ready.message)
}

fn status(case: &Case) -> FireboltEngineClassStatus {
    case.plan().status.expect("a new status")
}

/// What is told, as `Warning Reason`.
fn told(case: &Case) -> Vec<String> {
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
fn a_new_class_gets_its_finalizer_and_its_status_at_once_and_nothing_is_told() {
    let new = class().finalizers(&[]).bound(&["a", "b"]);
    let plan = new.plan();
    assert_eq!(plan.writes, [Write::AddFinalizer]);
    assert_eq!((plan.events, plan.look_again), (Vec::new(), None));
    let status = status(&new);
    assert_eq!((status.observed_generation, status.bound_engines), (Some(1), 2));
    let (holds, reason, _) = said(&new);
    assert_eq!((holds.as_str(), reason.as_str()), ("True", "Admissible"));
    assert_eq!(new.ready().observed_generation, Some(1));
    assert!(!new.needs_live_reads());
}

#[rstest]
#[case::admissible(class())]
#[case::refused(class().bad())]
#[case::bound(class().bound(&["a"]))]
#[case::held(class().bound(&["a"]).deleting())]
fn at_rest_nothing_is_written_told_or_planned(#[case] case: Case) {
    assert_eq!(case.done().plan(), Plan::default());
}

#[test]
fn the_count_follows_the_engines_and_moves_no_time() {
    let case = class().done();
    let created = case.class.status.clone().expect("a status").conditions;
    let case = case.bound(&["a"]);
    let status = status(&case);
    assert_eq!(status.bound_engines, 1);
    assert_eq!(status.conditions, created);
    assert_eq!(told(&case), [""; 0]);
    let fewer = case.done().bound(&[]);
    assert_eq!(fewer.plan().status.map(|status| status.bound_engines), Some(0));
}

#[test]
fn an_edit_is_noted_even_if_it_changes_nothing_else() {
    let case = class()
        .done()
        .template(&json!({ "metadata": { "labels": { "team": "one" } } }));
    let status = status(&case);
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(status.conditions[0].observed_generation, Some(2));
    assert_eq!(told(&case), [""; 0]);
}

#[test]
fn a_template_that_sets_what_belongs_to_the_operator_is_told_until_it_is_corrected() {
    let good = class().bound(&["a"]).done();
    let since = good.ready().last_transition_time;
    let bad = good.bad();
    let (holds, reason, message) = said(&bad);
    assert_eq!((holds.as_str(), reason.as_str()), ("False", "OperatorOwnedFieldSet"));
    assert!(
        message.contains("spec.template.spec.containers[engine].command: Forbidden"),
        "{message}"
    );
    assert_eq!(told(&bad), ["Warning OperatorOwnedFieldSet"]);
    assert!(bad.ready().last_transition_time.0 > since.0);
    assert_eq!(status(&bad).bound_engines, 1, "engines that cannot use it refer to it");
    let corrected = bad.done().template(&json!({}));
    assert_eq!(said(&corrected).1, "Admissible");
    assert_eq!(told(&corrected), ["Normal Admissible"]);
}

#[test]
fn a_class_that_nobody_needs_goes_after_a_live_look() {
    let case = class().done().deleting();
    assert_eq!(case.plan().writes, [Write::RemoveFinalizer]);
    assert!(case.needs_live_reads());
    let live = case.live();
    let plan = live.plan();
    assert_eq!(plan.writes, [Write::RemoveFinalizer]);
    assert_eq!((plan.status, plan.events, plan.look_again), (None, Vec::new(), None));
    assert!(!live.needs_live_reads());
}

#[rstest]
#[case::one(
    &["a"],
    &[],
    "engine a refers to it. Clear or change spec.engineClassRef there, or delete what refers to it."
)]
#[case::many(&["a", "b", "c", "d", "e", "f", "g"], &[], "7 engines (a, b, c, d, e and 2 more) refer to it. ")]
#[case::unreadable(&[], &["odd"], "engine odd cannot be read and may refer to it. Correct it with `kubectl edit`")]
#[case::both(&["a"], &["odd"], "or delete what refers to it. Also, engine odd cannot be read")]
fn a_deletion_that_is_held_up_says_who_does_it(
    #[case] bound: &[&str],
    #[case] unreadable: &[&str],
    #[case] text: &str,
) {
    let case = class().done().bound(bound).unreadable(unreadable).deleting();
    let plan = case.plan();
    assert_eq!((plan.writes, plan.look_again), (Vec::new(), None));
    assert!(!case.needs_live_reads());
    let (holds, reason, message) = said(&case);
    assert_eq!((holds.as_str(), reason.as_str()), ("False", "DeletionBlocked"));
    assert!(
        message.starts_with("Class large in namespace data is being deleted, but ") && message.contains(text),
        "{message}"
    );
    assert!(message.ends_with(" The deletion goes on by itself."), "{message}");
    assert_eq!(told(&case), ["Warning DeletionBlocked"]);
    let status = status(&case);
    assert_eq!(status.bound_engines, i32::try_from(bound.len()).expect("few"));
    assert_eq!(status.observed_generation, case.class.metadata.generation);
}

#[test]
fn engines_that_only_a_live_look_shows_are_looked_for_again() {
    let case = class().done().deleting().bound(&["unwatched"]).live();
    assert_eq!(case.plan().look_again, Some(UNSEEN));
    assert_eq!(case.plan().writes, []);
    assert_eq!(case.done().plan().look_again, Some(UNSEEN), "as long as they are there");
}

#[test]
fn the_end_of_a_deletion_that_was_held_up() {
    let case = class().bound(&["a", "b"]).done().deleting().done().bound(&["b"]);
    assert_eq!(status(&case).bound_engines, 1);
    let case = case.done().bound(&[]);
    assert_eq!(case.plan().writes, [Write::RemoveFinalizer]);
}

#[rstest]
#[case::somebody(&["example.com/theirs"], true)]
#[case::several(&["a.com/a", "b.com/b", "c.com/c", "d.com/d"], true)]
#[case::kubernetes(&["foregroundDeletion", "orphan"], false)]
fn a_class_that_others_hold_does_not_go_on_to_blame_engines(#[case] others: &[&str], #[case] foreign: bool) {
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
    assert_eq!(plan.writes, [Write::RemoveFinalizer]);
    assert_eq!(plan.status.is_some(), foreign);
    if foreign {
        let (_, reason, message) = said(&held);
        let named = format!(
            "the finalizer {} of somebody else",
            others[..others.len().min(3)].join(", ")
        );
        assert!(reason == "DeletionBlocked" && message.contains(&named), "{message}");
        assert_eq!(status(&held).bound_engines, 0);
        assert_eq!(held.done().finalizers(others).plan(), Plan::default());
    }
}

#[test]
fn while_it_is_being_deleted_its_template_is_not_judged() {
    let case = class().bad().bound(&["a"]).done().deleting();
    assert_eq!(said(&case).1, "DeletionBlocked");
    assert_eq!(case.bound(&[]).live().plan().writes, [Write::RemoveFinalizer]);
}

#[rstest]
#[case::never_had(&[])]
#[case::of_somebody_else(&["example.com/theirs"])]
fn a_class_that_is_being_deleted_without_our_finalizer_is_left_alone(#[case] finalizers: &[&str]) {
    let case = class().bound(&["a"]).finalizers(finalizers).deleting();
    assert_eq!(case.plan(), Plan::default());
}

#[test]
fn what_others_say_in_the_status_stays() {
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
    assert_eq!(told(&case), [""; 0]);
}

/// Any situation at all.
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
    fn a_class_goes_only_if_it_is_to_and_nobody_can_need_it(case in anything()) {
        let deleting = case.class.metadata.deletion_timestamp.is_some();
        let needed = !case.observed.bound.is_empty() || !case.observed.unreadable.is_empty();
        for write in case.plan().writes {
            match write {
                Write::RemoveFinalizer => {
                    prop_assert!(deleting && !needed);
                    prop_assert_eq!(case.needs_live_reads(), case.observed.source == Source::Watched);
                }
                Write::AddFinalizer => prop_assert!(!deleting),
            }
        }
    }

    #[test]
    fn what_was_done_once_is_not_done_again(case in anything()) {
        let plan = case.plan();
        let after = case.done().but(|case| {
            let finalizers = case.class.metadata.finalizers.get_or_insert_default();
            for write in &plan.writes {
                finalizers.retain(|name| name != Finalizer::EngineClass.key());
                match write {
                    Write::AddFinalizer => finalizers.push(Finalizer::EngineClass.key().to_owned()),
                    Write::RemoveFinalizer => {}
                }
            }
        });
        let next = after.plan();
        prop_assert_eq!((next.writes, next.status, next.events), (Vec::new(), None, Vec::new()));
    }
}
