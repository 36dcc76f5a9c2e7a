//! Rollouts from beginning to end.

use firebolt_api::EnginePhase::{Creating, Stable, Stopped};
use firebolt_api::key::{Annotation, Finalizer, Label};
use firebolt_api::name::EngineNames;
use firebolt_api::{FireboltEngine, FireboltEngineClass};
use firebolt_core::plan::engine::STOP_NOTICE;
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use serde_json::json;

use crate::fixtures::{IMAGE, INSTANCE_ID, METADATA_ENDPOINT, class, engine, new_image, new_replicas};
use crate::kubelet::metrics_server::Answer;
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::{Namespaced, TestEnv, ready};

const NEW_IMAGE: &str = "registry.example/engine:2";

/// What every child of generation `generation` says about where it belongs; none for what outlives generations.
fn assert_belongs<K: Namespaced>(object: &K, engine: &FireboltEngine, generation: Option<i64>) {
    let name = object.name_any();
    let labels = object.labels();
    assert_eq!(labels[Label::Engine.key()], engine.name_any(), "{name}");
    let number = generation.map(|generation| generation.to_string());
    assert_eq!(labels.get(Label::Generation.key()), number.as_ref(), "{name}");
    let [owner] = object.owner_references() else {
        panic!("{name} has one owner: {:?}", object.owner_references());
    };
    assert_eq!(
        (owner.kind.as_str(), Some(&owner.uid)),
        ("FireboltEngine", engine.metadata.uid.as_ref())
    );
    assert_eq!(owner.controller, Some(true), "{name}");
}

