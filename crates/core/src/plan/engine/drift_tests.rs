use firebolt_api::EnginePhase::{Creating, Stable, Stopped, Switching};
use rstest::rstest;

use super::*;
use crate::plan::engine::EngineWrite;
use crate::plan::engine::fixture::{Case, engine, route_to};

#[test]
fn the_event_of_a_rollout_names_what_changed() {
    let event = |replicas: i32, changes: &[&str]| {
        let case = engine("a").serving(0).at(Stable).replicas(replicas).desired_hash("new");
        let case = case.set(0, |set| {
            set.changes = changes.iter().map(|&change| change.to_owned()).collect();
        });
        case.plan().events.remove(0).message
    };
    assert_eq!(
        event(2, &[]),
        "Rolling out generation 1: a setting changed that the pods do not show."
    );
    assert_eq!(
        event(3, &[]),
        "Rolling out generation 1: `spec.replicas` changed from 2 to 3."
    );
    assert_eq!(
        event(3, &["x"]),
        "Rolling out generation 1: `spec.replicas` changed from 2 to 3, x."
    );
    assert_eq!(
        event(2, &["w", "x", "y", "z"]),
        "Rolling out generation 1: w, x, and 2 more."
    );
}

#[test]
fn another_number_of_replicas_starts_a_generation() {
    let scaled = engine("a").serving(0).at(Stable).replicas(3).status();
    assert_eq!((scaled.phase, scaled.current_generation), (Some(Creating), 1));
}

fn outdated() -> Case {
    let case = engine("a").serving(0).at(Stable);
    case.set(0, |set| {
        set.outdated = vec!["container `engine`", "the configuration file"];
    })
}

fn condition(case: &Case, type_: &str) -> Option<(String, String)> {
    let status = case.plan().status.or(case.engine.status.clone()).unwrap();
    let found = status.conditions.into_iter().find(|condition| condition.type_ == type_);
    found.map(|condition| (condition.status, condition.message))
}

#[test]
fn another_rendering_alone_starts_no_generation_and_is_reported() {
    let case = outdated();
    assert_eq!((case.plan().writes, case.status().phase), (Vec::new(), Some(Stable)));
    let (status, message) = condition(&case, "RenderingOutdated").unwrap();
    assert_eq!(status, "True");
    assert!(
        message.contains("generation 0; this one renders container `engine`, the configuration file differently"),
        "{message}"
    );
    assert_eq!(case.reported().plan().status, None, "reported once");
}

#[test]
fn the_report_of_another_rendering_ends_with_it() {
    let adopted = outdated().reported().set(0, |set| set.outdated = Vec::new());
    assert_eq!(condition(&adopted, "RenderingOutdated"), None);
}

#[test]
fn another_rendering_is_adopted_by_the_next_change_or_when_it_is_permitted() {
    let edited = outdated().desired_hash("new").status();
    assert_eq!((edited.phase, edited.current_generation), (Some(Creating), 1));
    let permitted = outdated().but(|case| case.adoption = Adoption::Now).status();
    assert_eq!((permitted.phase, permitted.current_generation), (Some(Creating), 1));
    assert_eq!(permitted.rollout_cause.as_deref(), Some(ADOPTS_RENDERING));
    let current = engine("a")
        .serving(0)
        .at(Stable)
        .but(|case| case.adoption = Adoption::Now);
    assert_eq!(current.status().phase, Some(Stable), "nothing to adopt");
}

#[test]
fn an_engine_that_waits_to_adopt_a_rendering_asks_again() {
    let waiting = outdated().but(|case| case.adoption = Adoption::Waits);
    assert_eq!(waiting.status().phase, Some(Stable));
    let (_, message) = condition(&waiting, "RenderingOutdated").unwrap();
    assert!(
        message.ends_with("The engine adopts that when the ones before it are ready (--upgrade-policy=Rolling)."),
        "{message}"
    );
    assert_eq!(
        waiting.reported().plan().requeue_after,
        Some(std::time::Duration::from_secs(10))
    );
}

#[test]
fn the_configuration_of_another_rendering_is_never_rewritten() {
    let lost = outdated().lost_config(0);
    assert_eq!((lost.plan().writes, lost.status().phase), (Vec::new(), Some(Creating)));
    let changed = outdated().config(0, |config| config.intact = false);
    assert_eq!(
        (changed.plan().writes, changed.status().phase),
        (Vec::new(), Some(Creating))
    );
    assert_eq!(
        changed.status().rollout_cause.as_deref(),
        Some("ConfigMap a-g0-config was modified by another client, and another version of the operator rendered it")
    );
}

const GATES_OF_TEMPLATES: [GateCause; 3] = [
    GateCause::ClassUnready,
    GateCause::TemplateRejected,
    GateCause::BoundsExceeded,
];

