//! Several replicas: all answer, whichever leads.

use serde_json::{Value, json};

use super::SERVING;
use crate::fixture::{ENGINE, engine};
use crate::objects::eventually;
use crate::stage::{Replica, Stage};
use crate::support::tls::{connect, trusted};
use crate::support::{OPERATOR_NAMESPACE, unique};
use crate::traffic::Traffic;

/// Requests per second while leaders change.
const RATE: u32 = 50;
const REFUSED: (&str, [&str; 2]) = (
    "firebolt_operator_webhook_request_duration_seconds_count",
    [r#"kind="FireboltEngine""#, r#"outcome="refused""#],
);

impl Replica {
    fn refusals(&self) -> f64 {
        self.operator.metric_over(REFUSED.0, &REFUSED.1)
    }

    async fn certificate(&self, bundle: &[u8]) -> Vec<u8> {
        let address = self.address.parse().unwrap();
        connect(&trusted(bundle), address).await.unwrap()
    }
}

impl Stage {
    /// Has the API server ask at this address from now on.
    async fn ask_at(&self, address: &str) {
        let moved = |url: &Value| {
            let path = url.as_str().unwrap().rsplit('/').next().unwrap();
            json!(format!("https://{address}/{path}"))
        };
        self.configure_clients("url", moved).await;
    }

    /// Waits until it is this replica that the API server asks.
    async fn wait_for_questions_to(&self, replica: &Replica) {
        let before = replica.refusals();
        let asked = async || {
            self.wait_for_admission().await;
            (replica.refusals() > before).then_some(())
        };
        eventually("the replica is asked", asked).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stands_by_answers_as_the_leader_does_and_without_it() {
    let mut stage = Stage::bare().await;
    let lease = unique("admission");
    let flags = ["--leader-elect=true", "--lease-name", &lease, "--lease-duration=5s"];
    stage.start(&flags);
    eventually("the first leads", async || stage.operator().leads().then_some(())).await;
    stage.start(&flags);
    let (leader, standby) = (stage.replicas[0].address.clone(), stage.replicas[1].address.clone());
    stage.register(&leader).await;
    stage.wait_for_questions_to(&stage.replicas[0]).await;
    stage.replicas[1].operator.wait_for_log(SERVING);
    let bundle = stage.bundle().await;
    assert_eq!(
        stage.replicas[0].certificate(&bundle).await,
        stage.replicas[1].certificate(&bundle).await
    );

    stage.has(&[engine(ENGINE)]).await;
    stage.ask_at(&standby).await;
    stage.wait_for_questions_to(&stage.replicas[1]).await;
    assert!(!stage.replicas[1].operator.leads(), "it answers without leading");

    let traffic = Traffic::start(&stage, RATE).await;
    traffic.wait_for(RATE).await;
    drop(stage.replicas.remove(0));
    eventually("the other leads", async || stage.operator().leads().then_some(())).await;
    traffic.wait_for(RATE).await;
    traffic.end().await;
    assert_eq!(stage.bundle().await, bundle, "a new leader needs no new certificate");
    let _best_effort = stage
        .cluster
        .kubectl(&["delete", "lease", "--namespace", OPERATOR_NAMESPACE, &lease]);
}
