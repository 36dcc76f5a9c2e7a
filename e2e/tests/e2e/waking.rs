//! Queries wake the engines that they are for: those that stopped by themselves, those of their own instance, and no others.

use e2e::cluster::{GatewayPod, INSTANCE, Instance, Reply, Scene};
use firebolt_api::key::Annotation;
use firebolt_api::{
    AutoStopReason, EnginePhase, FireboltEngine, FireboltEngineStatus, FireboltInstance, InstancePhase,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::task::JoinHandle;

const ENGINE: &str = "analytics";
/// An engine for which no node is large enough.
const NEVER: &str = "never";
/// The time without queries after which an engine stops, in seconds.
const IDLE: u64 = 2;
/// The cluster cuts times to whole seconds: something was up to a second later than it says.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_engine_stops_and_the_next_query_wakes_it_for_at_least_an_idle_time() {
    let scene = Scene::with_instance().await;
    scene.deploy(&scene.engine(ENGINE).idle_timeout(IDLE)).await;
    stops_for_idleness(&scene).await;

    let asked = Timestamp::now();
    let query = scene
        .send_query(scene.gateway().await, ENGINE, "the-first")
        .await_reply()
        .await;
    assert_eq!(query.status, 200, "{query:?}");
    assert_eq!(scene.executed_by("the-first"), Scene::pod_names(ENGINE, 2, 1));
    assert_tells_stages(query.header("server-timing"));
    let why = "Replicas go from 0 to 1: a query asked for the engine.";
    scene.tells_event(ENGINE, "ScaledUp", why).await;
    let woken = |engine: &FireboltEngine| said(engine).auto_stop_reason == Some(AutoStopReason::WakeRequested);
    let woken = scene.becomes(ENGINE, "says that a query woke it", woken).await;
    assert!(
        last_activity(&woken) + ROUNDING >= asked,
        "being woken counts as being used: {woken:?}"
    );

    // A request counts for five minutes, in case that whoever asked needs that long to come. Nobody else waits here.
    let scaled = &said(&woken).last_scaled_at;
    let annotation = format!("{}-", Annotation::WakeRequested);
    scene
        .kubectl(&["annotate", "fireboltengine", ENGINE, &annotation])
        .expect("take the request back");
    let again = |engine: &FireboltEngine| said(engine).last_scaled_at != *scaled && engine.spec.replicas == 0;
    let stopping = scene.becomes(ENGINE, "stops again", again).await;
    let stopped_at = said(&stopping).last_scaled_at.as_ref().expect("it was scaled").0;
    let passed = (stopped_at + ROUNDING).duration_since(last_activity(&stopping));
    assert!(passed >= SignedDuration::from_secs(IDLE.cast_signed()), "{stopping:?}");
    assert!(last_activity(&stopping) >= last_activity(&woken), "{stopping:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_at_two_gateways_wake_an_engine_together_and_outlive_the_end_of_one() {
    let scene = Scene::with(&Instance::new().gateways(2)).await;
    scene.apply(&scene.engine(ENGINE).idle_timeout(600).replicas(0)).await;
    scene
        .apply(&scene.engine(NEVER).idle_timeout(600).replicas(0).but(|spec| {
            let pod = spec.template.get_or_insert_default().spec.get_or_insert_default();
            pod.node_selector
                .get_or_insert_default()
                .insert("size".to_owned(), "enormous".to_owned());
        }))
        .await;
    for engine in [ENGINE, NEVER] {
        scene.reaches(engine, EnginePhase::Stopped).await;
    }
    let pods: [GatewayPod; 2] = scene.gateway_pods(INSTANCE).await;

    let ids: Vec<String> = (0..20).map(|number| format!("query-{number}")).collect();
    let mut queries = Vec::new();
    for (id, pod) in ids.iter().zip(pods.iter().cycle()) {
        queries.push(scene.send_query(pod.queries(), ENGINE, id));
    }
    for query in queries {
        let reply = query.await_reply().await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    for id in &ids {
        assert_eq!(scene.executed_by(id), Scene::pod_names(ENGINE, 1, 1), "{id}");
    }
    let mut patches = Vec::new();
    for pod in &pods {
        assert_eq!(pod.counts("holds_total").await, 10, "each query waits at {pod:?}");
        patches.push(pod.counts("patches_total{outcome=\"stored\"}").await);
    }
    assert!(patches.iter().any(|count| *count > 0), "{patches:?}");
    assert!(patches.iter().all(|count| *count <= 3), "{patches:?}");

    the_end_of_a_gateway_is_told_to_those_who_wait(&scene, &pods[0]).await;
}

/// A pod is deleted while a query waits in it for an engine that does not come.
async fn the_end_of_a_gateway_is_told_to_those_who_wait(scene: &Scene, pod: &GatewayPod) {
    let query = scene.send_query(pod.queries(), NEVER, "in-vain");
    let waits = async || (pod.counts("waiting").await == 1).then_some(());
    scene.eventually("a query waits", waits).await;
    scene.delete::<Pod>(&pod.name).await;
    let reply = query.await_reply().await;
    assert_eq!(reply.refusal(), (503, "gateway_stopping".to_owned()));
    assert_eq!(reply.header("retry-after"), "1");
    scene.vanishes::<Pod>(&pod.name).await;
    assert_eq!(scene.executed_by("in-vain"), Vec::<String>::new());
    // The other one, and the next, still know the engine that is there.
    scene.answers(ENGINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_queries_for_engines_of_the_instance_that_stop_by_themselves_wake_one() {
    const OTHER: &str = "other";
    let scene = Scene::empty().await;
    scene.apply(&Instance::new()).await;
    scene.apply(&Instance::named(OTHER)).await;
    scene.instance_is_ready().await;
    let ready = |instance: &FireboltInstance| {
        let status = instance.status.as_ref();
        status.is_some_and(|status| status.phase == Some(InstancePhase::Ready))
    };
    scene.becomes(OTHER, "is ready", ready).await;
    let by_hand = "by-hand";
    scene.apply(&scene.engine(ENGINE).idle_timeout(600).replicas(0)).await;
    scene.apply(&scene.engine(by_hand).replicas(0)).await;
    for engine in [ENGINE, by_hand] {
        scene.reaches(engine, EnginePhase::Stopped).await;
    }

    let (own, other) = (scene.gateway().await, scene.gateway_of(OTHER).await);
    let refused = async |gateway, engine: &str| {
        let reply = scene.send_query(gateway, engine, "refused").await_reply().await;
        assert_eq!(reply.header("retry-after"), "", "time alone changes nothing: {reply:?}");
        reply.refusal()
    };
    let not_found = (404, "engine_not_found".to_owned());
    assert_eq!(refused(own, "nobody").await, not_found);
    assert_eq!(refused(other, ENGINE).await, not_found);
    assert_eq!(refused(own, by_hand).await, (503, "engine_stopped".to_owned()));
    assert!(scene.gateway_answers().await, "its health is no matter of engines");

    for instance in [INSTANCE, OTHER] {
        let [pod] = scene.gateway_pods(instance).await;
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
        let engine = scene.get::<FireboltEngine>(engine).await;
        assert!(
            !engine.annotations().contains_key(Annotation::WakeRequested.key()),
            "{engine:?}"
        );
        assert_eq!(engine.spec.replicas, 0);
    }
}

/// Asserts that a header tells how long each stage of a wake took. Those that passed unseen are left out.
#[track_caller]
fn assert_tells_stages(timing: &str) {
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
    for told in ["detected", "released", "wake"] {
        assert!(names.contains(&told), "{timing}");
    }
    let sum: f64 = stages.iter().map(|(_, milliseconds)| milliseconds).sum();
    let (_, whole) = stages[stages.len() - 1];
    // The stages make up the whole, but for the rounding of each.
    assert!((sum - 2.0 * whole).abs() < 1.0, "{timing}");
}

/// Waits until the engine has stopped because nobody uses it.
async fn stops_for_idleness(scene: &Scene) {
    let why = "Replicas go from 1 to 0: no query ran for the whole idle time.";
    scene.tells_event(ENGINE, "ScaledDown", why).await;
    scene.settles(ENGINE, 1).await;
}

/// What becomes of a query.
trait Awaited {
    /// The answer. A connection that ends without one is a fault.
    async fn await_reply(self) -> Reply;
}

impl Awaited for JoinHandle<Result<Reply, String>> {
    async fn await_reply(self) -> Reply {
        let reply = self.await.expect("the client runs to its end");
        reply.expect("the query is answered")
    }
}

fn said(engine: &FireboltEngine) -> &FireboltEngineStatus {
    engine.status.as_ref().expect("it was looked at before")
}

/// When the engine was last in use.
fn last_activity(engine: &FireboltEngine) -> Timestamp {
    said(engine).last_activity_time.as_ref().expect("it was in use").0
}
