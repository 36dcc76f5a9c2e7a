//! Pods and their processes are killed: the others keep serving, the status reports what is missing, and everything
//! recovers.

use std::net::SocketAddr;
use std::time::Duration;

use e2e::cluster::{History, INSTANCE, Instance, TestEnv, is_ready, ready, restarts};
use firebolt_api::condition::Condition;
use firebolt_api::key::Component;
use firebolt_api::name::InstanceNames;
use firebolt_api::{EnginePhase, FireboltEngine, FireboltInstance, FireboltInstanceStatus, InstancePhase};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use stand_ins::load::{Faults, Ledger, Load, Report, Settings};

const ENGINE: &str = "analytics";
/// The query port of a gateway pod.
const GATEWAY_PORT: u16 = 8080;
const NO_MORE_PODS: &str = "no-more-pods";
/// Enough clients that some queries are always in flight.
const BUSY: Settings = Settings {
    clients: 4,
    pause: Duration::from_millis(100),
    duration: Duration::from_millis(80),
};
/// The number of answers in a row that show that queries succeed.
const SOME: usize = 20;
/// The maximum number of attempts until that many answers in a row succeed.
const MANY: usize = 50;
/// Longer than anything in these tests takes.
const LONG: Duration = Duration::from_mins(5);

/// How a pod is killed.
#[derive(Clone, Copy)]
enum Kill {
    /// Its processes are killed, and its containers restart.
    Processes,
    /// It is deleted without a grace period, and another one replaces it.
    Pod,
}

const EVERY_KILL: [Kill; 2] = [Kill::Processes, Kill::Pod];

