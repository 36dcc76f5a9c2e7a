//! Each kind, created and updated: valid objects are stored, invalid ones are rejected with every cause at once.

use localkube::Error;
use serde_json::{Value, json};
use ulid::Ulid;

use crate::admission::client::{ApiResult, FireboltKind};
use crate::admission::manifests::{
    CLASS, COMMAND, ENGINE, INSTANCE, class, class_with, commanded, container, engine, engine_of, engine_with,
    instance, instance_with, new_template,
};
use crate::admission::testenv::AdmissionEnv;

/// Checks that an answer is a no for exactly these fields.
#[track_caller]
pub(super) fn assert_refused(answer: ApiResult, fields: &[&str]) {
    let refusal = answer.expect_err("it is refused");
    assert_eq!(refusal.fields(), fields, "{refusal:?}");
    assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"), "{refusal:?}");
    for (field, message) in &refusal.causes {
        assert!(refusal.message.contains(&format!("{field}: {message}")), "{refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_are_validated_when_they_are_created_and_updated() {
    let env = AdmissionEnv::start().await;
    env.has_instance().await;
    assert_refused(env.create(&engine_with(ENGINE, &commanded())).await, &[COMMAND]);
    assert_refused(env.create(&engine_of(ENGINE, CLASS)).await, &["spec.engineClassRef"]);
    assert_eq!(env.get(FireboltKind::Engine, ENGINE).await, None);
    // The class was created a moment ago, and is known already.
    env.has(&[class(CLASS), engine_of(ENGINE, CLASS)]).await;
    assert_refused(
        env.edit(FireboltKind::Engine, ENGINE, &new_template(&commanded()))
            .await,
        &[COMMAND],
    );
    let another = json!({ "spec": { "engineClassRef": "another" } });
    assert_refused(
        env.edit(FireboltKind::Engine, ENGINE, &another).await,
        &["spec.engineClassRef"],
    );
    let image = container("engine", "image", &json!("registry.example/engine:2"));
    let changed = env
        .edit(FireboltKind::Engine, ENGINE, &new_template(&image))
        .await
        .unwrap();
    assert_eq!(
        changed["spec"]["template"]["spec"]["containers"][0]["image"],
        "registry.example/engine:2"
    );
    env.delete(FireboltKind::Engine, ENGINE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_name_the_api_server_chooses_is_validated_like_any_other() {
    let env = AdmissionEnv::start().await;
    env.has_instance().await;
    let unnamed = |template: &Value| {
        let mut engine = engine_with(ENGINE, template);
        engine["metadata"] = json!({ "generateName": "engine-" });
        engine
    };
    assert_refused(env.create(&unnamed(&commanded())).await, &[COMMAND]);
    let image = container("engine", "image", &json!("registry.example/engine:2"));
    let stored = env.create(&unnamed(&image)).await.unwrap();
    assert!(stored["metadata"]["name"].as_str().unwrap().starts_with("engine-"));
}

#[tokio::test(flavor = "multi_thread")]
async fn classes_are_validated_when_they_are_created_and_updated() {
    let env = AdmissionEnv::start().await;
    assert_refused(env.create(&class_with(CLASS, &commanded())).await, &[COMMAND]);
    env.has(&[class(CLASS)]).await;
    assert_refused(
        env.edit(FireboltKind::Class, CLASS, &new_template(&commanded())).await,
        &[COMMAND],
    );
    let labels = json!({ "metadata": { "labels": { "team": "sales" } } });
    env.edit(FireboltKind::Class, CLASS, &new_template(&labels))
        .await
        .unwrap();
    env.delete(FireboltKind::Class, CLASS).await.unwrap();
    env.wait_until_gone(FireboltKind::Class, CLASS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_validated_when_they_are_created_and_updated() {
    let env = AdmissionEnv::start().await;
    let template = container("envoy", "command", &json!(["sh"]));
    let command = "spec.gateway.template.spec.containers[envoy].command";
    assert_refused(
        env.create(&instance_with(INSTANCE, "gateway", &template)).await,
        &[command],
    );
    env.has_instance().await;
    let edit = json!({ "spec": { "gateway": { "template": template } } });
    assert_refused(env.edit(FireboltKind::Instance, INSTANCE, &edit).await, &[command]);
    let replicas = json!({ "spec": { "gateway": { "replicas": 3 } } });
    env.edit(FireboltKind::Instance, INSTANCE, &replicas).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_cannot_change_while_engines_reference_the_instance() {
    let env = AdmissionEnv::start().await;
    env.has(&[instance(INSTANCE), engine(ENGINE)]).await;
    let switch = json!({ "spec": { "metadata": { "postgres": null } } });
    let refusal = env.edit(FireboltKind::Instance, INSTANCE, &switch).await.unwrap_err();
    assert_eq!(refusal.fields(), ["spec.metadata.postgres"]);
    assert!(refusal.message.contains("used by engine sales"), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_has_an_id_from_the_moment_that_it_is_stored() {
    let env = AdmissionEnv::start().await;
    let mut ids = Vec::new();
    for name in ["one", "two"] {
        let stored = env.create(&instance(name)).await.unwrap();
        let id = stored["spec"]["id"].as_str().expect("an id").to_owned();
        assert_eq!(Ulid::from_string(&id).map(|ulid| ulid.to_string()), Ok(id.clone()));
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
    let mut own = instance("own");
    own["spec"]["id"] = json!("01J00000000000000000000000");
    let stored = env.create(&own).await.unwrap();
    assert_eq!(stored["spec"]["id"], "01J00000000000000000000000");
    let mut empty = instance("empty");
    empty["spec"]["id"] = json!("");
    let stored = env.create(&empty).await.unwrap();
    assert_eq!(stored["spec"]["id"].as_str().map(str::len), Some(26));
}

/// An engine with faults of five rules.
fn faulty() -> Value {
    let mut engine = engine_of(ENGINE, "missing");
    engine["spec"]["template"] = json!({
        "metadata": { "labels": { "firebolt.io/engine": "theirs" } },
        "spec": {
            "hostNetwork": true,
            "containers": [{ "name": "engine", "command": ["sh"], "env": [{ "name": "POD_INDEX", "value": "1" }] }],
        },
    });
    engine
}

#[tokio::test(flavor = "multi_thread")]
async fn all_violations_are_reported_at_once_and_in_order() {
    let env = AdmissionEnv::start().await;
    assert_refused(
        env.create(&faulty()).await,
        &[
            "spec.engineClassRef",
            "spec.template.metadata.labels[firebolt.io/engine]",
            "spec.template.spec.hostNetwork",
            COMMAND,
            "spec.template.spec.containers[engine].env[0].name",
        ],
    );
    let apply = ["apply", "--namespace", &env.namespace, "--filename=-"];
    let complaint = match env.cluster.kubectl_with_input(&apply, &faulty().to_string()) {
        Err(Error::Kubectl { stderr, .. }) => stderr.replace(&env.namespace, "NAMESPACE"),
        printed => panic!("{printed:?}"),
    };
    insta::assert_snapshot!(complaint, @r#"
    Warning: spec.instanceRef: FireboltInstance main does not exist in namespace NAMESPACE. Create it; the engine then starts.
    The FireboltEngine "sales" is invalid: 
    * spec.engineClassRef: Not found: FireboltEngineClass missing does not exist in namespace NAMESPACE. Create it, or correct spec.engineClassRef.
    * spec.template.metadata.labels[firebolt.io/engine]: Forbidden: Keys with the prefix firebolt.io/ are reserved for the operator. Remove or rename this key.
    * spec.template.spec.hostNetwork: Forbidden: Pods may not share the namespaces of their nodes. Remove this field.
    * spec.template.spec.containers[engine].command: Forbidden: The operator manages how the engine is started. Remove this field.
    * spec.template.spec.containers[engine].env[0].name: Forbidden: The environment variable POD_INDEX is set by the operator. Remove this entry.
    "#);
}
