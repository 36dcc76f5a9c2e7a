//! The metrics of instances.

use firebolt_api::{FireboltInstance, InstancePhase};
use kube::ResourceExt;
use serde_json::json;
use strum::IntoEnumIterator;

use super::fixtures::{MAIN, credentials, external, instance, minimal};
use super::testenv::{Component, InstanceEnv};
use crate::kubelet::pod_status::Behaviour;

impl InstanceEnv {
    /// The value of a gauge of one instance, with more labels.
    fn gauge(&self, name: &str, instance: &str, more: &str) -> Option<f64> {
        let labels = format!(r#"namespace="{}",name="{instance}"{more}"#, self.namespace);
        self.operator().metric(&format!("firebolt_instance_{name}{{{labels}}}"))
    }

    async fn wait_for_gauges(&self, instance: &str, phase: InstancePhase, conditions: [(&str, f64); 3]) {
        let shown = async || {
            let phases = InstancePhase::iter().map(|other| {
                let value = self.gauge("status_phase", instance, &format!(r#",phase="{other}""#));
                value == Some(f64::from(u8::from(other == phase)))
            });
            let conditions = conditions.iter().map(|(kind, value)| {
                self.gauge("status_condition", instance, &format!(r#",type="{kind}""#)) == Some(*value)
            });
            phases.chain(conditions).all(|holds| holds).then_some(())
        };
        self.eventually(&format!("the gauges of {instance} say {phase}"), shown)
            .await;
    }

    fn series_of(&self, instance: &str) -> Vec<String> {
        let answer = self.operator().metrics_answer();
        let of = format!(r#"name="{instance}""#);
        let lines = answer
            .lines()
            .filter(|line| line.starts_with("firebolt_instance_") && line.contains(&of));
        lines.map(str::to_owned).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_show_the_state_of_the_instance_and_are_removed_with_it() {
    let env = InstanceEnv::start().await;
    env.create(&credentials("open sesame")).await;
    let ready = env.deploy(&minimal(MAIN)).await;
    env.deploy(&instance("other", &json!({ "postgres": external() }), &json!({})))
        .await;
    let all = |ready, metadata, gateway| [("Ready", ready), ("MetadataReady", metadata), ("GatewayReady", gateway)];
    env.wait_for_gauges(MAIN, InstancePhase::Ready, all(1.0, 1.0, 1.0))
        .await;
    let id = ready.spec.id.clone().unwrap();
    assert_eq!(
        env.gauge("info", MAIN, &format!(r#",id="{id}",postgres_mode="internal""#)),
        Some(1.0)
    );
    assert!(
        env.series_of("other")
            .iter()
            .any(|line| line.contains(r#"postgres_mode="external""#))
    );
    let reconciled = env.gauge("last_reconciled_timestamp", MAIN, "").unwrap();
    let created = ready.creation_timestamp().unwrap().0.as_second();
    assert!(
        reconciled.to_string().parse::<i64>().unwrap() >= created,
        "{reconciled}"
    );

    env.set_behaviour(MAIN, Component::Gateway, Behaviour::Unready);
    env.wait_for_gauges(MAIN, InstancePhase::Degraded, all(0.0, 1.0, 0.0))
        .await;
    env.wait_for_gauges("other", InstancePhase::Ready, all(1.0, 1.0, 1.0))
        .await;
    env.set_behaviour(MAIN, Component::Gateway, Behaviour::Ready);
    env.wait_for_gauges(MAIN, InstancePhase::Ready, all(1.0, 1.0, 1.0))
        .await;
    // Gauges follow the caches, and a reconcile adds to these after its last write.
    for (counter, count) in [
        (r#"component_ready_duration_seconds_count{component="metadata"}"#, 2.0),
        (r#"component_ready_duration_seconds_count{component="gateway"}"#, 3.0),
        (r#"decisions_total{decision="Degraded"}"#, 1.0),
        (
            r#"api_writes_total{kind="Deployment",verb="create",outcome="success"}"#,
            4.0,
        ),
    ] {
        let name = format!("firebolt_instance_{counter}");
        let counted = async || (env.operator().metric(&name) == Some(count)).then_some(());
        env.eventually(&format!("{name} is {count}"), counted).await;
    }

    env.delete::<FireboltInstance>(MAIN).await;
    env.wait_until_gone::<FireboltInstance>(MAIN).await;
    let gone = async || env.series_of(MAIN).is_empty().then_some(());
    env.eventually("nothing is shown of what is gone", gone).await;
    assert_eq!(env.series_of("other").len(), 12);
}
