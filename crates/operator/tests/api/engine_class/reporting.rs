//! What users see: kubectl and metrics.

use firebolt_api::{FireboltEngine, FireboltEngineClass};

use super::testenv::{ALONE, CLASS, bound};
use crate::fixtures::class;
use crate::testenv::TestEnv;

impl TestEnv {
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
    let env = TestEnv::start().await;
    env.create(&class(CLASS).0).await;
    env.create(&class("refused").bad().0).await;
    env.create(&bound("a").0).await;
    env.wait_for_bound(CLASS, 1).await;
    env.wait_for_class_reason("refused", "OperatorOwnedFieldSet").await;
    assert_eq!(env.class_row(CLASS), [CLASS, "1", "True"]);
    assert_eq!(env.class_row("refused"), ["refused", "0", "False"]);
    let wide = env.kubectl(&["get", "firengc", "-o", "wide"]).unwrap();
    for text in [
        "OperatorOwnedFieldSet",
        "containers[engine].command",
        "Engines can use this class.",
    ] {
        assert!(wide.contains(text), "{text} in {wide}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_show_the_state_of_the_class_and_are_removed_with_it() {
    let env = TestEnv::start_with(&[ALONE]).await;
    env.create(&class(CLASS).0).await;
    env.create(&class("refused").bad().0).await;
    env.create(&bound("a").0).await;
    env.wait_for_class_gauges(CLASS, 1.0, 1.0).await;
    env.wait_for_class_gauges("refused", 0.0, 0.0).await;
    env.wait_until_class_was_reconciled(CLASS).await;
    env.delete::<FireboltEngineClass>(CLASS).await;
    env.wait_for_class_gauges(CLASS, 1.0, 0.0).await;
    env.delete::<FireboltEngine>("a").await;
    env.wait_until_gone::<FireboltEngineClass>(CLASS).await;
    let of = format!(r#"name="{CLASS}""#);
    let gone = async || {
        let answer = env.operator().metrics_answer();
        let mut lines = answer.lines();
        let shown = lines.any(|line| line.starts_with("firebolt_engine_class_") && line.contains(&of));
        (!shown).then_some(answer)
    };
    let answer = env.eventually("nothing is shown of what is gone", gone).await;
    for part in [
        "controller_runtime_reconcile_total{controller=\"fireboltengineclass\",result=\"success\"}",
        "workqueue_depth{name=\"fireboltengineclass\",controller=\"fireboltengineclass\",priority=\"normal\"}",
        "firebolt_operator_scheduled_reconciles{controller=\"fireboltengineclass\"}",
        "firebolt_engine_class_decisions_total{decision=\"DeletionBlocked\"} 1",
        "firebolt_engine_class_api_writes_total{kind=\"FireboltEngineClass/status\",verb=\"patch\",outcome=\"success\"}",
    ] {
        assert!(answer.contains(part), "{part} in {answer}");
    }
}