impl Kill {
    async fn strike(self, env: &TestEnv, pod: &str) {
        match self {
            Self::Processes => env.kill_processes(pod).await,
            Self::Pod => env.kill_pod(pod).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_reports_what_was_killed_and_keeps_its_data() {
    let env = TestEnv::with_instance().await;
    env.deploy(&env.engine(ENGINE)).await;
    let (before, account) = (claim(&env).await, account(&env));
    let id = env.get::<FireboltInstance>(INSTANCE).await.spec.id;
    assert!(
        account.starts_with(&format!("{}|", id.expect("it has an id"))),
        "{account}"
    );
    let traffic = env.traffic(ENGINE).await;
    let mut history = env.history(INSTANCE).await;

    for kill in EVERY_KILL {
        let [pod] = env.pods_of(Component::Metadata).await;
        kill.strike(&env, &pod.name_any()).await;
        let degraded = is_degraded(&mut history, "The metadata service is not ready: 0 of 1 pods ready").await;
        assert_ne!(status(&degraded).gateway_endpoint, "", "the gateway is not affected");
        recovers(&mut history).await;
    }

    let [pod] = env.pods_of(Component::Postgres).await;
    env.kill_processes(&pod.name_any()).await;
    let restarted = |pod: &Pod| is_ready(pod) && restarts(pod) >= 1;
    env.becomes(&pod.name_any(), "has restarted and is ready", restarted)
        .await;

    // The history of the instance starts after that.
    history.until_now().await;
    // While it cannot come back, the assertions do not depend on timing.
    env.limit(NO_MORE_PODS, "pods", "0").await;
    env.kill_pod(&pod.name_any()).await;
    let degraded = is_degraded(&mut history, "PostgreSQL is not ready: 0 of 1 pods ready").await;
    assert_ne!(status(&degraded).gateway_endpoint, "", "the gateway is not affected");
    let engine = env.has_reason(ENGINE, "InstanceNotReady").await;
    assert_eq!(engine.status, "False");
    assert_eq!(env.reaches(ENGINE, EnginePhase::Stable).await.active_generation, 0);
    traffic.flows().await;
    env.delete::<ResourceQuota>(NO_MORE_PODS).await;
    let set = format!("statefulset/{}", InstanceNames(INSTANCE).postgres());
    // Kubernetes would retry by itself, but only after a long backoff.
    env.kubectl(&["annotate", &set, "reconcile=again"])
        .expect("trigger another reconcile");
    recovers(&mut history).await;
    let [_] = env.pods_of(Component::Postgres).await;
    env.has_reason(ENGINE, "EngineReady").await;

    traffic.assert_flawless().await;
    assert_eq!(claim(&env).await, before, "it is the same volume");
    assert_eq!(self::account(&env), account, "with the same content");

    let [pod] = env.pods_of(Component::Gateway).await;
    env.kill_processes(&pod.name_any()).await;
    let degraded = is_degraded(&mut history, "The gateway is not ready: 0 of 1 pods ready").await;
    assert_ne!(
        status(&degraded).metadata_endpoint,
        "",
        "the metadata service is not affected"
    );
    recovers(&mut history).await;
    // Waits until queries are answered.
    env.traffic(ENGINE).await;
    history.until_now().await.iter().for_each(is_consistent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_gateway_pod_fails_only_queries_in_flight_through_it() {
    let env = TestEnv::empty().await;
    env.apply(&Instance::new().gateways(2)).await;
    env.instance_is_ready().await;
    env.deploy(&env.engine(ENGINE)).await;
    let mut history = env.history::<FireboltInstance>(INSTANCE).await;
    for kill in EVERY_KILL {
        let [victim, survivor] = env.pods_of(Component::Gateway).await;
        let through = |pod| start_load(SocketAddr::new(address(pod), GATEWAY_PORT));
        let (doomed, spared) = (through(&victim), through(&survivor));
        let through_both = start_load(env.gateway().await);
        for load in [&doomed, &spared, &through_both] {
            load.answers(SOME).await;
            assert_eq!(load.counts().failed, 0);
        }

        kill.strike(&env, &victim.name_any()).await;
        doomed.until(|counts| counts.failed > 0).await;
        assert_only_connections_broke(&doomed.stop().await.faults(env.ledger()));
        let whole = env.pods_of::<2>(Component::Gateway).await;
        wait_for_endpoints(&env, &whole).await;
        let settled = wait_for_success(&through_both).await;
        through_both.answers(SOME).await;
        assert_eq!(through_both.counts().failed, settled, "all is well again");

        spared.answers(SOME).await;
        let (spared, through_both) = (spared.stop().await, through_both.stop().await);
        assert_eq!(
            spared.faults(env.ledger()),
            Faults::default(),
            "the other pod serves on"
        );
        assert_only_connections_broke(&through_both.faults(env.ledger()));
    }
    for instance in history.until_now().await {
        is_consistent(instance);
        let phase = status(instance).phase;
        assert_eq!(phase, Some(InstancePhase::Ready), "one pod is enough: {instance:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_engine_pod_fails_only_the_queries_that_it_runs() {
    let env = TestEnv::with_instance().await;
    env.deploy(&env.engine(ENGINE).replicas(2)).await;
    let mut history = env.history::<FireboltEngine>(ENGINE).await;
    for (round, kill) in EVERY_KILL.into_iter().enumerate() {
        env.answers(ENGINE).await;
        let load = start_load(env.gateway().await);
        load.answers(SOME).await;
        let id = format!("long-{round}");
        let query = env.begin_query(ENGINE, &id, LONG).await;
        let executed = env.executed_by(&id);
        let [victim] = &executed[..] else {
            panic!("it is executed once: {executed:?}");
        };

        kill.strike(&env, victim).await;
        let reply = query.await.expect("the client runs to its end");
        let reply = reply.expect("the gateway answers");
        assert_eq!(reply.status, 503, "{reply:?}");
        assert_eq!(reply.json()["error"]["code"], "engine_connection_lost");
        assert_eq!(env.executed_by(&id), executed, "it is not repeated");
        history
            .reaches("the engine says that a pod is missing", |engine| {
                has_ready(
                    engine,
                    "PodsNotReady",
                    "Generation 0 is serving queries with 1 of 2 pods ready.",
                )
            })
            .await;
        history
            .reaches("the engine says that it is whole", |engine| {
                has_ready(engine, "EngineReady", "Generation 0 is serving queries.")
            })
            .await;
        load.answers(SOME).await;
        assert_lost_only_queries_on(victim, &load.stop().await, env.ledger());
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

/// Whether the condition `Ready` of an engine has this reason, and a message that starts like this.
fn has_ready(engine: &FireboltEngine, reason: &str, message: &str) -> bool {
    ready(engine).is_some_and(|ready| ready.reason == reason && ready.message.starts_with(message))
}

/// Asserts that only queries failed that were on their way to the pod, or running on it, when it was killed: one of
/// each client at most. None was retried on another pod.
fn assert_lost_only_queries_on(victim: &str, report: &Report, ledger: &Ledger) {
    let (faults, executions) = (report.faults(ledger), ledger.executions());
    assert_eq!((faults.ran_twice.len(), faults.lost.len()), (0, 0), "{faults}");
    assert!(faults.failures.len() <= BUSY.clients as usize, "{faults}");
    for failure in &faults.failures {
        assert!(failure.reason.contains("engine_connection_lost"), "{faults}");
        let pods: Vec<&String> = executions.get(&failure.id).into_iter().flatten().collect();
        assert!(pods.iter().all(|pod| *pod == victim), "{pods:?}: {faults}");
    }
}

/// Waits until the instance is degraded, and reports the cause.
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

/// Asserts the invariants of an instance.
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

/// Asserts that no query was lost or run twice, and that queries failed without a response only.
fn assert_only_connections_broke(faults: &Faults) {
    assert_eq!((faults.ran_twice.len(), faults.lost.len()), (0, 0), "{faults}");
    let answered = faults
        .failures
        .iter()
        .any(|failure| failure.reason.starts_with("status"));
    assert!(!answered, "{faults}");
}

/// Waits until the endpoints of the gateway's Service are exactly these pods.
async fn wait_for_endpoints(env: &TestEnv, pods: &[Pod]) {
    let mut expected: Vec<String> = pods.iter().map(|pod| address(pod).to_string()).collect();
    expected.sort();
    let labels = format!("kubernetes.io/service-name={}", InstanceNames(INSTANCE).gateway());
    let known = async || {
        let slices: Vec<EndpointSlice> = env.list(&labels).await;
        let endpoints = slices.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default());
        let ready = endpoints.filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions.is_some_and(|conditions| conditions.ready == Some(true))
        });
        let mut addresses: Vec<String> = ready.flat_map(|endpoint| endpoint.addresses).collect();
        addresses.sort();
        (addresses == expected).then_some(())
    };
    env.eventually("the Service leads to the pods that are ready", known)
        .await;
}

/// Waits until many queries in a row succeed, and returns how many failed before. It takes a moment until every
/// connection to the pod that is gone has been noticed.
async fn wait_for_success(load: &Load) -> usize {
    for _ in 0..MANY {
        let failed = load.counts().failed;
        load.answers(5 * SOME).await;
        if load.counts().failed == failed {
            return failed;
        }
    }
    panic!("queries go on to fail: {:?}", load.counts());
}

/// The claim of PostgreSQL and its volume.
async fn claim(env: &TestEnv) -> (Option<String>, Option<String>) {
    let name = format!("data-{}-0", InstanceNames(INSTANCE).postgres());
    let claim: PersistentVolumeClaim = env.get(&name).await;
    (claim.uid(), claim.spec.and_then(|spec| spec.volume_name))
}

/// The account that the metadata service has written to PostgreSQL, with its creation time.
fn account(env: &TestEnv) -> String {
    let pod = format!("{}-0", InstanceNames(INSTANCE).postgres());
    let query = "SELECT id, created_at FROM stand_in_account";
    let shell = ["psql", "-U", "firebolt", "-d", "firebolt_metadata", "-tAc", query];
    let exec = [&["exec", &pod, "--"][..], &shell].concat();
    env.cluster()
        .kubectl(&[&["-n", env.namespace()], &exec[..]].concat())
        .expect("ask PostgreSQL")
}