/// The image of the engine in the StatefulSet of a generation.
fn image(set: &StatefulSet) -> Option<&str> {
    let pod = set.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()?.image.as_deref()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_deploy_reaches_stable_with_every_object_in_place() {
    let env = TestEnv::start().await;
    let engine = env.deploy(&engine("a").replicas(2)).await;
    let (names, engine_ref) = (EngineNames("a"), &engine);
    assert!(engine.finalizers().contains(&Finalizer::Engine.key().to_owned()));
    assert_eq!(ready(&engine).map(|ready| ready.reason).as_deref(), Some("EngineReady"));

    let set: StatefulSet = env.the(&names.stateful_set(0)).await;
    assert_belongs(&set, engine_ref, Some(0));
    assert!(set.annotations().contains_key(Annotation::TemplateHash.key()));
    assert_eq!(image(&set), Some(IMAGE));
    let spec = set.spec.as_ref().unwrap();
    assert_eq!(
        (spec.replicas, spec.service_name.as_deref()),
        (Some(2), Some("a-g0-hl"))
    );

    let headless: Service = env.the(&names.headless_service(0)).await;
    assert_belongs(&headless, engine_ref, Some(0));
    let routing: Service = env.the(&names.routing_service()).await;
    assert_belongs(&routing, engine_ref, None);
    assert_eq!(env.routed_to("a").await, Some(0));

    let config: ConfigMap = env.the(&names.config_map(0)).await;
    assert_belongs(&config, engine_ref, Some(0));
    let text = &config.data.unwrap()["config.yaml"];
    for part in [INSTANCE_ID, METADATA_ENDPOINT, "a-g0-1.a-g0-hl"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    env.wait_for_events("a", &["Creating", "Switching", "Stable"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scaling_an_engine_creates_a_new_generation() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.edit_engine("a", new_replicas(3)).await;
    let status = env.wait_for_phase("a", Stable).await;
    assert_eq!((status.active_generation, status.draining_generation), (1, None));
    assert_eq!((status.replicas, env.routed_to("a").await), (Some(3), Some(1)));
    env.wait_until_gone::<StatefulSet>("a-g0").await;
    let pods = env.list::<Pod>().await;
    assert_eq!(
        pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
        ["a-g1-0", "a-g1-1", "a-g1-2"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_can_be_stopped_and_started_again() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.edit_engine("a", new_replicas(0)).await;
    env.wait_for_message("a", "The engine is stopping.").await;
    let status = env.wait_for_phase("a", Stopped).await;
    assert_eq!(status.active_generation, 1);
    env.wait_until_gone::<Pod>("a-g0-0").await;
    let stopped = ready(&env.the("a").await).unwrap();
    assert_eq!((stopped.status.as_str(), stopped.reason.as_str()), ("False", "Stopped"));
    env.edit_engine("a", new_replicas(2)).await;
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 2);
    env.wait_until_gone::<StatefulSet>("a-g1").await;
    assert_eq!(env.routed_to("a").await, Some(2));
}

/// What the API server itself recorded: the empty generation was there for the notice when the route went to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_visible_for_the_notice_before_the_route_leaves_the_last_pods() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.edit_engine("a", new_replicas(0)).await;
    env.wait_for_phase("a", Stopped).await;
    let empty: StatefulSet = env.the("a-g1").await;
    let created = empty.creation_timestamp().expect("it is stored").0;
    let route: Service = env.the(&EngineNames("a").routing_service()).await;
    let applied = route.managed_fields().iter().filter_map(|entry| entry.time.as_ref());
    let moved = applied.map(|time| time.0).max().expect("it was applied");
    let notice = SignedDuration::try_from(STOP_NOTICE).unwrap();
    assert!(
        moved.duration_since(created) >= notice,
        "created at {created}, moved at {moved}"
    );
    let first = ["Creating", "Switching", "Stable"];
    let stop = ["Creating", "Switching", "Draining", "Cleaning", "Stopped"];
    env.wait_for_events("a", &[&first[..], &stop].concat()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_while_creating_abandons_the_unfinished_generation() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.node.set_behaviour(&env.namespace, "a-g1", Behaviour::Pending);
    env.edit_engine("a", new_image("registry.example/engine:typo")).await;
    let created = async || env.get::<Pod>("a-g1-0").await;
    env.eventually("the pod of generation 1 is there", created).await;
    assert_eq!(env.wait_for_phase("a", Creating).await.active_generation, 0);
    assert_eq!(env.routed_to("a").await, Some(0));
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 2);
    env.wait_until_gone::<StatefulSet>("a-g1").await;
    env.wait_until_gone::<StatefulSet>("a-g0").await;
    assert_eq!(image(&env.the("a-g2").await), Some(NEW_IMAGE));
    // The last event of the rollout, so that none can follow.
    let over = async || {
        let events = env.events("a").await;
        let over = events.iter().filter(|event| event.reason == "Stable").count() == 2;
        over.then_some(events)
    };
    let events = env.eventually("both rollouts are reported of", over).await;
    assert!(
        !events
            .iter()
            .any(|event| event.message.contains("Switched queries to generation 1")),
        "{events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_generation_is_reported_and_leaves_the_old_one_serving() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.node
        .set_behaviour(&env.namespace, "a-g1", Behaviour::CrashLoop { exit_code: 137 });
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    let observed = env.wait_for_message("a", "137").await;
    assert!(
        observed.status == "False" && observed.message.contains("a-g1-0"),
        "{observed:?}"
    );
    env.node
        .set_behaviour(&env.namespace, "a-g1", Behaviour::ImagePullBackOff);
    let ready = env.wait_for_message("a", "ImagePullBackOff").await;
    assert!(ready.status == "False" && ready.message.contains("a-g1-0"), "{ready:?}");
    assert_eq!(
        (env.routed_to("a").await, env.generations("a").await),
        (Some(0), vec![0, 1])
    );
    // The cause is fixed without an edit: the same generation continues.
    env.node.set_behaviour(&env.namespace, "a-g1", Behaviour::Ready);
    env.wait_for_generation("a", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_class_rolls_out_its_engines_unless_only_draining_changed() {
    let env = TestEnv::start().await;
    env.create(&class("c").pod_label("team", "one").drain_interval(1).0)
        .await;
    env.deploy(&engine("a").class("c").drain_from_class()).await;
    let hash = |set: &StatefulSet| set.annotations()[Annotation::EngineClassHash.key()].clone();
    let first: StatefulSet = env.the("a-g0").await;
    let labels = json!({ "spec": { "template": { "metadata": { "labels": { "team": "two" } } } } });
    env.edit::<FireboltEngineClass>("c", labels).await;
    env.wait_for_generation("a", 1).await;
    assert_ne!(hash(&first), hash(&env.the("a-g1").await));
    assert_eq!(env.the::<Pod>("a-g1-0").await.labels()["team"], "two");

    // The next rollout shows that the edit was seen: it does not wait for the queries any more.
    let busy = Answer::Queries {
        running: 1,
        suspended: 0,
    };
    env.node.metrics(&env.namespace, "a-g1", busy);
    env.edit::<FireboltEngineClass>("c", json!({ "spec": { "drainCheckEnabled": false } }))
        .await;
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 2);
    assert_eq!(image(&env.the("a-g2").await), Some(NEW_IMAGE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_is_removed_is_not_on_the_next_generation() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").pod_label("team", "one").pod_label("proxied", "test"))
        .await;
    assert_eq!(env.the::<Pod>("a-g0-0").await.labels()["team"], "one");
    let removal = json!({ "spec": { "template": { "metadata": { "labels": { "team": null } } } } });
    env.edit_engine("a", removal).await;
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    let pod: Pod = env.the("a-g1-0").await;
    assert_eq!(
        (pod.labels().get("team"), pod.labels()["proxied"].as_str()),
        (None, "test")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_engine_leaves_nothing_behind() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2)).await;
    env.node
        .set_behaviour(&env.namespace, "a-g0-0", Behaviour::HoldTermination);
    env.delete::<FireboltEngine>("a").await;
    let ending = async || {
        let pod = env.get::<Pod>("a-g0-0").await;
        pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
            .then_some(())
    };
    env.eventually("the pod is terminating", ending).await;
    // A client that observes the engine as deleted may rely on its pods being deleted.
    env.the::<FireboltEngine>("a").await;
    env.node.set_behaviour(&env.namespace, "a-g0-0", Behaviour::Ready);
    env.wait_until_gone::<FireboltEngine>("a").await;
    let kinds = "statefulsets,pods,services,configmaps,persistentvolumeclaims,controllerrevisions,endpointslices";
    let selector = format!("{}=a", Label::Engine);
    let left = env.kubectl(&[
        "get",
        "statefulsets,pods,services,configmaps",
        "-l",
        &selector,
        "-o",
        "name",
    ]);
    assert_eq!(left.unwrap(), "");
    // Kubernetes itself clears away the rest.
    let nothing = async || {
        let left = env.kubectl(&["get", kinds, "-l", &selector, "-o", "name"]);
        left.is_ok_and(|left| left.is_empty()).then_some(())
    };
    env.eventually("nothing is left of the engine", nothing).await;
}
