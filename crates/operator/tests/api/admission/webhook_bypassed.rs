//! Invalid objects that were stored without a webhook call: the controllers report the same causes and create nothing.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::admission::client::eventually;
use crate::admission::manifests::{
    CLASS, COMMAND, class_with, commanded, container, cpu, engine, engine_of, engine_with,
};
use crate::admission::testenv::AdmissionEnv;

/// The class that each bad engine has, if it has one.
fn classes() -> Vec<Value> {
    let secret = json!({ "spec": { "volumes": [
        { "name": "credentials", "secret": { "secretName": "main-metadata-postgres-creds" } },
    ] } });
    vec![
        class_with("commanding", &commanded()),
        class_with("greedy", &cpu("8")),
        class_with("reading", &secret),
        class_with(CLASS, &container("side", "image", &json!("registry.example/side:1"))),
    ]
}

/// Engines that admission would have refused; reason of `Ready`, and what its message says.
fn engines() -> Vec<(Value, &'static str, &'static str)> {
    let of_class = |name: &str, class: &str, template: &Value| {
        let mut engine = engine_of(name, class);
        engine["spec"]["template"] = template.clone();
        engine
    };
    let variable = json!([{ "name": "PASSWORD", "valueFrom": { "secretKeyRef": {
        "name": "main-metadata-postgres-creds", "key": "password",
    } } }]);
    let label = json!({ "metadata": { "labels": { "firebolt.io/engine": "theirs" } } });
    let mut stray = engine("stray");
    stray["spec"]["instanceRef"] = json!("absent");
    vec![
        (engine_with("commanded", &commanded()), "TemplateRejected", COMMAND),
        (
            engine_with("labelled", &label),
            "TemplateRejected",
            "spec.template.metadata.labels[firebolt.io/engine]",
        ),
        (
            engine_with("reader", &container("engine", "env", &variable)),
            "TemplateRejected",
            "spec.template.spec.containers[engine].env[0].valueFrom.secretKeyRef.name",
        ),
        (
            engine_with("greedy", &cpu("8")),
            "ResourceBoundsExceeded",
            "spec.template.spec.containers[engine].resources.limits.cpu",
        ),
        (
            engine_of("inheriting", "greedy"),
            "ResourceBoundsExceeded",
            "comes from the FireboltEngineClass greedy",
        ),
        (engine_of("orphan", "missing"), "FireboltEngineClassUnready", "missing"),
        (
            engine_of("obedient", "commanding"),
            "FireboltEngineClassUnready",
            "commanding",
        ),
        (
            of_class("twice", CLASS, &container("side", "image", &json!("x"))),
            "TemplateRejected",
            "containers[side]",
        ),
        (
            engine_of("peeking", "reading"),
            "TemplateRejected",
            "FireboltEngineClass reading, at spec.template.spec.volumes[0]",
        ),
        (stray, "InstanceNotReady", "absent"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_objects_stored_without_the_webhook_are_reported_and_not_rendered() {
    let mut env = AdmissionEnv::bare().await;
    env.has_instance().await;
    env.has(&classes()).await;
    let engines = engines();
    for (engine, ..) in &engines {
        env.has(std::slice::from_ref(engine)).await;
    }
    // One that nothing is wrong with shows that the operator is at work.
    env.has(&[engine("good")]).await;
    env.start_replica(&["--webhook-bind-address=0", "--engine-max-cpu=4"]);
    for (engine, reason, text) in &engines {
        let name = engine["metadata"]["name"].as_str().unwrap();
        let reported = env.wait_for_reason(name, reason).await;
        assert_eq!(reported.status, "False", "{reported:?}");
        assert!(reported.message.contains(text), "{text} in {reported:?}");
    }
    let sets: Api<StatefulSet> = Api::namespaced(env.client.clone(), &env.namespace);
    let rendered = async || {
        let sets = sets.list(&ListParams::default()).await.unwrap();
        let names: Vec<String> = sets.into_iter().filter_map(|set| set.metadata.name).collect();
        (!names.is_empty()).then_some(names)
    };
    assert_eq!(eventually("the good engine has pods", rendered).await, ["good-g0"]);
}
