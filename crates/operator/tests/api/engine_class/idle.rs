//! The writes for classes: two at first, none while nothing changes.

use std::time::Duration;

use firebolt_api::FireboltEngineClass;

use super::testenv::{ALONE, CLASS, bound};
use crate::audit::{AuditedRequest, tally};
use crate::fixtures::class;
use crate::testenv::TestEnv;

/// How long nothing may happen. Longer than any timer of the operator, request timeouts aside.
const A_WHILE: Duration = Duration::from_secs(20);

fn to_classes(writes: Vec<AuditedRequest>) -> Vec<AuditedRequest> {
    let of_classes = |write: &AuditedRequest| write.resource.starts_with("fireboltengineclasses");
    writes.into_iter().filter(of_classes).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_takes_two_writes_and_an_engine_of_it_one() {
    let env = TestEnv::start_with(&[ALONE]).await;
    let before = env.mark();
    env.create(&class(CLASS).0).await;
    env.wait_for_bound(CLASS, 0).await;
    env.deploy(&bound("a")).await;
    env.wait_for_bound(CLASS, 1).await;
    env.wait_until_no_class_reconcile_is_scheduled().await;
    let recorded = async || {
        let writes = to_classes(before.writes(&env.namespace));
        (writes.len() >= 3).then_some(writes)
    };
    let writes = env.eventually("the count is in the audit log", recorded).await;
    let counts = tally(&writes);
    assert_eq!(counts.get(&("fireboltengineclasses", CLASS)), Some(&1), "{writes:?}");
    assert_eq!(
        counts.get(&("fireboltengineclasses/status", CLASS)),
        Some(&2),
        "{writes:?}"
    );
    assert!(writes.iter().all(|write| write.code == 200), "{writes:?}");
}

/// While nothing changes the operator writes nothing and polls nothing, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn idle_objects_cause_no_requests_writes_or_plans() {
    let mut env = TestEnv::start_with(&[ALONE]).await;
    env.create(&class(CLASS).0).await;
    env.create(&class("refused").bad().0).await;
    env.create(&class("leaving").0).await;
    env.deploy(&bound("a")).await;
    env.deploy(&bound("b").class("leaving")).await;
    env.wait_for_bound(CLASS, 1).await;
    env.wait_for_bound("leaving", 1).await;
    env.delete::<FireboltEngineClass>("leaving").await;
    env.wait_for_class_event("leaving", "DeletionBlocked").await;
    env.wait_for_class_event("refused", "OperatorOwnedFieldSet").await;
    env.wait_until_no_class_reconcile_is_scheduled().await;
    // Changes of an engine cause no write to its class.
    let before = env.mark();
    env.force_reconcile("a", 0).await;
    env.wait_until_no_class_reconcile_is_scheduled().await;
    let writes = to_classes(before.writes(&env.namespace));
    assert!(writes.is_empty(), "{writes:?}");

    // Events of the engines may still be in flight.
    env.wait_for_event("b", "Stopped").await;
    let before = env.mark();
    tokio::time::sleep(A_WHILE).await;
    let requests = before.requests(&env.namespace);
    assert!(requests.is_empty(), "{requests:?}");
    env.wait_until_no_class_reconcile_is_scheduled().await;

    env.kill_operator();
    let before = env.mark();
    env.start_operator_with(&[ALONE]);
    for name in [CLASS, "refused", "leaving"] {
        env.wait_until_class_was_reconciled(name).await;
    }
    env.wait_until_no_class_reconcile_is_scheduled().await;
    let writes = to_classes(before.writes(&env.namespace));
    assert!(writes.is_empty(), "{writes:?}");
}
