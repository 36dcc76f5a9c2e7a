//! Rollout stories: a whole simulated rollout, line by line with the reason for each step. A change of behaviour shows
//! as a change of a story.

mod simulation;

use firebolt_core::plan::engine::{Drain, GateCause};
use insta::assert_snapshot;
use simulation::{Story, story};

/// An engine of two replicas whose first generation is serving queries.
fn serving() -> Story {
    let mut story = story(2);
    story.run().pods(0, 2).run();
    story
}

#[test]
fn first_deploy() {
    let mut story = story(2);
    story.run().later(10).pods(0, 1).run().later(10).pods(0, 2).run();
    assert_snapshot!(story.log());
}

#[test]
fn scale_up() {
    let mut story = serving();
    story.replicas(3).run().later(10).pods(1, 3).run();
    story.later(5).counted(0, Drain::Drained).run();
    assert_snapshot!(story.log());
}

#[test]
fn scale_to_zero_and_back() {
    let mut story = serving();
    story.replicas(0).run().later(9).run();
    story.later(5).counted(0, Drain::Drained).run();
    story.later(60).replicas(2).run().later(5).pods(2, 2).run();
    assert_snapshot!(story.log());
}

#[test]
fn replicas_come_back_during_the_notice_of_a_stop() {
    let mut story = serving();
    story.replicas(0).run().later(4).replicas(2).run();
    story
        .later(5)
        .pods(2, 2)
        .run()
        .later(5)
        .counted(0, Drain::Drained)
        .run();
    assert_snapshot!(story.log());
}

#[test]
fn a_wake_during_the_notice_of_a_stop() {
    let mut story = story(2);
    story.auto_stop().run().pods(0, 2).run();
    story.later(60).replicas(0).run().later(4).wake().run();
    story
        .later(5)
        .pods(2, 2)
        .run()
        .later(5)
        .counted(0, Drain::Drained)
        .run();
    assert_snapshot!(story.log());
}

#[test]
fn a_wake_while_a_stop_takes_effect() {
    let mut story = story(2);
    story.auto_stop().run().pods(0, 2).run();
    story.later(60).replicas(0).run().later(9).run().wake().run();
    story.later(5).counted(0, Drain::Drained).run();
    assert_snapshot!(story.log());
}

#[test]
fn spec_change_while_creating() {
    let mut story = serving();
    story.image("broken").run().later(30).image("v3").run();
    story
        .later(10)
        .pods(2, 2)
        .run()
        .later(5)
        .counted(0, Drain::Drained)
        .run();
    assert_snapshot!(story.log());
}

#[test]
fn spec_change_while_draining() {
    let mut story = serving();
    story.image("v2").run().pods(1, 2).run().image("v3").run();
    story.later(5).counted(0, Drain::Drained).run();
    story
        .later(5)
        .pods(2, 2)
        .run()
        .later(5)
        .counted(1, Drain::Drained)
        .run();
    assert_snapshot!(story.log());
}

#[test]
fn class_edited() {
    let mut story = serving();
    story
        .class_image("v2")
        .run()
        .pods(1, 2)
        .run()
        .later(5)
        .counted(0, Drain::Drained)
        .run();
    assert_snapshot!(story.log());
}

#[test]
fn engine_deleted() {
    let mut story = serving();
    story.happens("a user deletes the engine", Story::delete).run();
    assert_snapshot!(story.log());
}

#[test]
fn drain_held_by_queries() {
    let mut story = serving();
    story.image("v2").run().pods(1, 2).run();
    story.later(5).counted(0, Drain::Busy(3)).run();
    story.later(5).counted(0, Drain::Busy(1)).run();
    story.later(5).counted(0, Drain::Drained).run();
    assert_snapshot!(story.log());
}

#[test]
fn drain_probe_failing() {
    let mut story = serving();
    story.image("v2").run().pods(1, 2).run();
    let failed = || Drain::Failed {
        pod: "a-g0-1".to_owned(),
        cause: "connection refused".to_owned(),
    };
    story
        .later(5)
        .counted(0, failed())
        .run()
        .later(5)
        .counted(0, failed())
        .run();
    story.later(5).counted(0, Drain::Drained).run();
    assert_snapshot!(story.log());
}

#[test]
fn a_generation_that_never_becomes_ready() {
    let mut story = serving();
    story.image("v2").run().later(14 * 60).pods(1, 1).run().later(60).run();
    story.later(60).pods(1, 2).run();
    assert_snapshot!(story.log());
}

#[test]
fn instance_not_ready_during_a_rollout() {
    let mut story = serving();
    story.image("v2").run().pods(1, 2).run();
    story.block(
        GateCause::InstanceNotReady,
        "Instance prod is not ready: wait for it, or check its conditions.",
    );
    story.run().later(5).counted(0, Drain::Drained).run();
    story.image("v3").run().unblock().run();
    assert_snapshot!(story.log());
}

#[test]
fn routing_service_deleted_while_creating() {
    let mut story = serving();
    story.image("v2").run();
    story.happens("a user deletes a-service", Story::lose_route).run();
    assert_snapshot!(story.log());
}

#[test]
fn crash_at_each_step() {
    let mut story = story(2);
    let mut crashes = story.run_crashing();
    story.pods(0, 2);
    crashes += story.run_crashing();
    story.image("v2");
    crashes += story.run_crashing();
    story.pods(1, 2);
    crashes += story.run_crashing();
    story.counted(0, Drain::Drained);
    crashes += story.run_crashing();
    assert_eq!(crashes, 12, "one for each write");
    assert_snapshot!(story.log());
}

#[test]
fn idle_then_woken() {
    let mut story = story(2);
    story.auto_stop().run().pods(0, 2).run();
    let quiet_from = story.later(60).now();
    story
        .quiet(quiet_from)
        .run()
        .later(29 * 60)
        .quiet(quiet_from)
        .run()
        .later(60)
        .quiet(quiet_from)
        .run();
    story.later(9).run().later(5).counted(0, Drain::Drained).run();
    story.later(600).wake().run().later(20).pods(2, 2).run();
    let quiet_from = story.later(60).now();
    story.quiet(quiet_from).run();
    assert_snapshot!(story.log());
}

#[test]
fn window_opening_and_closing() {
    let mut story = story(0);
    story.auto_stop().run();
    story.until("2026-11-16T11:59:59Z").run();
    story.until("2026-11-16T12:00:00Z").run().later(20).pods(1, 2).run();
    let quiet_from = story.later(60).now();
    story.quiet(quiet_from).run();
    story.until("2026-11-16T13:00:00Z").quiet(quiet_from).run();
    story.until("2026-11-16T13:29:00Z").quiet(quiet_from).run();
    story.until("2026-11-16T13:30:00Z").quiet(quiet_from).run();
    assert_snapshot!(story.log());
}

#[test]
fn status_lost_while_draining() {
    let mut story = serving();
    story.image("v2").run().pods(1, 2).run().lose_status().run();
    story.later(5).counted(0, Drain::Drained).run();
    assert_snapshot!(story.log());
}

#[test]
fn status_lost_while_creating() {
    let mut story = serving();
    story.image("v2").run().lose_status().run().pods(1, 2).run();
    story.later(5).counted(0, Drain::Drained).run();
    assert_snapshot!(story.log());
}
