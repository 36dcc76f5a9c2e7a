//! Clients that query an engine without a pause, and the check that none of their queries was lost or run twice.

use std::collections::BTreeSet;
use std::time::Duration;

use stand_ins::load::{Load, Settings};

use super::client::TURNED_AWAY;
use super::testenv::TestEnv;

/// The number of answers to wait for before, between and after the steps of a test under load.
const SOME: usize = 20;
/// About a hundred queries a second: at any time some are in the middle of their execution, and several scenes can be
/// played at once on a small machine.
const SETTINGS: Settings = Settings {
    clients: 4,
    pause: Duration::from_millis(40),
    duration: Duration::from_millis(10),
};

/// Running clients of one engine.
pub struct Traffic<'env> {
    env: &'env TestEnv,
    engine: String,
    load: Load,
}

impl<'env> Traffic<'env> {
    pub(super) async fn start(env: &'env TestEnv, engine: &str) -> Self {
        let gateway = format!("http://{}", env.gateway().await);
        let gateway = gateway.parse().expect("the URL of the gateway");
        let traffic = Self {
            env,
            engine: engine.to_owned(),
            load: Load::start(gateway, engine, SETTINGS),
        };
        traffic.flows().await;
        traffic
    }

    /// Waits until some more queries were answered.
    pub async fn flows(&self) {
        let goal = self.load.counts().answered + SOME;
        let sentence = format!("the clients of engine {} are answered", self.engine);
        let answered = async || (self.load.counts().answered >= goal).then_some(());
        self.env.eventually(&sentence, answered).await;
    }

    /// Waits until each of these pods has executed a query.
    pub async fn reaches(&self, pods: &[String]) {
        let sentence = format!("queries for engine {} are executed by {pods:?}", self.engine);
        let executed = async || {
            let busy: BTreeSet<String> = self.env.ledger().executions().into_values().flatten().collect();
            pods.iter().all(|pod| busy.contains(pod)).then_some(())
        };
        self.env.eventually(&sentence, executed).await;
    }

    /// Ends the clients and asserts that every query was answered, and executed exactly once.
    pub async fn assert_flawless(self) {
        self.flows().await;
        let report = self.load.stop().await;
        if let Err(faults) = report.check(self.env.ledger()) {
            panic!("the clients of engine {} were not served well: {faults}", self.engine);
        }
    }

    /// Ends the clients and asserts that no query was lost or run twice, and that each query that failed was refused by
    /// the gateway and not executed.
    pub async fn assert_only_refusals(self) {
        self.flows().await;
        let report = self.load.stop().await;
        let (faults, executions) = (report.faults(self.env.ledger()), self.env.ledger().executions());
        assert_eq!((faults.ran_twice.len(), faults.lost.len()), (0, 0), "{faults}");
        for failure in &faults.failures {
            let says = |code: &&str| failure.reason.contains(&format!("\"code\":\"{code}\""));
            let refused = failure.reason.starts_with("status 503") && TURNED_AWAY.iter().any(says);
            assert!(
                refused && !executions.contains_key(&failure.id),
                "{failure:?}: {faults}"
            );
        }
    }
}
