//! Several replicas: each serves the webhooks, whichever one leads.

use serde_json::{Value, json};

use super::SERVING;
use crate::admission::client::eventually;
use crate::admission::manifests::{ENGINE, engine};
use crate::admission::testenv::{AdmissionEnv, Replica};
use crate::admission::traffic::Traffic;
use crate::support::tls::{connect, trusted};
use crate::support::{CONTROL_PLANES, OPERATOR_NAMESPACE, unique};

/// Requests per second while leaders change.
const RATE: u32 = 50;
const REFUSED: (&str, [&str; 2]) = (
    "firebolt_operator_webhook_responses_total",
    [r#"kind="FireboltEngine""#, r#"outcome="denied""#],
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

impl AdmissionEnv {
    /// Makes the API server call the webhooks at this address from now on.
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
async fn a_standby_serves_the_webhooks_with_and_without_a_leader() {
    let _quiet = CONTROL_PLANES.read().await;
    let mut env = AdmissionEnv::bare().await;
    let lease = unique("admission");
    // Long enough that a busy machine is in time with each renewal.
    let flags = ["--leader-elect=true", "--lease-name", &lease, "--lease-duration=10s"];
    env.start_replica(&flags);
    eventually("the first leads", async || env.operator().leads().then_some(())).await;
    env.start_replica(&flags);
    let (leader, standby) = (env.replicas[0].address.clone(), env.replicas[1].address.clone());
    env.register(&leader).await;
    env.wait_for_questions_to(&env.replicas[0]).await;
    env.replicas[1].operator.wait_for_log(SERVING);
    let bundle = env.bundle().await;
    assert_eq!(
        env.replicas[0].certificate(&bundle).await,
        env.replicas[1].certificate(&bundle).await
    );

    env.has(&[engine(ENGINE)]).await;
    env.ask_at(&standby).await;
    env.wait_for_questions_to(&env.replicas[1]).await;
    assert!(!env.replicas[1].operator.leads(), "it answers without leading");

    let traffic = Traffic::start(&env, RATE).await;
    traffic.wait_for(RATE).await;
    drop(env.replicas.remove(0));
    eventually("the other leads", async || env.operator().leads().then_some(())).await;
    traffic.wait_for(RATE).await;
    traffic.end().await;
    assert_eq!(env.bundle().await, bundle, "a new leader needs no new certificate");
    let _best_effort = env
        .cluster
        .kubectl(&["delete", "lease", "--namespace", OPERATOR_NAMESPACE, &lease]);
}
