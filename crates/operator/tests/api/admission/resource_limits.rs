//! The operator-wide limits on the resources of an engine: set by itself, by its class, and after a change of its class.

use serde_json::{Value, json};

use crate::admission::client::{FireboltKind, eventually};
use crate::admission::manifests::{
    CLASS, ENGINE, class_with, container, cpu, engine, engine_of, engine_with, new_template,
};
use crate::admission::testenv::AdmissionEnv;
use crate::admission::validation::assert_refused;

const CPU: &str = "spec.template.spec.containers[engine].resources.limits.cpu";

fn everything(quantities: &Value) -> Value {
    container(
        "engine",
        "resources",
        &json!({ "requests": quantities, "limits": quantities }),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_above_a_resource_maximum_is_rejected() {
    let flags = [
        "--engine-max-cpu=4",
        "--engine-max-memory=8Gi",
        "--engine-max-ephemeral-storage=1Ti",
    ];
    let env = AdmissionEnv::start_with(&flags).await;
    env.has_instance().await;
    let most = everything(&json!({ "cpu": "4000m", "memory": "8192Mi", "ephemeral-storage": "1024Gi" }));
    let more = everything(&json!({ "cpu": "4001m", "memory": "8193Mi", "ephemeral-storage": "1025Gi" }));
    let paths = ["requests", "limits"].map(|list| {
        ["cpu", "memory", "ephemeral-storage"]
            .map(|name| format!("spec.template.spec.containers[engine].resources.{list}.{name}"))
    });
    let paths: Vec<&str> = paths.iter().flatten().map(String::as_str).collect();
    assert_refused(env.create(&engine_with(ENGINE, &more)).await, &paths);
    env.has(&[engine_with(ENGINE, &most)]).await;
    assert_refused(
        env.edit(FireboltKind::Engine, ENGINE, &new_template(&more)).await,
        &paths,
    );
    let refusal = env.create(&engine_with("b", &cpu("5"))).await.unwrap_err();
    assert!(
        refusal.message.contains("5 is more than 4, the maximum cpu"),
        "{refusal:?}"
    );
    // Only the engine container is bounded.
    let limits = json!({ "limits": { "cpu": "64" } });
    let mut sidecar = container("side", "resources", &limits);
    sidecar["spec"]["containers"][0]["image"] = json!("registry.example/side:1");
    env.has(&[engine_with("c", &sidecar)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resource_maximums_apply_to_what_an_engine_inherits_from_its_class() {
    let env = AdmissionEnv::start_with(&["--engine-max-cpu=4"]).await;
    env.has_instance().await;
    env.has(&[class_with(CLASS, &cpu("4")), engine_of(ENGINE, CLASS)]).await;
    // A class alone is not limited: its resources count once an engine refers to it.
    env.edit(FireboltKind::Class, CLASS, &new_template(&cpu("16")))
        .await
        .unwrap();
    // Until the operator has seen the change, it knows the class as it was.
    let refused = async || env.dry_run(&engine_of("b", CLASS)).await.err();
    let refusal = eventually("the change of the class counts", refused).await;
    assert_eq!(refusal.fields(), [CPU]);
    for part in ["16 is more than 4", "comes from the FireboltEngineClass large"] {
        assert!(refusal.message.contains(part), "{part} in {refusal:?}");
    }
    // The webhook was not called for the existing engine; its status reports the limit.
    env.wait_for_reason(ENGINE, "ResourceBoundsExceeded").await;
    // Its own resources take the place of those of the class.
    let mut modest = engine_of("c", CLASS);
    modest["spec"]["template"] = cpu("2");
    env.has(&[modest, engine("d")]).await;
    let joins = json!({ "spec": { "engineClassRef": CLASS } });
    assert_refused(env.edit(FireboltKind::Engine, "d", &joins).await, &[CPU]);
}
