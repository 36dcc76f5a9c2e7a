//! What people see: kubectl, events and metrics of a rollout that ends and of one that does not.

use firebolt_api::EnginePhase::Draining;
use firebolt_api::FireboltEngine;

use crate::fixture::{INSTANCE, engine, new_image, new_replicas};
use crate::metrics_server::Answer;
use crate::pod_status::Behaviour;
use crate::scene::Scene;

const NEW_IMAGE: &str = "registry.example/engine:2";

impl Scene {
    /// Head and row of what kubectl prints about one engine, word by word where the columns are.
    fn table(&self, arguments: &[&str]) -> Vec<(String, String)> {
        let text = self.kubectl(&[&["get", "fireng", "a"], arguments].concat()).unwrap();
        let [head, row] = text.lines().collect::<Vec<_>>()[..] else {
            panic!("a head and a row: {text}");
        };
        let starts: Vec<usize> = (0..head.len())
            .filter(|&at| !head[at..].starts_with(' ') && (at == 0 || head[..at].ends_with("  ")))
            .collect();
        let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
        let cell = |line: &str, from: usize, to: usize| line[from..to.min(line.len())].trim().to_owned();
        let columns = starts.iter().zip(ends);
        columns
            .map(|(&from, to)| (cell(head, from, to), cell(row, from, to)))
            .collect()
    }

    /// Waits until so many events of the reason are there, and returns all of them as `Type Reason: message`.
    async fn all_events(&self, reason: &str, count: usize) -> Vec<String> {
        let told = async || {
            let events = self.events("a").await;
            let enough = events.iter().filter(|event| event.reason == reason).count() >= count;
            enough.then_some(events)
        };
        let events = self
            .eventually(&format!("there are {count} events {reason}"), told)
            .await;
        let line = |event: &crate::scene::Told| format!("{} {}: {}", event.severity, event.reason, event.message);
        events.iter().map(line).collect()
    }

    /// The value of a metric of engine `a`, with further labels if any.
    fn gauge(&self, name: &str, more: &str) -> Option<f64> {
        let namespace = &self.namespace;
        let labels = format!("namespace=\"{namespace}\",name=\"a\",instance=\"{INSTANCE}\"{more}");
        self.operator().metric(&format!("firebolt_engine_{name}{{{labels}}}"))
    }

    /// The phase that the metrics show: the one at 1, if all others are at 0.
    fn measured_phase(&self) -> Option<&'static str> {
        let phases = ["stable", "creating", "switching", "draining", "cleaning", "stopped"];
        let values = phases.map(|phase| self.gauge("status_phase", &format!(",phase=\"{phase}\"")));
        let one = values.iter().position(|value| *value == Some(1.0))?;
        let others = values.iter().enumerate().filter(|(at, _)| *at != one);
        others
            .into_iter()
            .all(|(_, value)| *value == Some(0.0))
            .then(|| phases[one])
    }

    /// Waits until the metrics, which follow the caches, are as described, and fails with the last that were seen.
    async fn wait_for_gauges(&self, phase: &str, expected: &[(&str, f64)]) {
        let what = format!("the metrics say {phase} and {expected:?}");
        let shown = async || {
            let all = expected
                .iter()
                .all(|(name, value)| self.gauge(name, "") == Some(*value));
            (all && self.measured_phase() == Some(phase)).then_some(())
        };
        self.eventually(&what, shown).await;
    }
}

fn columns(table: &[(String, String)]) -> Vec<(&str, &str)> {
    table
        .iter()
        .map(|(head, cell)| (head.as_str(), cell.as_str()))
        .collect()
}

