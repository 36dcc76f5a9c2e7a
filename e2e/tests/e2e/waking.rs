//! Queries wake the engine that they select, if auto-stop has stopped it and it belongs to the instance, and no
//! other engine.

use e2e::cluster::{GatewayPod, INSTANCE, Instance, Reply, TestEnv};
use firebolt_api::key::Annotation;
use firebolt_api::{
    AutoStopReason, EnginePhase, FireboltEngine, FireboltEngineStatus, FireboltInstance, InstancePhase,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::task::JoinHandle;

const ENGINE: &str = "analytics";
/// An engine that no node has room for.
const NEVER: &str = "never";
/// The idle timeout of engines, in seconds.
const IDLE: u64 = 2;
/// Times in the cluster are truncated to seconds: an event was up to a second later than recorded.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_engine_stops_and_the_next_query_wakes_it_for_at_least_the_idle_timeout() {
    let env = TestEnv::with_instance().await;
    env.deploy(&env.engine(ENGINE).idle_timeout(IDLE)).await;
    stops_for_idleness(&env).await;

    let asked = Timestamp::now();
    let query = env
        .send_query(env.gateway().await, ENGINE, "the-first")
        .await_reply()
        .await;
    assert_eq!(query.status, 200, "{query:?}");
    assert_eq!(env.executed_by("the-first"), TestEnv::pod_names(ENGINE, 2, 1));
    assert_has_stages(query.header("server-timing"));
    let why = "Scaled from 0 to 1: wake requested by a query.";
    env.emits_event(ENGINE, "ScaledUp", why).await;
    let woken = |engine: &FireboltEngine| status(engine).auto_stop_reason == Some(AutoStopReason::WakeRequested);
    let woken = env.becomes(ENGINE, "says that a query woke it", woken).await;
    assert!(
        last_activity(&woken) + ROUNDING >= asked,
        "being woken counts as being used: {woken:?}"
    );

    // A wake request counts for five minutes, so that a slow client finds the engine running. There is none here.
    let scaled = &status(&woken).last_scaled_at;
    let annotation = format!("{}-", Annotation::WakeRequested);
    env.kubectl(&["annotate", "fireboltengine", ENGINE, &annotation])
        .expect("take the request back");
    let again = |engine: &FireboltEngine| status(engine).last_scaled_at != *scaled && engine.spec.replicas == 0;
    let stopping = env.becomes(ENGINE, "stops again", again).await;
    let stopped_at = status(&stopping).last_scaled_at.as_ref().expect("it was scaled").0;
    let passed = (stopped_at + ROUNDING).duration_since(last_activity(&stopping));
    assert!(passed >= SignedDuration::from_secs(IDLE.cast_signed()), "{stopping:?}");
    assert!(last_activity(&stopping) >= last_activity(&woken), "{stopping:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_at_two_gateways_wake_an_engine_once_and_survive_the_termination_of_one() {
    let env = TestEnv::with(&Instance::new().gateways(2)).await;
    env.apply(&env.engine(ENGINE).idle_timeout(600).replicas(0)).await;
    env.apply(&env.engine(NEVER).idle_timeout(600).replicas(0).but(|spec| {
        let pod = spec.template.get_or_insert_default().spec.get_or_insert_default();
        pod.node_selector
            .get_or_insert_default()
            .insert("size".to_owned(), "enormous".to_owned());
    }))
    .await;
    for engine in [ENGINE, NEVER] {
        env.reaches(engine, EnginePhase::Stopped).await;
    }
    let pods: [GatewayPod; 2] = env.gateway_pods(INSTANCE).await;

    let ids: Vec<String> = (0..20).map(|number| format!("query-{number}")).collect();
    let mut queries = Vec::new();
    for (id, pod) in ids.iter().zip(pods.iter().cycle()) {
        queries.push(env.send_query(pod.queries(), ENGINE, id));
    }
    for query in queries {
        let reply = query.await_reply().await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    for id in &ids {
        assert_eq!(env.executed_by(id), TestEnv::pod_names(ENGINE, 1, 1), "{id}");
    }
    let mut patches = Vec::new();
    for pod in &pods {
        assert_eq!(pod.counts("holds_total").await, 10, "each query waits at {pod:?}");
        patches.push(pod.counts("patches_total{outcome=\"stored\"}").await);
    }
    assert!(patches.iter().any(|count| *count > 0), "{patches:?}");
    assert!(patches.iter().all(|count| *count <= 3), "{patches:?}");

    a_terminating_gateway_refuses_held_queries(&env, &pods[0]).await;
}

/// A pod is deleted while it holds a query for an engine that does not start.
async fn a_terminating_gateway_refuses_held_queries(env: &TestEnv, pod: &GatewayPod) {
    let query = env.send_query(pod.queries(), NEVER, "in-vain");
    let waits = async || (pod.counts("waiting").await == 1).then_some(());
    env.eventually("a query waits", waits).await;
    env.delete::<Pod>(&pod.name).await;
    let reply = query.await_reply().await;
    assert_eq!(reply.refusal(), (503, "gateway_stopping".to_owned()));
    assert_eq!(reply.header("retry-after"), "1");
    env.vanishes::<Pod>(&pod.name).await;
    assert_eq!(env.executed_by("in-vain"), Vec::<String>::new());
    // The other pod and the new one still route to the running engine.
    env.answers(ENGINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_queries_for_engines_of_the_instance_with_auto_stop_wake_one() {
    const OTHER: &str = "other";
    let env = TestEnv::empty().await;
    env.apply(&Instance::new()).await;
    env.apply(&Instance::named(OTHER)).await;
    env.instance_is_ready().await;
    let ready = |instance: &FireboltInstance| {
        let status = instance.status.as_ref();
        status.is_some_and(|status| status.phase == Some(InstancePhase::Ready))
    };
    env.becomes(OTHER, "is ready", ready).await;
    let by_hand = "by-hand";
    env.apply(&env.engine(ENGINE).idle_timeout(600).replicas(0)).await;
    env.apply(&env.engine(by_hand).replicas(0)).await;
    for engine in [ENGINE, by_hand] {
        env.reaches(engine, EnginePhase::Stopped).await;
    }

    let (own, other) = (env.gateway().await, env.gateway_of(OTHER).await);
    let refused = async |gateway, engine: &str| {
        let reply = env.send_query(gateway, engine, "refused").await_reply().await;
        assert_eq!(reply.header("retry-after"), "", "time alone changes nothing: {reply:?}");
        reply.refusal()
    };
    let not_found = (404, "engine_not_found".to_owned());
    assert_eq!(refused(own, "absent").await, not_found);
    assert_eq!(refused(other, ENGINE).await, not_found);
    assert_eq!(refused(own, by_hand).await, (503, "engine_stopped".to_owned()));
    assert!(env.gateway_answers().await, "its health is no matter of engines");

    for instance in [INSTANCE, OTHER] {
        let [pod] = env.gateway_pods(instance).await;
        assert_eq!(
            pod.counts("waiting").await,
            0,
            "nothing is still to come of it: {pod:?}"
        );
        for outcome in ["stored", "refused", "failed"] {
            let patches = pod.counts(&format!("patches_total{{outcome=\"{outcome}\"}}")).await;
            assert_eq!(patches, 0, "{outcome} at {pod:?}");
        }
    }
    for engine in [ENGINE, by_hand] {
        let engine = env.get::<FireboltEngine>(engine).await;
        assert!(
            !engine.annotations().contains_key(Annotation::WakeRequested.key()),
            "{engine:?}"
        );
        assert_eq!(engine.spec.replicas, 0);
    }
}

/// Asserts that a header has the duration of each stage of a wake. Stages that were not observed are left out.
#[track_caller]
fn assert_has_stages(timing: &str) {
    let stages: Vec<(&str, f64)> = timing
        .split(", ")
        .map(|stage| {
            let (name, milliseconds) = stage.split_once(";dur=").unwrap_or_else(|| panic!("read {timing:?}"));
            (
                name,
                milliseconds
                    .parse()
                    .unwrap_or_else(|error| panic!("read {timing:?}: {error}")),
            )
        })
        .collect();
    let names: Vec<&str> = stages.iter().map(|(name, _)| *name).collect();
    let mut known = ["detected", "scaled", "ready", "released", "wake"].into_iter();
    assert!(names.iter().all(|name| known.any(|one| one == *name)), "{timing}");
    for stage in ["detected", "released", "wake"] {
        assert!(names.contains(&stage), "{timing}");
    }
    let sum: f64 = stages.iter().map(|(_, milliseconds)| milliseconds).sum();
    let (_, whole) = stages[stages.len() - 1];
    // The stages add up to the total, except for rounding.
    assert!((sum - 2.0 * whole).abs() < 1.0, "{timing}");
}

/// Waits until the engine has stopped because it is idle.
async fn stops_for_idleness(env: &TestEnv) {
    let why = "Scaled from 1 to 0: no query within autoStop.idleTimeout.";
    env.emits_event(ENGINE, "ScaledDown", why).await;
    env.settles(ENGINE, 1).await;
}

/// A handle to the response to a query.
trait Awaited {
    /// The response. A connection that ends without one is a failure.
    async fn await_reply(self) -> Reply;
}

impl Awaited for JoinHandle<Result<Reply, String>> {
    async fn await_reply(self) -> Reply {
        let reply = self.await.expect("the client runs to its end");
        reply.expect("the query is answered")
    }
}

fn status(engine: &FireboltEngine) -> &FireboltEngineStatus {
    engine.status.as_ref().expect("it was observed before")
}

/// The last activity of the engine.
fn last_activity(engine: &FireboltEngine) -> Timestamp {
    status(engine).last_activity_time.as_ref().expect("it was in use").0
}
