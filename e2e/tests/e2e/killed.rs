//! Pods and what runs in them are killed: the rest serves on, what is missing is said, and everything comes back.

use std::net::SocketAddr;
use std::time::Duration;

use e2e::cluster::{History, INSTANCE, Instance, Scene, is_ready, ready, restarts};
use firebolt_api::condition::Condition;
use firebolt_api::key::Component;
use firebolt_api::name::InstanceNames;
use firebolt_api::{EnginePhase, FireboltEngine, FireboltInstance, FireboltInstanceStatus, InstancePhase};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use stand_ins::load::{Faults, Ledger, Load, Report, Settings};

const ENGINE: &str = "analytics";
/// Where Envoy listens in a gateway pod.
const GATEWAY_PORT: u16 = 8080;
const NO_MORE_PODS: &str = "no-more-pods";
/// Some queries are in the middle of their execution at any time.
const BUSY: Settings = Settings {
    clients: 4,
    pause: Duration::from_millis(100),
    duration: Duration::from_millis(80),
};
/// Answers that show that all is well.
const SOME: usize = 20;
/// How often some answers in a row may not be good until that is a fault.
const MANY: usize = 50;
/// Longer than anything here takes.
const LONG: Duration = Duration::from_mins(5);

/// How a pod ends.
#[derive(Clone, Copy)]
enum Kill {
    /// All that runs in it is killed, and starts again in the same pod.
    Processes,
    /// It is deleted, and another takes its place.
    Pod,
}

const EVERY_KILL: [Kill; 2] = [Kill::Processes, Kill::Pod];

