//! Manifests that are applied again and again while auto-stop changes `spec.replicas`.

use firebolt_api::EnginePhase::{Stable, Stopped};
use firebolt_api::FireboltEngine;
use firebolt_api::key::Annotation;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixtures::{engine, new_replicas, quick_to_stop};
use crate::kubelet::metrics_server::Answer;
use crate::testenv::TestEnv;

/// How often a tool applies the same manifest in a test.
const TIMES: usize = 3;

/// How a tool applies manifests.
#[derive(Clone, Copy, Debug)]
enum Tool {
    /// Server-side apply that takes over every field of the manifest.
    Flux,
    /// Three-way merge with the manifest that was applied before.
    ArgoCd,
}

impl TestEnv {
    fn apply_with(&self, tool: Tool, manifest: &Value) {
        let how: &[&str] = match tool {
            Tool::Flux => &[
                "--server-side",
                "--field-manager=kustomize-controller",
                "--force-conflicts",
            ],
            Tool::ArgoCd => &[],
        };
        let arguments = [&["apply", "-n", &self.namespace, "-f", "-"], how].concat();
        let applied = || self.cluster.kubectl_with_input(&arguments, &manifest.to_string());
        tokio::task::block_in_place(applied).unwrap();
    }

    /// Applies the manifest again and again, and asserts that the engine is left alone.
    async fn apply_without_effect(&self, tool: Tool, manifest: &Value) {
        let before = self.the::<FireboltEngine>("a").await;
        for _ in 0..TIMES {
            self.apply_with(tool, manifest);
            let after = self.the::<FireboltEngine>("a").await;
            assert_eq!(after.spec, before.spec);
            assert_eq!(after.metadata.generation, before.metadata.generation);
        }
        // A reconcile that follows has nothing to do either.
        let generation = before.status.expect("a status").current_generation;
        self.force_reconcile("a", generation).await;
        let after = self.the::<FireboltEngine>("a").await;
        assert_eq!(after.spec.replicas, before.spec.replicas);
        assert_eq!(after.status.expect("a status").current_generation, generation);
    }
}

/// The manifest of an engine that stops at once when it is not in use, and is woken to two replicas.
fn manifest(replicas: Option<i32>) -> Value {
    let mut manifest = serde_json::to_value(engine("a").auto_stop(quick_to_stop(2)).0).unwrap();
    let spec = manifest["spec"].as_object_mut().unwrap();
    match replicas {
        Some(replicas) => spec.insert("replicas".to_owned(), json!(replicas)),
        None => spec.remove("replicas"),
    };
    manifest
}

#[rstest]
#[case::flux(Tool::Flux)]
#[case::argo_cd(Tool::ArgoCd)]
#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_without_replicas_never_undoes_a_stop_or_a_wake(#[case] tool: Tool) {
    let env = TestEnv::start().await;
    env.node.metrics(&env.namespace, "a", Answer::IDLE);
    env.apply_with(tool, &manifest(None));
    env.wait_for("a", "is stopped", |engine| engine.spec.replicas == 0)
        .await;
    env.wait_for_phase("a", Stopped).await;
    env.apply_without_effect(tool, &manifest(None)).await;

    let busy = Answer::Queries {
        running: 1,
        suspended: 0,
    };
    env.node.metrics(&env.namespace, "a", busy);
    let wake = json!({ Annotation::WakeRequested.key(): Timestamp::now().to_string() });
    env.edit_engine("a", json!({ "metadata": { "annotations": wake } }))
        .await;
    env.wait_for("a", "is woken", |engine| engine.spec.replicas == 2).await;
    env.wait_for_phase("a", Stable).await;
    env.apply_without_effect(tool, &manifest(None)).await;
}

/// Why the handbook says to leave them out, or to have the tool ignore them.
#[rstest]
#[case::flux(Tool::Flux)]
#[case::argo_cd(Tool::ArgoCd)]
#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_with_replicas_undoes_what_others_set(#[case] tool: Tool) {
    let env = TestEnv::without_operator().await;
    env.apply_with(tool, &manifest(Some(3)));
    env.edit_engine("a", new_replicas(0)).await;
    env.apply_with(tool, &manifest(Some(3)));
    assert_eq!(env.the::<FireboltEngine>("a").await.spec.replicas, 3);
}

/// Which the handbook warns of.
#[rstest]
#[case::flux(Tool::Flux)]
#[case::argo_cd(Tool::ArgoCd)]
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_are_taken_out_of_a_manifest_become_one(#[case] tool: Tool) {
    let env = TestEnv::without_operator().await;
    env.apply_with(tool, &manifest(Some(3)));
    env.apply_with(tool, &manifest(None));
    assert_eq!(env.the::<FireboltEngine>("a").await.spec.replicas, 1);
}
