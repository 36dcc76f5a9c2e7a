//! Another version of the operator, which renders other pods: here, one with another default image.

use std::collections::BTreeSet;

use firebolt_api::FireboltEngine;
use firebolt_api::condition::EngineCondition;
use firebolt_api::key::Label;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use serde_json::json;

use crate::fixtures::{Engine, engine};
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::TestEnv;

const BEFORE: &str = "--engine-image=registry.example/engine:before";
const AFTER: &str = "--engine-image=registry.example/engine:after";

/// An engine that leaves the image to the operator.
fn default_engine(name: &str) -> Engine {
    let mut engine = engine(name);
    engine.0.spec.template = None;
    engine
}

impl TestEnv {
    fn replace_operator(&mut self, flags: &[&str]) {
        self.kill_operator();
        self.start_operator_with(flags);
    }

    async fn wait_for_outdated(&self, engine: &str, text: &str) {
        let says = |engine: &FireboltEngine| outdated(engine).is_some_and(|message| message.contains(text));
        self.wait_for(engine, "is outdated", says).await;
    }

    async fn wait_for_current(&self, engine: &str) {
        self.wait_for(engine, "is not outdated", |engine| outdated(engine).is_none())
            .await;
    }

    async fn image(&self, stateful_set: &str) -> String {
        let set = self.the::<StatefulSet>(stateful_set).await;
        let pod = set.spec.unwrap().template.spec.unwrap();
        pod.containers[0].image.clone().unwrap()
    }
}

fn outdated(engine: &FireboltEngine) -> Option<String> {
    let conditions = engine.status.iter().flat_map(|status| &status.conditions);
    let mut outdated =
        conditions.filter(|condition| condition.type_ == <&str>::from(EngineCondition::RenderingOutdated));
    outdated.next().map(|condition| condition.message.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_and_a_rollback_start_no_generation_and_the_next_change_adopts_the_rendering() {
    let mut env = TestEnv::start_with(&[BEFORE]).await;
    env.deploy(&default_engine("a")).await;
    let uid = env.the::<StatefulSet>("a-g0").await.uid();

    env.replace_operator(&[AFTER]);
    env.wait_for_outdated("a", "container `engine`").await;
    env.replace_operator(&[BEFORE]);
    env.wait_for_current("a").await;
    env.replace_operator(&[AFTER]);
    env.wait_for_outdated("a", "container `engine`").await;
    assert_eq!(env.generations("a").await, [0]);
    assert_eq!(env.the::<StatefulSet>("a-g0").await.uid(), uid);
    assert_eq!(env.image("a-g0").await, "registry.example/engine:before");

    env.edit_engine("a", json!({ "spec": { "customEngineConfig": { "cache": 1 } } }))
        .await;
    env.wait_for_generation("a", 1).await;
    assert_eq!(env.image("a-g1").await, "registry.example/engine:after");
    env.wait_for_current("a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_adopt_a_rendering_one_after_the_other_and_none_does_while_one_is_not_ready() {
    const ENGINES: [&str; 3] = ["a", "b", "c"];
    let mut env = TestEnv::start_with(&[BEFORE]).await;
    for name in ENGINES {
        env.deploy(&default_engine(name)).await;
        env.node
            .set_behaviour(&env.namespace, &format!("{name}-g1"), Behaviour::Unready);
    }
    env.replace_operator(&[AFTER, "--upgrade-policy=Rolling"]);
    let begun = async || {
        let sets = env.list::<StatefulSet>().await;
        let newer = sets.iter().filter(|set| set.labels()[Label::Generation.key()] == "1");
        newer.map(|set| set.labels()[Label::Engine.key()].clone()).next()
    };
    let first = env.eventually("an engine begins", begun).await;
    for name in ENGINES.into_iter().filter(|name| *name != first) {
        env.wait_for_outdated(name, "when the ones before it are ready").await;
        assert_eq!(env.generations(name).await, [0]);
    }
    for name in ENGINES {
        env.node
            .set_behaviour(&env.namespace, &format!("{name}-g1"), Behaviour::Ready);
    }
    for name in ENGINES {
        env.wait_for_generation(name, 1).await;
        assert_eq!(env.image(&format!("{name}-g1")).await, "registry.example/engine:after");
    }
    let generations: BTreeSet<i64> = [env.generations("a").await, env.generations("b").await]
        .concat()
        .into_iter()
        .collect();
    assert!(generations.is_subset(&BTreeSet::from([0, 1])), "{generations:?}");
}
