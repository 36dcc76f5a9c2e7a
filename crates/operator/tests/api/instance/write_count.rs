//! The number of writes that an instance takes: exact while it is provisioned, none while nothing changes.

use std::time::Duration;

use firebolt_api::FireboltInstance;

use super::children::CHILDREN;
use super::fixtures::{MAIN, credentials, external, instance, minimal};
use super::testenv::InstanceEnv;
use crate::audit::AuditedRequest;
use serde_json::json;

/// The writes that provision an instance: its finalizer, its ID, and its children.
const WRITES: usize = 2 + CHILDREN.len();
/// What the status reports of one workload: it exists, a pod of it cannot be scheduled yet, it can, and it is ready.
const WORKLOAD_CHANGES: usize = 4;
/// The maximum number of status writes: the first status, and one for each change of what it reports. How many changes
/// fall into one reconcile depends on how fast pods start. Apart from its three workloads, an instance reports that its
/// credentials are missing and then found, that it creates the gateway as soon as the metadata service is ready, and
/// that it has observed its spec.
const REPORTS: usize = 1 + 3 * WORKLOAD_CHANGES + 2 + 1 + 1;
/// How long nothing may happen. Longer than any timer of the operator, request timeouts aside.
const A_WHILE: Duration = Duration::from_secs(20);

impl InstanceEnv {
    /// Waits until no reconcile of an object of this kind is queued, running or scheduled.
    pub(super) async fn wait_until_no_reconcile_is_scheduled(&self) {
        let none = async || {
            self.operator()
                .has_no_reconcile_scheduled("fireboltinstance")
                .then_some(())
        };
        self.eventually("no reconcile of an instance is scheduled", none).await;
    }

    /// Waits until an event was emitted about the instance.
    pub(super) async fn wait_for_event(&self, instance: &str, reason: &str) {
        let reported = async || {
            let events = self.events_about::<FireboltInstance>(instance).await;
            events.iter().any(|event| event.reason == reason).then_some(())
        };
        self.eventually(&format!("{reason} is reported of {instance}"), reported)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn provisioning_takes_a_fixed_number_of_writes() {
    let env = InstanceEnv::start().await;
    let before = env.mark();
    env.deploy(&minimal(MAIN)).await;
    env.wait_for_event(MAIN, "Ready").await;
    let recorded = async || {
        let writes = before.writes_but_events(&env.namespace);
        let is_last = |write: &AuditedRequest| write.resource == "poddisruptionbudgets";
        writes.iter().any(is_last).then_some(writes)
    };
    let writes = env.eventually("the last object is in the audit log", recorded).await;
    let listed: Vec<String> = writes.iter().map(AuditedRequest::to_string).collect();
    let (reports, writes): (Vec<_>, Vec<_>) = writes
        .into_iter()
        .partition(|write| write.resource.ends_with("/status"));
    assert_eq!(writes.len(), WRITES, "{listed:#?}");
    assert!(reports.len() <= REPORTS, "{listed:#?}");
    assert!(
        writes.iter().chain(&reports).all(|write| write.code < 300),
        "{listed:#?}"
    );
}

/// While nothing changes the operator writes nothing and polls nothing, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn idle_objects_cause_no_requests_writes_or_plans() {
    let mut env = InstanceEnv::start().await;
    env.create(&credentials("open sesame")).await;
    env.deploy(&minimal(MAIN)).await;
    env.deploy(&instance("other", &json!({ "postgres": external() }), &json!({})))
        .await;
    env.wait_for_event(MAIN, "Ready").await;
    env.wait_for_event("other", "Ready").await;
    env.wait_until_no_reconcile_is_scheduled().await;
    let before = env.mark();
    tokio::time::sleep(A_WHILE).await;
    let requests = before.requests(&env.namespace);
    assert!(requests.is_empty(), "{requests:?}");
    env.wait_until_no_reconcile_is_scheduled().await;

    env.kill_operator();
    let before = env.mark();
    env.start_operator();
    let reconciled = async || {
        let metric = |name: &str| {
            let of = format!(r#"{{namespace="{}",name="{name}"}}"#, env.namespace);
            env.operator()
                .metric(&format!("firebolt_instance_last_reconciled_timestamp{of}"))
        };
        metric(MAIN).and(metric("other"))
    };
    env.eventually("the next operator has reconciled both", reconciled)
        .await;
    env.wait_until_no_reconcile_is_scheduled().await;
    let writes = before.writes(&env.namespace);
    assert!(writes.is_empty(), "{writes:?}");
}
