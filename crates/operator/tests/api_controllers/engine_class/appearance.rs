//! What people see: kubectl and metrics.

use firebolt_api::{FireboltEngine, FireboltEngineClass};

use super::stage::{ALONE, CLASS, bound};
use crate::fixture::class;
use crate::scene::Scene;

impl Scene {
    /// The words of the row that kubectl prints about the class, but for its age.
    fn class_row(&self, class: &str) -> Vec<String> {
        let text = self.kubectl(&["get", "firengc", class]).unwrap();
        let [head, row] = text.lines().collect::<Vec<_>>()[..] else {
            panic!("a head and a row: {text}");
        };
        assert!(head.split_whitespace().eq(["NAME", "BOUND", "READY", "AGE"]), "{text}");
        let mut words: Vec<String> = row.split_whitespace().map(str::to_owned).collect();
        words.pop();
        words
    }

    /// The value of a gauge of one class, with more labels.
    fn class_gauge(&self, name: &str, class: &str, more: &str) -> Option<f64> {
        let labels = format!(r#"namespace="{}",name="{class}"{more}"#, self.namespace);
        self.operator()
            .metric(&format!("firebolt_engine_class_{name}{{{labels}}}"))
    }

    async fn wait_for_class_gauges(&self, class: &str, bound: f64, ready: f64) {
        let shown = async || {
            let holds = self.class_gauge("status_condition", class, r#",type="Ready""#) == Some(ready);
            (holds && self.class_gauge("bound_engines", class, "") == Some(bound)).then_some(())
        };
        self.eventually(&format!("the gauges of {class} say {bound} and {ready}"), shown)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_the_count_and_whether_the_class_can_be_used() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).0).await;
    scene.create(&class("refused").bad().0).await;
    scene.create(&bound("a").0).await;
    scene.wait_for_bound(CLASS, 1).await;
    scene.wait_for_class_reason("refused", "OperatorOwnedFieldSet").await;
    assert_eq!(scene.class_row(CLASS), [CLASS, "1", "True"]);
    assert_eq!(scene.class_row("refused"), ["refused", "0", "False"]);
    let wide = scene.kubectl(&["get", "firengc", "-o", "wide"]).unwrap();
    for text in [
        "OperatorOwnedFieldSet",
        "containers[engine].command",
        "Engines can use this class.",
    ] {
        assert!(wide.contains(text), "{text} in {wide}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_follow_the_class_and_go_with_it() {
    let scene = Scene::begin_with(&[ALONE]).await;
    scene.create(&class(CLASS).0).await;
    scene.create(&class("refused").bad().0).await;
    scene.create(&bound("a").0).await;
    scene.wait_for_class_gauges(CLASS, 1.0, 1.0).await;
    scene.wait_for_class_gauges("refused", 0.0, 0.0).await;
    scene.wait_until_class_was_looked_at(CLASS).await;
    scene.delete::<FireboltEngineClass>(CLASS).await;
    scene.wait_for_class_gauges(CLASS, 1.0, 0.0).await;
    scene.delete::<FireboltEngine>("a").await;
    scene.wait_until_gone::<FireboltEngineClass>(CLASS).await;
    let of = format!(r#"name="{CLASS}""#);
    let gone = async || {
        let answer = scene.operator().metrics_answer();
        let mut lines = answer.lines();
        let shown = lines.any(|line| line.starts_with("firebolt_engine_class_") && line.contains(&of));
        (!shown).then_some(answer)
    };
    let answer = scene.eventually("nothing is shown of what is gone", gone).await;
    for part in [
        "firebolt_engine_class_reconcile_duration_seconds_count{outcome=\"success\"}",
        "firebolt_engine_class_waiting_looks ",
        "firebolt_engine_class_scheduled_looks ",
        "firebolt_engine_class_decisions_total{decision=\"DeletionBlocked\"} 1",
        "firebolt_engine_class_api_writes_total{kind=\"FireboltEngineClass/status\",verb=\"patch\",outcome=\"success\"}",
    ] {
        assert!(answer.contains(part), "{part} in {answer}");
    }
}
