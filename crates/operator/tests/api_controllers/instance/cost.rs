//! What an instance costs: exactly so many writes to bring it up, and nothing at rest.

use std::time::Duration;

use firebolt_api::FireboltInstance;

use super::fixture::{MAIN, credentials, external, instance, minimal};
use super::inventory::CHILDREN;
use super::stage::Stage;
use crate::audit::Write;
use serde_json::json;

/// What is written to bring an instance up: its finalizer, its identity, and everything that is made for it.
const WRITES: usize = 2 + CHILDREN.len();
/// The most reports on the way. How many there are depends on the pace at which pods come.
const REPORTS: usize = 14;
/// How long nothing may happen. Longer than the operator waits for anything that it does by itself, deadlines of
/// requests aside.
const A_WHILE: Duration = Duration::from_secs(20);

impl Stage {
    /// Waits until no instance waits for a look, neither now nor at a set time.
    pub async fn wait_until_nothing_is_planned(&self) {
        let looks = |name: &str| self.operator().metric(&format!("firebolt_instance_{name}_looks"));
        let none = async || (looks("waiting") == Some(0.0) && looks("scheduled") == Some(0.0)).then_some(());
        self.eventually("no look at an instance is planned", none).await;
    }

    /// Waits until people were told so about the instance.
    pub async fn wait_for_told(&self, instance: &str, reason: &str) {
        let told = async || {
            let events = self.events_about::<FireboltInstance>(instance).await;
            events.iter().any(|event| event.reason == reason).then_some(())
        };
        self.eventually(&format!("{reason} is told of {instance}"), told).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_takes_exactly_so_many_writes() {
    let stage = Stage::begin().await;
    let before = stage.mark();
    stage.deploy(&minimal(MAIN)).await;
    stage.wait_for_told(MAIN, "Ready").await;
    let recorded = async || {
        let writes = before.writes_but_events(&stage.namespace);
        let is_last = |write: &Write| write.resource == "poddisruptionbudgets";
        writes.iter().any(is_last).then_some(writes)
    };
    let writes = stage.eventually("the last object is in the audit log", recorded).await;
    let listed: Vec<String> = writes.iter().map(Write::to_string).collect();
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

/// Design rule: at rest the operator writes nothing and polls nothing; nor does one that is started anew.
#[tokio::test(flavor = "multi_thread")]
async fn at_rest_nothing_is_asked_written_or_planned() {
    let mut stage = Stage::begin().await;
    stage.create(&credentials("open sesame")).await;
    stage.deploy(&minimal(MAIN)).await;
    stage
        .deploy(&instance("other", &json!({ "postgres": external() }), &json!({})))
        .await;
    stage.wait_for_told(MAIN, "Ready").await;
    stage.wait_for_told("other", "Ready").await;
    stage.wait_until_nothing_is_planned().await;
    let before = stage.mark();
    tokio::time::sleep(A_WHILE).await;
    let requests = before.requests(&stage.namespace);
    assert!(requests.is_empty(), "{requests:?}");
    stage.wait_until_nothing_is_planned().await;

    stage.kill_operator();
    let before = stage.mark();
    stage.start();
    let looked = async || {
        let metric = |name: &str| {
            let of = format!(r#"{{namespace="{}",name="{name}"}}"#, stage.namespace);
            stage
                .operator()
                .metric(&format!("firebolt_instance_last_reconciled_timestamp{of}"))
        };
        metric(MAIN).and(metric("other"))
    };
    stage.eventually("the next operator has looked at both", looked).await;
    stage.wait_until_nothing_is_planned().await;
    let writes = before.writes(&stage.namespace);
    assert!(writes.is_empty(), "{writes:?}");
}
