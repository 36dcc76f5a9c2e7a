//! What users see: kubectl, events and metrics of a rollout that ends and of one that does not.

use firebolt_api::EnginePhase::Draining;
use firebolt_api::FireboltEngine;

use crate::fixtures::{INSTANCE, engine, new_image, new_replicas};
use crate::kubelet::metrics_server::Answer;
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::TestEnv;

const NEW_IMAGE: &str = "registry.example/engine:2";

impl TestEnv {
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

    /// All events of engine `a` as `Type Reason: message`, oldest first.
    async fn event_lines(&self) -> Vec<String> {
        let events = self.events("a").await.into_iter();
        events
            .map(|event| format!("{} {}: {}", event.severity, event.reason, event.message))
            .collect()
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
async fn a_finished_rollout_is_reported() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2)).await;
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    env.wait_for_generation("a", 1).await;
    env.wait_for_reason("a", "EngineReady").await;
    let table = env.table(&[]);
    let expected = [
        ("NAME", "a"),
        ("REPLICAS", "2"),
        ("PHASE", "stable"),
        ("READY", "True"),
        ("GENERATION", "1"),
    ];
    assert_eq!(columns(&table)[..5], expected);
    assert_eq!(table[5].0, "AGE");
    let wide = env.table(&["-o", "wide"]);
    assert!(columns(&wide).contains(&("REASON", "EngineReady")), "{wide:?}");
    assert!(
        columns(&wide).contains(&("MESSAGE", "Generation 1 is serving queries.")),
        "{wide:?}"
    );

    let rollout = [
        "Normal Creating: Rolling out generation 1: `spec.template.spec.containers[engine].image` changed from \
         registry.example/engine:1 to registry.example/engine:2.",
        "Normal Switching: Generation 1 is ready; switching queries to it.",
        "Normal Draining: Switched queries to generation 1; draining generation 0.",
        "Normal Cleaning: Generation 0 has finished its queries.",
        "Normal Stable: Generation 1 is serving queries; deleted generation 0.",
    ];
    // Events are created concurrently, so the last one may be stored before the others.
    let expected = rollout.map(str::to_owned);
    let reported = async || env.event_lines().await.ends_with(&expected).then_some(());
    env.eventually(&format!("the last events are {rollout:#?}"), reported)
        .await;
    // Not one by one in the order of the list: kubectl sorts them by a time of whole seconds.
    let described = env.kubectl(&["describe", "fireng", "a"]).unwrap();
    for text in rollout.map(|line| line.split_once(": ").unwrap().1) {
        assert!(described.contains(text), "{text} in {described}");
    }
}

/// A rollout that is stuck: the row says that it is, the message why, and the old generation is the one that counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_rollout_is_reported() {
    let env = TestEnv::start_with(&["--rollout-progress-deadline=1s"]).await;
    env.deploy(&engine("a").replicas(2)).await;
    env.node
        .set_behaviour(&env.namespace, "a-g1", Behaviour::ImagePullBackOff);
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    env.wait_for_message("a", "Pod a-g1-0 (and 1 more) cannot start").await;
    env.wait_for_reason("a", "ProgressDeadlineExceeded").await;
    let expected = [
        ("NAME", "a"),
        ("REPLICAS", "2"),
        ("PHASE", "creating"),
        ("READY", "False"),
        ("GENERATION", "0"),
    ];
    assert_eq!(columns(&env.table(&[]))[..5], expected);
    let wide = env.table(&["-o", "wide"]);
    assert!(
        columns(&wide).contains(&("REASON", "ProgressDeadlineExceeded")),
        "{wide:?}"
    );
    let message = "Generation 1 (`spec.template.spec.containers[engine].image` changed from registry.example/engine:1 to registry.example/engine:2) is not ready after 1s: 0 of 2 pods ready. Generation 0 continues to serve queries. Fix the spec or the cause below; the rollout continues automatically when the pods are ready. Pod a-g1-0 (and 1 more) cannot start container engine: ImagePullBackOff: ";
    let shown = wide
        .iter()
        .find(|(head, _)| head == "MESSAGE")
        .map(|(_, cell)| cell.as_str());
    assert!(shown.is_some_and(|shown| shown.starts_with(message)), "{wide:?}");
    env.wait_for_event("a", "ProgressDeadlineExceeded").await;
    let reported = env.event_lines().await;
    assert!(
        reported
            .iter()
            .any(|line| line.starts_with(&format!("Warning ProgressDeadlineExceeded: {}", &message[..150]))),
        "{reported:#?}"
    );
    let described = env.kubectl(&["describe", "fireng", "a"]).unwrap();
    assert!(described.contains("Back-off pulling image"), "{described}");
}

