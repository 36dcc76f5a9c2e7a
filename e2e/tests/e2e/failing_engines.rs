//! Engines that cannot start: each reports the cause, none affects another, and each recovers with a corrected spec.

use e2e::cluster::{Engine, Instance, TestEnv, ready};
use firebolt_api::{EnginePhase, FireboltEngine, FireboltEngineSpec};
use futures::future::join_all;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// A registry that does not exist.
const MISSING_IMAGE: &str = "127.0.0.1:1/firebolt-db/engine:missing";
const QUOTA: &str = "one-gigabyte";
/// How long queries are held for an engine that may still start, in seconds.
const HOLD: u64 = 10;
/// An engine that starts.
const HEALTHY: &str = "healthy";
/// An engine that starts, and fails after an update.
const UPDATED: &str = "updated";

/// What is wrong with an engine, and what its status has to report.
struct Fault {
    engine: &'static str,
    applied_to: fn(Engine) -> Engine,
    reason: &'static str,
    words: &'static [&'static str],
}

const FAULTS: [Fault; 6] = [
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
        words: &["is in a crash loop", "container engine exited with code 3"],
    },
    Fault {
        engine: "out-of-memory",
        applied_to: |engine| {
            let limited = engine.but(|spec| limit(pod(spec), "memory", "64Mi"));
            limited.env("STAND_IN_MEMORY", "256")
        },
        reason: "Rolling",
        words: &[
            "ran out of memory: container engine was killed (OOMKilled) at its limit of 64Mi",
            "raise resources.limits.memory of container engine in spec.template",
        ],
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
        applied_to: |engine| engine.but(|spec| pod(spec).service_account_name = Some("absent".to_owned())),
        reason: "FailedCreate",
        words: &["serviceaccount \"absent\" not found"],
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_that_cannot_start_report_the_cause_affect_no_other_and_recover() {
    let env = TestEnv::with(&Instance::new().wake_timeout(HOLD)).await;
    // Enough for all engines that start.
    env.limit(QUOTA, "requests.memory", "1Gi").await;
    let (healthy, updated) = (env.engine(HEALTHY), env.engine(UPDATED));
    for engine in [&healthy, &updated] {
        env.deploy(engine).await;
    }
    let beside = env.traffic(HEALTHY).await;
    let during_update = env.traffic(UPDATED).await;
    for Fault { engine, applied_to, .. } in FAULTS {
        env.apply(&applied_to(env.engine(engine))).await;
    }
    env.apply(&updated.clone().image(MISSING_IMAGE)).await;
    for fault in FAULTS {
        cannot_start(&env, &fault).await;
        beside.flows().await;
    }
    // Concurrently, because each of them waits.
    join_all(FAULTS.map(|fault| env.does_not_answer(fault.engine, "engine_start_timeout"))).await;
    beside.flows().await;
    // Not the image: the cause of the rollout names it as well.
    let words = ["Generation 1 (", "is being created", "cannot start container engine"];
    let status = ready_message_contains(&env, UPDATED, &words)
        .await
        .status
        .expect("it has words");
    assert_eq!(
        (status.phase, status.active_generation),
        (Some(EnginePhase::Creating), 0)
    );
    assert_eq!(env.generations(UPDATED).await, [0, 1], "the old generation is kept");
    during_update.flows().await;

    env.apply(&updated).await;
    for Fault { engine, .. } in FAULTS {
        env.apply(&env.engine(engine)).await;
    }
    let generation = recovers(&env, UPDATED).await;
    during_update.reaches(&TestEnv::pod_names(UPDATED, generation, 1)).await;
    during_update.assert_flawless().await;
    for Fault { engine, .. } in FAULTS {
        recovers(&env, engine).await;
    }
    env.settles(HEALTHY, 0).await;
    beside.assert_flawless().await;
}

/// Waits until the engine reports what is wrong with it, and asserts that nothing else happens.
async fn cannot_start(env: &TestEnv, fault: &Fault) {
    let engine = ready_message_contains(env, fault.engine, fault.words).await;
    let ready = ready(&engine).expect("it has words");
    assert_eq!(
        (&ready.status[..], &ready.reason[..]),
        ("False", fault.reason),
        "{ready:?}"
    );
    let status = engine.status.as_ref().expect("it has words");
    assert_eq!(
        (status.phase, status.active_generation),
        (Some(EnginePhase::Creating), -1)
    );
}

/// Waits until the engine is ready, and returns its generation.
async fn recovers(env: &TestEnv, engine: &str) -> i64 {
    let generation = env.comes_to_rest(engine).await;
    assert_eq!(env.generations(engine).await, [generation], "of {engine}");
    env.has_reason(engine, "EngineReady").await;
    env.answers(engine).await;
    generation
}

/// Waits until the message of the condition `Ready` contains all of these texts.
async fn ready_message_contains(env: &TestEnv, engine: &str, words: &[&str]) -> FireboltEngine {
    let has = |engine: &FireboltEngine| {
        let ready = ready(engine);
        ready.is_some_and(|ready| words.iter().all(|word| ready.message.contains(word)))
    };
    env.becomes(engine, &format!("says {words:?}"), has).await
}

fn pod(spec: &mut FireboltEngineSpec) -> &mut PodSpec {
    spec.template.get_or_insert_default().spec.get_or_insert_default()
}

fn request(pod: &mut PodSpec, resource: &str, quantity: &str) {
    let resources = pod.containers[0].resources.get_or_insert_default();
    let requests = resources.requests.get_or_insert_default();
    requests.insert(resource.to_owned(), Quantity(quantity.to_owned()));
}

fn limit(pod: &mut PodSpec, resource: &str, quantity: &str) {
    let resources = pod.containers[0].resources.get_or_insert_default();
    let limits = resources.limits.get_or_insert_default();
    limits.insert(resource.to_owned(), Quantity(quantity.to_owned()));
}
