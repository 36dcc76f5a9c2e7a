//! Which engines are counted as bound to a class.

use std::time::{Duration, Instant};

use firebolt_api::condition::EngineClassReason;
use firebolt_api::key::Finalizer;
use firebolt_api::{FireboltEngine, FireboltEngineClass};
use kube::ResourceExt;
use serde_json::json;

use super::testenv::{ALONE, CLASS, bound, ready, status};
use crate::fixtures::{class, engine};
use crate::support::Operator;
use crate::testenv::TestEnv;

/// The least time between two counts, as the operator has it.
const BETWEEN_COUNTS: Duration = Duration::from_millis(500);
const MANY: i32 = 60;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_class_has_a_finalizer_and_is_ready_with_no_engine_bound() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).0).await;
    let found = env.wait_for_bound(CLASS, 0).await;
    assert_eq!(found.finalizers(), [Finalizer::EngineClass.key()]);
    let ready = ready(&found).unwrap();
    let admissible: &str = EngineClassReason::Admissible.into();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("True", admissible));
    assert_eq!(ready.observed_generation, found.metadata.generation);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_follows_the_engines_that_reference_the_class() {
    let env = TestEnv::start().await;
    env.create(&bound("early").0).await;
    env.create(&engine("other").replicas(0).0).await;
    env.create(&class(CLASS).0).await;
    env.wait_for_bound(CLASS, 1).await;
    env.create(&bound("late").0).await;
    env.wait_for_bound(CLASS, 2).await;
    env.delete::<FireboltEngine>("early").await;
    env.wait_for_bound(CLASS, 1).await;
    env.edit_engine("late", json!({ "spec": { "engineClassRef": null } }))
        .await;
    env.wait_for_bound(CLASS, 0).await;
    env.edit_engine("late", json!({ "spec": { "engineClassRef": CLASS } }))
        .await;
    env.wait_for_bound(CLASS, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_changes_its_class_counts_where_it_is_now() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).0).await;
    env.create(&class("d").0).await;
    env.create(&bound("a").0).await;
    for (from, to) in [(CLASS, "d"), ("d", CLASS)] {
        env.wait_for_bound(from, 1).await;
        env.edit_engine("a", json!({ "spec": { "engineClassRef": to } })).await;
        env.wait_for_bound(to, 1).await;
        env.wait_for_bound(from, 0).await;
    }
}

/// An engine that is being deleted still has pods of the class.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminating_engine_counts_until_it_is_gone() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).0).await;
    let mut held = bound("a").0;
    held.finalizers_mut().push("example.com/hold".to_owned());
    env.create(&held).await;
    env.create(&bound("b").0).await;
    env.wait_for_bound(CLASS, 2).await;
    env.delete::<FireboltEngine>("a").await;
    // What the operator does about the second deletion comes after what it does about the first.
    env.delete::<FireboltEngine>("b").await;
    env.wait_until_gone::<FireboltEngine>("b").await;
    env.wait_for_bound(CLASS, 1).await;
    let release = json!({ "metadata": { "finalizers": null } });
    env.edit_engine("a", release).await;
    env.wait_for_bound(CLASS, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_of_the_same_name_in_another_namespace_is_another_class() {
    let (here, there) = (TestEnv::without_operator().await, TestEnv::without_operator().await);
    let both = format!("{},{}", here.namespace, there.namespace);
    let _operator = Operator::start(&here.cluster, here.kubeconfig(), &[ALONE, "--namespaces", &both]);
    for env in [&here, &there] {
        env.create(&class(CLASS).0).await;
    }
    here.create(&bound("a").0).await;
    let bound_here = here.wait_for_bound(CLASS, 1).await;
    there.wait_for_bound(CLASS, 0).await;
    there.delete::<FireboltEngineClass>(CLASS).await;
    there.wait_until_gone::<FireboltEngineClass>(CLASS).await;
    let after: FireboltEngineClass = here.the(CLASS).await;
    assert_eq!((after.uid(), status(&after)), (bound_here.uid(), status(&bound_here)));
}

/// The numbers in between need not be written.
#[tokio::test(flavor = "multi_thread")]
async fn the_count_of_many_new_engines_is_written_at_intervals() {
    let mut env = TestEnv::without_instance().await;
    env.start_operator_with(&[ALONE]);
    env.create(&class(CLASS).0).await;
    env.wait_for_bound(CLASS, 0).await;
    let (before, start) = (env.mark(), Instant::now());
    let engines: Vec<_> = (0..MANY).map(|number| bound(&format!("e{number}")).0).collect();
    futures::future::join_all(engines.iter().map(|engine| env.create(engine))).await;
    env.wait_for_bound(CLASS, MANY).await;
    let took = start.elapsed();
    let writes = before.writes(&env.namespace);
    let counts = writes
        .iter()
        .filter(|write| write.resource == "fireboltengineclasses/status");
    let counts = counts.count();
    // The first at once, and then no more than one in each of these times.
    let most = usize::try_from(took.as_millis() / BETWEEN_COUNTS.as_millis()).unwrap() + 2;
    println!("{MANY} engines within {took:?}: {counts} counts, and {most} at most");
    assert!((1..=most).contains(&counts), "{counts} counts within {took:?}");
}