impl Kill {
    async fn strike(self, scene: &Scene, pod: &str) {
        match self {
            Self::Processes => scene.kill_processes(pod).await,
            Self::Pod => scene.kill_pod(pod).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_says_what_was_killed_and_finds_its_data_again() {
    let scene = Scene::with_instance().await;
    scene.deploy(&scene.engine(ENGINE)).await;
    let (before, account) = (claim(&scene).await, account(&scene));
    let id = scene.get::<FireboltInstance>(INSTANCE).await.spec.id;
    assert!(
        account.starts_with(&format!("{}|", id.expect("it has an id"))),
        "{account}"
    );
    let traffic = scene.traffic(ENGINE).await;
    let mut history = scene.history(INSTANCE).await;

    for kill in EVERY_KILL {
        let [pod] = scene.pods_of(Component::Metadata).await;
        kill.strike(&scene, &pod.name_any()).await;
        let degraded = is_degraded(&mut history, "The metadata service is not ready: 0 of 1 pods ready").await;
        assert_ne!(status(&degraded).gateway_endpoint, "", "the gateway is not affected");
        recovers(&mut history).await;
    }

    let [pod] = scene.pods_of(Component::Postgres).await;
    scene.kill_processes(&pod.name_any()).await;
    let restarted = |pod: &Pod| is_ready(pod) && restarts(pod) >= 1;
    scene
        .becomes(&pod.name_any(), "has restarted and is ready", restarted)
        .await;

    // What that did to the instance is no part of what follows.
    history.until_now().await;
    // As long as it may not come back, nothing about it is a matter of time.
    scene.limit(NO_MORE_PODS, "pods", "0").await;
    scene.kill_pod(&pod.name_any()).await;
    let degraded = is_degraded(&mut history, "PostgreSQL: 0 of 1 pods ready").await;
    assert_ne!(status(&degraded).gateway_endpoint, "", "the gateway is not affected");
    let engine = scene.says(ENGINE, "InstanceNotReady").await;
    assert_eq!(engine.status, "False");
    assert_eq!(scene.reaches(ENGINE, EnginePhase::Stable).await.active_generation, 0);
    traffic.flows().await;
    scene.delete::<ResourceQuota>(NO_MORE_PODS).await;
    let set = format!("statefulset/{}", InstanceNames(INSTANCE).postgres());
    // Kubernetes would try again by itself, after a pause that has become long.
    scene
        .kubectl(&["annotate", &set, "look=again"])
        .expect("have Kubernetes look again");
    recovers(&mut history).await;
    let [_] = scene.pods_of(Component::Postgres).await;
    scene.says(ENGINE, "EngineReady").await;

    traffic.assert_flawless().await;
    assert_eq!(claim(&scene).await, before, "it is the same volume");
    assert_eq!(self::account(&scene), account, "with the same content");

    let [pod] = scene.pods_of(Component::Gateway).await;
    scene.kill_processes(&pod.name_any()).await;
    let degraded = is_degraded(&mut history, "The gateway is not ready: 0 of 1 pods ready").await;
    assert_ne!(
        status(&degraded).metadata_endpoint,
        "",
        "the metadata service is not affected"
    );
    recovers(&mut history).await;
    // Waits until queries are answered.
    scene.traffic(ENGINE).await;
    history.until_now().await.iter().for_each(is_consistent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_pod_that_is_killed_takes_along_only_what_went_through_it() {
    let scene = Scene::empty().await;
    scene.apply(&Instance::new().gateways(2)).await;
    scene.instance_is_ready().await;
    scene.deploy(&scene.engine(ENGINE)).await;
    let mut history = scene.history::<FireboltInstance>(INSTANCE).await;
    for kill in EVERY_KILL {
        let [victim, survivor] = scene.pods_of(Component::Gateway).await;
        let through = |pod| start_load(SocketAddr::new(address(pod), GATEWAY_PORT));
        let (doomed, spared) = (through(&victim), through(&survivor));
        let through_both = start_load(scene.gateway().await);
        for load in [&doomed, &spared, &through_both] {
            load.answers(SOME).await;
            assert_eq!(load.counts().failed, 0);
        }

        kill.strike(&scene, &victim.name_any()).await;
        doomed.until(|counts| counts.failed > 0).await;
        only_connections_broke(&doomed.stop().await.faults(scene.ledger()));
        let whole = scene.pods_of::<2>(Component::Gateway).await;
        service_knows(&scene, &whole).await;
        let settled = has_calmed_down(&through_both).await;
        through_both.answers(SOME).await;
        assert_eq!(through_both.counts().failed, settled, "all is well again");

        spared.answers(SOME).await;
        let (spared, through_both) = (spared.stop().await, through_both.stop().await);
        assert_eq!(
            spared.faults(scene.ledger()),
            Faults::default(),
            "the other pod serves on"
        );
        only_connections_broke(&through_both.faults(scene.ledger()));
    }
    for instance in history.until_now().await {
        is_consistent(instance);
        let phase = status(instance).phase;
        assert_eq!(phase, Some(InstancePhase::Ready), "one pod is enough: {instance:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_pod_that_is_killed_takes_along_only_the_queries_that_it_runs() {
    let scene = Scene::with_instance().await;
    scene.deploy(&scene.engine(ENGINE).replicas(2)).await;
    let mut history = scene.history::<FireboltEngine>(ENGINE).await;
    for (round, kill) in EVERY_KILL.into_iter().enumerate() {
        scene.answers(ENGINE).await;
        let load = start_load(scene.gateway().await);
        load.answers(SOME).await;
        let id = format!("long-{round}");
        let query = scene.begin_query(ENGINE, &id, LONG).await;
        let executed = scene.executed_by(&id);
        let [victim] = &executed[..] else {
            panic!("it is executed once: {executed:?}");
        };

        kill.strike(&scene, victim).await;
        let reply = query.await.expect("the client runs to its end");
        let reply = reply.expect("the gateway answers");
        assert_eq!(reply.status, 503, "{reply:?}");
        assert_eq!(reply.json()["error"]["code"], "engine_connection_lost");
        assert_eq!(scene.executed_by(&id), executed, "it is not repeated");
        history
            .reaches("the engine says that a pod is missing", |engine| {
                says(engine, "PodsNotReady", "Generation 0 serves with 1 of 2 pods ready.")
            })
            .await;
        history
            .reaches("the engine says that it is whole", |engine| {
                says(engine, "EngineReady", "Generation 0 serves.")
            })
            .await;
        load.answers(SOME).await;
        lost_only_what_ran_on(victim, &load.stop().await, scene.ledger());
    }
    for engine in history.until_now().await {
        let status = engine.status.as_ref().expect("it has a status");
        assert_eq!(
            (status.phase, status.current_generation),
            (Some(EnginePhase::Stable), 0),
            "{status:?}"
        );
    }
}

/// Whether the condition `Ready` of an engine begins like this.
fn says(engine: &FireboltEngine, reason: &str, message: &str) -> bool {
    ready(engine).is_some_and(|ready| ready.reason == reason && ready.message.starts_with(message))
}

/// Asserts that no query failed but those that were on their way to or on the pod when it was killed: one of each client
/// at most. None was repeated on another pod.
fn lost_only_what_ran_on(victim: &str, report: &Report, ledger: &Ledger) {
    let (faults, executions) = (report.faults(ledger), ledger.executions());
    assert_eq!((faults.ran_twice.len(), faults.lost.len()), (0, 0), "{faults}");
    assert!(faults.failures.len() <= BUSY.clients as usize, "{faults}");
    for failure in &faults.failures {
        assert!(failure.reason.contains("engine_connection_lost"), "{faults}");
        let pods: Vec<&String> = executions.get(&failure.id).into_iter().flatten().collect();
        assert!(pods.iter().all(|pod| *pod == victim), "{pods:?}: {faults}");
    }
}

/// Waits until the instance lacks something, and says what.
async fn is_degraded(history: &mut History<'_, FireboltInstance>, what: &str) -> FireboltInstance {
    let is = |instance: &FireboltInstance| {
        let degraded = status(instance).phase == Some(InstancePhase::Degraded);
        degraded && condition(instance, "Ready").message.contains(what)
    };
    let sentence = format!("the instance is degraded and says {what:?}");
    history.reaches(&sentence, is).await
}

async fn recovers(history: &mut History<'_, FireboltInstance>) {
    let is = |instance: &FireboltInstance| status(instance).phase == Some(InstancePhase::Ready);
    history.reaches("the instance is ready again", is).await;
}

/// Asserts what holds of an instance at any time.
fn is_consistent(instance: &FireboltInstance) {
    let status = status(instance);
    let holds = |kind| condition(instance, kind).status == "True";
    assert_eq!(
        !status.metadata_endpoint.is_empty(),
        holds("MetadataReady"),
        "{status:?}"
    );
    assert_eq!(!status.gateway_endpoint.is_empty(), holds("GatewayReady"), "{status:?}");
    assert_eq!(status.phase == Some(InstancePhase::Ready), holds("Ready"), "{status:?}");
}

fn status(instance: &FireboltInstance) -> &FireboltInstanceStatus {
    instance.status.as_ref().expect("the instance has a status")
}

fn condition<'a>(instance: &'a FireboltInstance, kind: &str) -> &'a Condition {
    let mut conditions = status(instance).conditions.iter();
    let found = conditions.find(|condition| condition.type_ == kind);
    found.unwrap_or_else(|| panic!("there is no condition {kind}"))
}

fn address(pod: &Pod) -> std::net::IpAddr {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
    address
        .and_then(|address| address.parse().ok())
        .expect("a pod that is ready has an address")
}

fn start_load(gateway: SocketAddr) -> Load {
    let gateway = format!("http://{gateway}").parse().expect("the URL of a gateway");
    Load::start(gateway, ENGINE, BUSY)
}

/// Asserts that nothing ran twice or was lost, and that what failed had no answer at all: no gateway made one up.
fn only_connections_broke(faults: &Faults) {
    assert_eq!((faults.ran_twice.len(), faults.lost.len()), (0, 0), "{faults}");
    let answered = faults
        .failures
        .iter()
        .any(|failure| failure.reason.starts_with("status"));
    assert!(!answered, "{faults}");
}

/// Waits until the Service of the gateway sends queries to these pods and to no other.
async fn service_knows(scene: &Scene, pods: &[Pod]) {
    let mut expected: Vec<String> = pods.iter().map(|pod| address(pod).to_string()).collect();
    expected.sort();
    let labels = format!("kubernetes.io/service-name={}", InstanceNames(INSTANCE).gateway());
    let known = async || {
        let slices: Vec<EndpointSlice> = scene.list(&labels).await;
        let endpoints = slices.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default());
        let ready = endpoints.filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions.is_some_and(|conditions| conditions.ready == Some(true))
        });
        let mut addresses: Vec<String> = ready.flat_map(|endpoint| endpoint.addresses).collect();
        addresses.sort();
        (addresses == expected).then_some(())
    };
    scene
        .eventually("the Service leads to the pods that are ready", known)
        .await;
}

/// Waits until many queries in a row do not fail, and returns how many did before. A moment passes until every connection
/// to the pod that is gone has been noticed.
async fn has_calmed_down(load: &Load) -> usize {
    for _ in 0..MANY {
        let failed = load.counts().failed;
        load.answers(5 * SOME).await;
        if load.counts().failed == failed {
            return failed;
        }
    }
    panic!("queries go on to fail: {:?}", load.counts());
}

/// The claim of PostgreSQL and the volume that it has.
async fn claim(scene: &Scene) -> (Option<String>, Option<String>) {
    let name = format!("data-{}-0", InstanceNames(INSTANCE).postgres());
    let claim: PersistentVolumeClaim = scene.get(&name).await;
    (claim.uid(), claim.spec.and_then(|spec| spec.volume_name))
}

/// What the metadata service has written into PostgreSQL: its account, and when it was made.
fn account(scene: &Scene) -> String {
    let pod = format!("{}-0", InstanceNames(INSTANCE).postgres());
    let query = "SELECT id, created_at FROM stand_in_account";
    let shell = ["psql", "-U", "firebolt", "-d", "firebolt_metadata", "-tAc", query];
    let exec = [&["exec", &pod, "--"][..], &shell].concat();
    scene
        .cluster()
        .kubectl(&[&["-n", scene.namespace()], &exec[..]].concat())
        .expect("ask PostgreSQL")
}