/// A rollout from its beginning to its end: one row, and five events in the order in which things happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_finished_rollout_reads_well() {
    let scene = Scene::begin().await;
    scene.deploy(&engine("a").replicas(2)).await;
    scene.edit_engine("a", new_image(NEW_IMAGE)).await;
    scene.wait_for_generation("a", 1).await;
    scene.wait_for_reason("a", "EngineReady").await;
    let table = scene.table(&[]);
    let expected = [
        ("NAME", "a"),
        ("REPLICAS", "2"),
        ("PHASE", "stable"),
        ("READY", "True"),
        ("GENERATION", "1"),
    ];
    assert_eq!(columns(&table)[..5], expected);
    assert_eq!(table[5].0, "AGE");
    let wide = scene.table(&["-o", "wide"]);
    assert!(columns(&wide).contains(&("REASON", "EngineReady")), "{wide:?}");
    assert!(
        columns(&wide).contains(&("MESSAGE", "Generation 1 serves.")),
        "{wide:?}"
    );

    let told = scene.all_events("Stable", 2).await;
    let rollout = [
        "Normal Creating: Generation 1 rolls out: its specification or class changed.",
        "Normal Switching: Generation 1 is ready; queries move to it.",
        "Normal Draining: Queries go to generation 1; generation 0 finishes its own.",
        "Normal Cleaning: Generation 0 has finished its queries.",
        "Normal Stable: Generation 0 is removed.",
    ];
    assert_eq!(told[told.len() - 5..], rollout, "{told:#?}");
    // Not one by one in the order of the list: kubectl sorts them by a time of whole seconds.
    let described = scene.kubectl(&["describe", "fireng", "a"]).unwrap();
    for text in rollout.map(|line| line.split_once(": ").unwrap().1) {
        assert!(described.contains(text), "{text} in {described}");
    }
}

/// A rollout that is stuck: the row says that it is, the message why, and the old generation is the one that counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_rollout_reads_well() {
    let scene = Scene::begin_with(&["--rollout-progress-deadline=1s"]).await;
    scene.deploy(&engine("a").replicas(2)).await;
    scene.node.plan(&scene.namespace, "a-g1", Behaviour::ImagePullBackOff);
    scene.edit_engine("a", new_image(NEW_IMAGE)).await;
    scene
        .wait_for_message("a", "Pod a-g1-0 (and 1 more) cannot start")
        .await;
    scene.wait_for_reason("a", "ProgressDeadlineExceeded").await;
    let expected = [
        ("NAME", "a"),
        ("REPLICAS", "2"),
        ("PHASE", "creating"),
        ("READY", "False"),
        ("GENERATION", "0"),
    ];
    assert_eq!(columns(&scene.table(&[]))[..5], expected);
    let wide = scene.table(&["-o", "wide"]);
    assert!(
        columns(&wide).contains(&("REASON", "ProgressDeadlineExceeded")),
        "{wide:?}"
    );
    let message = "Generation 1 is not ready after 1s: 0 of 2 pods ready. Generation 0 keeps serving. The operator keeps \
                   trying; correct the specification or what holds the pods up. Pod a-g1-0 (and 1 more) cannot \
                   start container engine: ImagePullBackOff: ";
    let shown = wide
        .iter()
        .find(|(head, _)| head == "MESSAGE")
        .map(|(_, cell)| cell.as_str());
    assert!(shown.is_some_and(|shown| shown.starts_with(message)), "{wide:?}");
    let told = scene.all_events("ProgressDeadlineExceeded", 1).await;
    assert!(
        told.iter()
            .any(|line| line.starts_with(&format!("Warning ProgressDeadlineExceeded: {}", &message[..60]))),
        "{told:#?}"
    );
    let described = scene.kubectl(&["describe", "fireng", "a"]).unwrap();
    assert!(described.contains("Back-off pulling image"), "{described}");
}

