//! Engines that cannot start: each says why, none is in the way of another, and a corrected specification mends each.

use e2e::cluster::{Engine, Scene};
use firebolt_api::condition::Condition;
use firebolt_api::{EnginePhase, FireboltEngine, FireboltEngineSpec};
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Nobody serves images there.
const MISSING_IMAGE: &str = "127.0.0.1:1/firebolt-db/engine:missing";
const QUOTA: &str = "one-gigabyte";
const HEALTHY: &str = "healthy";

/// What is wrong with an engine of this name, and what it has to say then.
struct Fault {
    engine: &'static str,
    applied_to: fn(Engine) -> Engine,
    reason: &'static str,
    words: &'static [&'static str],
}

const FAULTS: [Fault; 5] = [
    Fault {
        engine: "without-image",
        applied_to: |engine| engine.image(MISSING_IMAGE),
        reason: "Rolling",
        words: &["cannot start container engine", MISSING_IMAGE],
    },
    Fault {
        engine: "crashing",
        applied_to: |engine| engine.env("STAND_IN_EXIT_CODE", "3"),
        reason: "Rolling",
        words: &["crashes again and again", "container engine ended with exit code 3"],
    },
    Fault {
        engine: "without-node",
        applied_to: |engine| engine.but(|spec| request(pod(spec), "cpu", "1000")),
        reason: "Rolling",
        words: &["cannot be scheduled", "Insufficient cpu"],
    },
    Fault {
        engine: "over-quota",
        applied_to: |engine| engine.but(|spec| request(pod(spec), "memory", "2Gi")),
        reason: "FailedCreate",
        words: &["exceeded quota: one-gigabyte", "requested: requests.memory=2Gi"],
    },
    Fault {
        engine: "without-account",
        applied_to: |engine| engine.but(|spec| pod(spec).service_account_name = Some("nobody".to_owned())),
        reason: "FailedCreate",
        words: &["serviceaccount \"nobody\" not found"],
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_that_cannot_start_say_why_disturb_nobody_and_recover() {
    let scene = Scene::with_instance().await;
    // Enough for all engines that are in order.
    scene.limit(QUOTA, "requests.memory", "1Gi").await;
    let healthy = scene.engine(HEALTHY);
    scene.deploy(&healthy).await;
    let traffic = scene.traffic(HEALTHY).await;
    for Fault { engine, applied_to, .. } in FAULTS {
        scene.apply(&applied_to(scene.engine(engine))).await;
    }
    for fault in FAULTS {
        let engine = says_all(&scene, fault.engine, fault.words).await;
        let (ready, status) = (ready(&engine), engine.status.as_ref());
        let ready = ready.expect("it has words");
        assert_eq!(
            (ready.status.as_str(), ready.reason.as_str()),
            ("False", fault.reason),
            "{ready:?}"
        );
        let progress = status.map(|status| (status.phase, status.active_generation));
        assert_eq!(progress, Some((Some(EnginePhase::Creating), -1)), "{status:?}");
        scene.does_not_answer(fault.engine).await;
        traffic.flows().await;
    }
    for Fault { engine, .. } in FAULTS {
        scene.apply(&scene.engine(engine)).await;
    }
    for Fault { engine, .. } in FAULTS {
        let generation = scene.comes_to_rest(engine).await;
        assert_eq!(scene.generations(engine).await, [generation], "of {engine}");
        scene.says(engine, "EngineReady").await;
        scene.answers(engine).await;
    }
    assert_eq!(scene.settles(HEALTHY, 0).await.phase, Some(EnginePhase::Stable));
    traffic.assert_flawless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_serves_on_while_its_update_cannot_start() {
    let scene = Scene::with_instance().await;
    let engine = scene.engine(HEALTHY);
    scene.deploy(&engine).await;
    let traffic = scene.traffic(HEALTHY).await;
    scene.apply(&engine.clone().image(MISSING_IMAGE)).await;
    let broken = says_all(&scene, HEALTHY, &["Generation 1 is being created", MISSING_IMAGE]).await;
    let status = broken.status.expect("it has words");
    assert_eq!(
        (status.phase, status.active_generation),
        (Some(EnginePhase::Creating), 0)
    );
    traffic.flows().await;
    assert_eq!(scene.generations(HEALTHY).await, [0, 1], "the old generation is kept");

    scene.apply(&engine).await;
    let generation = scene.comes_to_rest(HEALTHY).await;
    scene.says(HEALTHY, "EngineReady").await;
    traffic.reaches(&Scene::pod_names(HEALTHY, generation, 1)).await;
    traffic.assert_flawless().await;
}

/// Waits until the message of the condition `Ready` has all of these words.
async fn says_all(scene: &Scene, engine: &str, words: &[&str]) -> FireboltEngine {
    let has = |engine: &FireboltEngine| {
        let ready = ready(engine);
        ready.is_some_and(|ready| words.iter().all(|word| ready.message.contains(word)))
    };
    scene.becomes(engine, &format!("says {words:?}"), has).await
}

fn ready(engine: &FireboltEngine) -> Option<&Condition> {
    let mut conditions = engine.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.type_ == "Ready")
}

fn pod(spec: &mut FireboltEngineSpec) -> &mut PodSpec {
    spec.template.get_or_insert_default().spec.get_or_insert_default()
}

fn request(pod: &mut PodSpec, resource: &str, quantity: &str) {
    let resources = pod.containers[0].resources.get_or_insert_default();
    let requests = resources.requests.get_or_insert_default();
    requests.insert(resource.to_owned(), Quantity(quantity.to_owned()));
}
