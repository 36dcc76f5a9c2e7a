//! What classes cost: two writes to begin with, and nothing at rest.

use std::time::Duration;

use firebolt_api::FireboltEngineClass;

use super::stage::{ALONE, CLASS, bound};
use crate::audit::{Write, tally};
use crate::fixture::class;
use crate::scene::Scene;

/// How long nothing may happen. Longer than the operator waits for anything that it does by itself while all engines are
/// watched, deadlines of requests aside.
const A_WHILE: Duration = Duration::from_secs(20);

fn to_classes(writes: Vec<Write>) -> Vec<Write> {
    let of_classes = |write: &Write| write.resource.starts_with("fireboltengineclasses");
    writes.into_iter().filter(of_classes).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_takes_two_writes_and_an_engine_of_it_one() {
    let scene = Scene::begin_with(&[ALONE]).await;
    let before = scene.mark();
    scene.create(&class(CLASS).0).await;
    scene.wait_for_bound(CLASS, 0).await;
    scene.deploy(&bound("a")).await;
    scene.wait_for_bound(CLASS, 1).await;
    scene.wait_until_no_class_is_planned().await;
    let recorded = async || {
        let writes = to_classes(before.writes(&scene.namespace));
        (writes.len() >= 3).then_some(writes)
    };
    let writes = scene.eventually("the count is in the audit log", recorded).await;
    let counts = tally(&writes);
    assert_eq!(counts.get(&("fireboltengineclasses", CLASS)), Some(&1), "{writes:?}");
    assert_eq!(
        counts.get(&("fireboltengineclasses/status", CLASS)),
        Some(&2),
        "{writes:?}"
    );
    assert!(writes.iter().all(|write| write.code == 200), "{writes:?}");
}

/// Design rule: at rest the operator writes nothing and polls nothing; nor does one that is started anew.
#[tokio::test(flavor = "multi_thread")]
async fn at_rest_nothing_is_asked_written_or_planned() {
    let mut scene = Scene::begin_with(&[ALONE]).await;
    scene.create(&class(CLASS).0).await;
    scene.create(&class("refused").bad().0).await;
    scene.create(&class("leaving").0).await;
    scene.deploy(&bound("a")).await;
    scene.deploy(&bound("b").class("leaving")).await;
    scene.wait_for_bound(CLASS, 1).await;
    scene.wait_for_bound("leaving", 1).await;
    scene.delete::<FireboltEngineClass>("leaving").await;
    scene.wait_for_told_of_class("leaving", "DeletionBlocked").await;
    scene.wait_for_told_of_class("refused", "OperatorOwnedFieldSet").await;
    scene.wait_until_no_class_is_planned().await;
    // What an engine does is not the business of its class.
    let before = scene.mark();
    scene.force_a_pass("a", 0).await;
    scene.wait_until_no_class_is_planned().await;
    let writes = to_classes(before.writes(&scene.namespace));
    assert!(writes.is_empty(), "{writes:?}");

    // Events of the engines may still be on their way.
    scene.wait_for_event("b", "Stopped").await;
    let before = scene.mark();
    tokio::time::sleep(A_WHILE).await;
    let requests = before.requests(&scene.namespace);
    assert!(requests.is_empty(), "{requests:?}");
    scene.wait_until_no_class_is_planned().await;

    scene.kill_operator();
    let before = scene.mark();
    scene.start_operator_with(&[ALONE]);
    for name in [CLASS, "refused", "leaving"] {
        scene.wait_until_class_was_looked_at(name).await;
    }
    scene.wait_until_no_class_is_planned().await;
    let writes = to_classes(before.writes(&scene.namespace));
    assert!(writes.is_empty(), "{writes:?}");
}