/// Every series of an engine, with its labels, through a rollout: pods are those of the generation that serves. All of
/// them are gone with the engine; what is measured about engines together stays.
#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_follow_a_rollout_and_go_with_the_engine() {
    let scene = Scene::begin().await;
    scene.deploy(&engine("a").replicas(2)).await;
    let at_rest = [
        ("spec_replicas", 2.0),
        ("active_generation", 0.0),
        ("draining_generation", -1.0),
        ("pods_ready", 2.0),
        ("pods_total", 2.0),
        ("drain_check_errors_total", 0.0),
    ];
    scene.wait_for_gauges("stable", &at_rest).await;
    let condition = |name: &str| scene.gauge("status_condition", &format!(",type=\"{name}\""));
    assert_eq!((condition("Ready"), condition("InstanceReady")), (Some(1.0), Some(1.0)));
    let reconciled = scene.gauge("last_reconciled_timestamp", "").unwrap();
    let created = scene
        .the::<FireboltEngine>("a")
        .await
        .metadata
        .creation_timestamp
        .unwrap()
        .0;
    #[expect(clippy::cast_precision_loss, reason = "seconds of our days are small")]
    let created = created.as_second() as f64;
    assert!(reconciled >= created, "{reconciled} and created at {created}");

    scene.node.plan(&scene.namespace, "a-g1-2", Behaviour::Unready);
    scene.node.metrics(&scene.namespace, "a-g0", Answer::Status(500));
    scene.edit_engine("a", new_replicas(3)).await;
    scene.wait_for_message("a", "2 of 3 pods ready").await;
    let creating = [
        ("spec_replicas", 3.0),
        ("active_generation", 0.0),
        ("pods_ready", 2.0),
        ("pods_total", 2.0),
    ];
    scene.wait_for_gauges("creating", &creating).await;
    scene.node.plan(&scene.namespace, "a-g0-1", Behaviour::Unready);
    let half = [("active_generation", 0.0), ("pods_ready", 1.0), ("pods_total", 2.0)];
    scene.wait_for_gauges("creating", &half).await;
    assert_eq!((condition("Ready"), condition("InstanceReady")), (Some(0.0), Some(1.0)));

    scene.node.plan(&scene.namespace, "a-g1-2", Behaviour::Ready);
    scene.wait_for_phase("a", Draining).await;
    let draining = [
        ("active_generation", 1.0),
        ("draining_generation", 0.0),
        ("pods_ready", 3.0),
        ("pods_total", 3.0),
    ];
    scene.wait_for_gauges("draining", &draining).await;
    let counted = async || (scene.gauge("drain_check_errors_total", "") >= Some(2.0)).then_some(());
    scene.eventually("failed counts are counted", counted).await;
    scene.node.metrics(&scene.namespace, "a-g0", Answer::IDLE);
    scene.wait_for_generation("a", 1).await;
    scene
        .wait_for_gauges("stable", &[("draining_generation", -1.0), ("pods_total", 3.0)])
        .await;

    assert_measured_together(&scene.operator().metrics_answer());
    scene.delete::<FireboltEngine>("a").await;
    let own = async || (!scene.operator().metrics_answer().contains("name=\"a\"")).then_some(());
    scene.eventually("the series of the engine are gone", own).await;
    assert_measured_together(&scene.operator().metrics_answer());
}

/// What is measured about all engines together after a rollout.
fn assert_measured_together(text: &str) {
    for part in [
        "firebolt_engine_reconcile_duration_seconds_bucket{",
        "firebolt_engine_reconcile_duration_seconds_count{outcome=\"success\"}",
        "firebolt_engine_rollout_phase_duration_seconds_count{phase=\"creating\"}",
        "firebolt_engine_rollout_phase_duration_seconds_count{phase=\"draining\"}",
        "firebolt_engine_probe_duration_seconds_count{outcome=\"success\"}",
        "firebolt_engine_probe_duration_seconds_count{outcome=\"error\"}",
        "firebolt_engine_wake_to_patched_seconds_bucket{",
        "firebolt_engine_waiting_looks ",
        "firebolt_engine_scheduled_looks ",
        "firebolt_engine_decisions_total{decision=\"Draining\"}",
        "firebolt_engine_api_writes_total{kind=\"StatefulSet\",verb=\"create\",outcome=\"success\"}",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