fn creation(case: &Case) -> Vec<EngineWrite> {
    case.plan().writes
}

#[test]
fn behind_a_gate_of_the_template_an_engine_scales_as_a_copy_of_what_ran_last() {
    for cause in GATES_OF_TEMPLATES {
        for replicas in [0, 3] {
            let case = engine("a").serving(0).at(Stable).replicas(replicas).gate(cause);
            let started = case.clone().status();
            assert_eq!(
                (started.phase, started.current_generation),
                (Some(Creating), 1),
                "{cause:?}"
            );
            let copy_of = Some(0);
            let generation = 1;
            assert_eq!(
                creation(&case.reported()),
                [
                    EngineWrite::ApplyConfigMap { generation, copy_of },
                    EngineWrite::ApplyHeadlessService { generation },
                    EngineWrite::CreateStatefulSet { generation, copy_of },
                ]
            );
        }
    }
}

#[rstest]
#[case(GateCause::InstanceNotReady)]
#[case(GateCause::WriteRefused)]
fn behind_any_other_gate_an_engine_can_only_be_stopped(#[case] cause: GateCause) {
    let stopped = engine("a").serving(0).at(Stable).replicas(0).gate(cause);
    assert_eq!(stopped.status().phase, Some(Creating));
    let scaled = engine("a").serving(0).at(Stable).replicas(3).gate(cause);
    assert_eq!(scaled.status().phase, Some(Stable));
}

#[test]
fn a_stopped_engine_wakes_behind_a_gate_of_the_template() {
    let stopped = engine("a").replicas(0).serving(4).at(Stopped);
    let woken = stopped.replicas(2).gate(GateCause::ClassUnready);
    assert_eq!(woken.status().current_generation, 5);
    let created = woken.reported().complete(5);
    assert_eq!(created.status().phase, Some(Switching));
}

#[test]
fn behind_a_gate_a_changed_template_is_held_up() {
    let announced = engine("a").serving(0).counting(Creating, 1, 0, None);
    let held = announced.gate(GateCause::ClassUnready);
    assert_eq!((held.plan().writes, held.status().phase), (Vec::new(), Some(Creating)));
    let stopped = held.replicas(0).plan();
    let copies = |write: &EngineWrite| {
        matches!(
            write,
            EngineWrite::CreateStatefulSet {
                generation: 1,
                copy_of: Some(0)
            }
        )
    };
    assert!(stopped.writes.iter().any(copies), "{stopped:?}");
}

#[test]
fn a_generation_with_a_changed_template_is_abandoned_if_the_engine_is_scaled_behind_a_gate() {
    let rolling = engine("a").serving(0).generation(1, 0).at(Creating);
    let rolling = rolling.set(1, |set| set.template_hash = Some("new".to_owned()));
    let scaled = rolling.replicas(3).gate(GateCause::ClassUnready).status();
    assert_eq!(
        (scaled.phase, scaled.current_generation, scaled.active_generation),
        (Some(Creating), 2, 0)
    );
}

#[test]
fn behind_a_gate_an_engine_that_has_scaled_is_at_rest() {
    let case = engine("a")
        .serving(1)
        .at(Stable)
        .gate(GateCause::ClassUnready)
        .reported();
    assert_eq!((case.plan().writes, case.plan().status), (Vec::new(), None));
}

#[test]
fn nothing_is_copied_if_nothing_ran() {
    let never_ran = engine("a")
        .counting(Creating, 0, -1, None)
        .gate(GateCause::ClassUnready);
    assert_eq!(never_ran.clone().plan().writes, []);
    assert_eq!(never_ran.replicas(0).plan().writes, []);
    let lost = engine("a").serving(0).at(Stable).lost_set(0).replicas(3);
    let lost = lost.gate(GateCause::ClassUnready).unrouted();
    assert_eq!(lost.plan().writes, [route_to(0)]);
}

#[test]
fn the_message_behind_a_gate_says_what_still_works() {
    let message = |cause| engine("a").serving(0).at(Stable).gate(cause).ready().message;
    let template = message(GateCause::ClassUnready);
    assert!(
        template.ends_with("Generation 0 continues to serve queries, and the engine can still be scaled and stopped."),
        "{template}"
    );
    let instance = message(GateCause::InstanceNotReady);
    assert!(
        instance.ends_with("Generation 0 continues to serve queries, and the engine can still be stopped."),
        "{instance}"
    );
}

#[test]
fn a_name_that_an_old_generation_still_has_is_skipped() {
    let names = firebolt_api::name::GENERATION_NAMES;
    let left = engine("a")
        .complete(0)
        .serving(names - 1)
        .counting(Creating, names, names - 1, None);
    let status = left.status();
    assert_eq!((status.phase, status.current_generation), (Some(Creating), names + 1));
}
