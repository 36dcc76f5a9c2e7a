//! Clients that query an engine without a pause, and the check that nothing happened to any of their queries.

use std::collections::BTreeSet;
use std::time::Duration;

use stand_ins::load::{Load, Settings};

use super::scene::Scene;

/// Answers that are awaited before, between and after what happens under load.
const SOME: usize = 20;
/// About a hundred queries a second: at any time some are in the middle of their execution, and several scenes can be
/// played at once on a small machine.
const SETTINGS: Settings = Settings {
    clients: 4,
    pause: Duration::from_millis(40),
    duration: Duration::from_millis(10),
};

/// Running clients of one engine.
pub struct Traffic<'scene> {
    scene: &'scene Scene,
    engine: String,
    load: Load,
}

impl<'scene> Traffic<'scene> {
    pub(super) async fn start(scene: &'scene Scene, engine: &str) -> Self {
        let gateway = format!("http://{}", scene.gateway().await);
        let gateway = gateway.parse().expect("the URL of the gateway");
        let traffic = Self {
            scene,
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
        self.scene.eventually(&sentence, answered).await;
    }

    /// Waits until each of these pods has executed a query.
    pub async fn reaches(&self, pods: &[String]) {
        let sentence = format!("queries for engine {} are executed by {pods:?}", self.engine);
        let executed = async || {
            let busy: BTreeSet<String> = self.scene.ledger().executions().into_values().flatten().collect();
            pods.iter().all(|pod| busy.contains(pod)).then_some(())
        };
        self.scene.eventually(&sentence, executed).await;
    }

    /// Ends the clients and asserts that every query was answered, and executed exactly once.
    pub async fn assert_flawless(self) {
        self.flows().await;
        let report = self.load.stop().await;
        if let Err(faults) = report.check(self.scene.ledger()) {
            panic!("the clients of engine {} were not served well: {faults}", self.engine);
        }
    }
}
