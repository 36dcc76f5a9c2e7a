//! Which engines a class counts.

use std::time::{Duration, Instant};

use firebolt_api::condition::EngineClassReason;
use firebolt_api::key::Finalizer;
use firebolt_api::{FireboltEngine, FireboltEngineClass};
use kube::ResourceExt;
use serde_json::json;

use super::stage::{ALONE, CLASS, bound, ready, status};
use crate::fixture::{class, engine};
use crate::scene::Scene;
use crate::support::Operator;

/// The least time between two counts, as the operator has it.
const BETWEEN_COUNTS: Duration = Duration::from_millis(500);
const MANY: i32 = 60;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_class_is_held_and_ready_with_nobody_bound() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).0).await;
    let found = scene.wait_for_bound(CLASS, 0).await;
    assert_eq!(found.finalizers(), [Finalizer::EngineClass.key()]);
    let ready = ready(&found).unwrap();
    let admissible: &str = EngineClassReason::Admissible.into();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("True", admissible));
    assert_eq!(ready.observed_generation, found.metadata.generation);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_rises_and_falls_with_the_engines() {
    let scene = Scene::begin().await;
    scene.create(&bound("early").0).await;
    scene.create(&engine("other").replicas(0).0).await;
    scene.create(&class(CLASS).0).await;
    scene.wait_for_bound(CLASS, 1).await;
    scene.create(&bound("late").0).await;
    scene.wait_for_bound(CLASS, 2).await;
    scene.delete::<FireboltEngine>("early").await;
    scene.wait_for_bound(CLASS, 1).await;
    scene
        .edit_engine("late", json!({ "spec": { "engineClassRef": null } }))
        .await;
    scene.wait_for_bound(CLASS, 0).await;
    scene
        .edit_engine("late", json!({ "spec": { "engineClassRef": CLASS } }))
        .await;
    scene.wait_for_bound(CLASS, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_changes_its_class_counts_where_it_is_now() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).0).await;
    scene.create(&class("d").0).await;
    scene.create(&bound("a").0).await;
    for (from, to) in [(CLASS, "d"), ("d", CLASS)] {
        scene.wait_for_bound(from, 1).await;
        scene
            .edit_engine("a", json!({ "spec": { "engineClassRef": to } }))
            .await;
        scene.wait_for_bound(to, 1).await;
        scene.wait_for_bound(from, 0).await;
    }
}

/// An engine that is being deleted still has pods of the class.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_counts_to_its_very_end() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).0).await;
    let mut held = bound("a").0;
    held.finalizers_mut().push("example.com/hold".to_owned());
    scene.create(&held).await;
    scene.create(&bound("b").0).await;
    scene.wait_for_bound(CLASS, 2).await;
    scene.delete::<FireboltEngine>("a").await;
    // What the operator does about the second deletion comes after what it does about the first.
    scene.delete::<FireboltEngine>("b").await;
    scene.wait_until_gone::<FireboltEngine>("b").await;
    scene.wait_for_bound(CLASS, 1).await;
    let release = json!({ "metadata": { "finalizers": null } });
    scene.edit_engine("a", release).await;
    scene.wait_for_bound(CLASS, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_of_the_same_name_in_another_namespace_is_another_class() {
    let (here, there) = (Scene::without_operator().await, Scene::without_operator().await);
    let both = format!("{},{}", here.namespace, there.namespace);
    let _operator = Operator::start(&here.cluster, here.kubeconfig(), &[ALONE, "--namespaces", &both]);
    for scene in [&here, &there] {
        scene.create(&class(CLASS).0).await;
    }
    here.create(&bound("a").0).await;
    let bound_here = here.wait_for_bound(CLASS, 1).await;
    there.wait_for_bound(CLASS, 0).await;
    there.delete::<FireboltEngineClass>(CLASS).await;
    there.wait_until_gone::<FireboltEngineClass>(CLASS).await;
    let after: FireboltEngineClass = here.the(CLASS).await;
    assert_eq!((after.uid(), status(&after)), (bound_here.uid(), status(&bound_here)));
}

/// Nobody needs to know each number in between.
#[tokio::test(flavor = "multi_thread")]
async fn many_engines_at_once_are_counted_now_and_then() {
    let mut scene = Scene::empty().await;
    scene.start_operator_with(&[ALONE]);
    scene.create(&class(CLASS).0).await;
    scene.wait_for_bound(CLASS, 0).await;
    let (before, start) = (scene.mark(), Instant::now());
    let engines: Vec<_> = (0..MANY).map(|number| bound(&format!("e{number}")).0).collect();
    futures::future::join_all(engines.iter().map(|engine| scene.create(engine))).await;
    scene.wait_for_bound(CLASS, MANY).await;
    let took = start.elapsed();
    let writes = before.writes(&scene.namespace);
    let counts = writes
        .iter()
        .filter(|write| write.resource == "fireboltengineclasses/status");
    let counts = counts.count();
    // The first at once, and then no more than one in each of these times.
    let most = usize::try_from(took.as_millis() / BETWEEN_COUNTS.as_millis()).unwrap() + 2;
    println!("{MANY} engines within {took:?}: {counts} counts, and {most} at most");
    assert!((1..=most).contains(&counts), "{counts} counts within {took:?}");
}