/// Every series of an engine, with its labels, through a rollout: pods are those of the generation that serves. All of
/// them are gone with the engine; what is measured about engines together stays.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_show_a_rollout_and_are_removed_with_the_engine() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2)).await;
    let at_rest = [
        ("spec_replicas", 2.0),
        ("active_generation", 0.0),
        ("draining_generation", -1.0),
        ("pods_ready", 2.0),
        ("pods_total", 2.0),
        ("drain_check_errors_total", 0.0),
    ];
    env.wait_for_gauges("stable", &at_rest).await;
    let condition = |name: &str| env.gauge("status_condition", &format!(",type=\"{name}\""));
    assert_eq!((condition("Ready"), condition("InstanceReady")), (Some(1.0), Some(0.0)));
    let reconciled = env.gauge("last_reconciled_timestamp", "").unwrap();
    let created = env
        .the::<FireboltEngine>("a")
        .await
        .metadata
        .creation_timestamp
        .unwrap()
        .0;
    #[expect(clippy::cast_precision_loss, reason = "seconds of our days are small")]
    let created = created.as_second() as f64;
    assert!(reconciled >= created, "{reconciled} and created at {created}");

    env.node.set_behaviour(&env.namespace, "a-g1-2", Behaviour::Unready);
    env.node.metrics(&env.namespace, "a-g0", Answer::Status(500));
    env.edit_engine("a", new_replicas(3)).await;
    env.wait_for_message("a", "2 of 3 pods ready").await;
    let creating = [
        ("spec_replicas", 3.0),
        ("active_generation", 0.0),
        ("pods_ready", 2.0),
        ("pods_total", 2.0),
    ];
    env.wait_for_gauges("creating", &creating).await;
    env.node.set_behaviour(&env.namespace, "a-g0-1", Behaviour::Unready);
    let half = [("active_generation", 0.0), ("pods_ready", 1.0), ("pods_total", 2.0)];
    env.wait_for_gauges("creating", &half).await;
    assert_eq!((condition("Ready"), condition("InstanceReady")), (Some(0.0), Some(0.0)));

    env.node.set_behaviour(&env.namespace, "a-g1-2", Behaviour::Ready);
    env.wait_for_phase("a", Draining).await;
    let draining = [
        ("active_generation", 1.0),
        ("draining_generation", 0.0),
        ("pods_ready", 3.0),
        ("pods_total", 3.0),
    ];
    env.wait_for_gauges("draining", &draining).await;
    let counted = async || (env.gauge("drain_check_errors_total", "") >= Some(2.0)).then_some(());
    env.eventually("failed counts are counted", counted).await;
    env.node.metrics(&env.namespace, "a-g0", Answer::IDLE);
    env.wait_for_generation("a", 1).await;
    env.wait_for_gauges("stable", &[("draining_generation", -1.0), ("pods_total", 3.0)])
        .await;

    assert_measured_together(&env.operator().metrics_answer());
    env.delete::<FireboltEngine>("a").await;
    let own = async || (!env.operator().metrics_answer().contains("name=\"a\"")).then_some(());
    env.eventually("the series of the engine are gone", own).await;
    assert_measured_together(&env.operator().metrics_answer());
}

/// What is measured about all engines together after a rollout.
fn assert_measured_together(text: &str) {
    for part in [
        "controller_runtime_reconcile_time_seconds_bucket{le=\"0.005\",controller=\"fireboltengine\"}",
        "controller_runtime_reconcile_total{controller=\"fireboltengine\",result=\"success\"}",
        "firebolt_engine_rollout_phase_duration_seconds_count{phase=\"creating\"}",
        "firebolt_engine_rollout_phase_duration_seconds_count{phase=\"draining\"}",
        "firebolt_engine_probe_duration_seconds_count{outcome=\"success\"}",
        "firebolt_engine_probe_duration_seconds_count{outcome=\"error\"}",
        "firebolt_engine_wake_to_patched_seconds_bucket{",
        "workqueue_depth{name=\"fireboltengine\",controller=\"fireboltengine\",priority=\"urgent\"}",
        "firebolt_operator_scheduled_reconciles{controller=\"fireboltengine\"}",
        "firebolt_engine_decisions_total{decision=\"Draining\"}",
        "firebolt_engine_api_writes_total{kind=\"StatefulSet\",verb=\"create\",outcome=\"success\"}",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
