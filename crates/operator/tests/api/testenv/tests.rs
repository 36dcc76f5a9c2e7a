//! Tests of the test environment: the played node, the fixtures, the audit log.

use std::io::Read;

use firebolt_api::FireboltEngine;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ContainerState, Pod};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::json;
use testkit::http::send;

use crate::audit::{Mark, tally};
use crate::fixtures::{IMAGE, engine, stateful_set};
use crate::kubelet::agent;
use crate::kubelet::metrics_server::{Answer, PORT};
use crate::kubelet::pod_status::Behaviour;
use crate::support::OPERATOR_NAMESPACE;
use crate::testenv::TestEnv;

fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn address(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    format!("{}:{PORT}", status.pod_ip.expect("an address"))
}

/// The full response of a pod to a scrape; an error if it cannot be reached.
fn ask(pod: &Pod) -> std::io::Result<String> {
    let mut stream = send(address(pod), "GET /metrics HTTP/1.1\r\nHost: pod\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

impl TestEnv {
    async fn wait_for_pod(&self, name: &str, what: &str, is: impl Fn(&Pod) -> bool) -> Pod {
        let found = async || self.get(name).await.filter(&is);
        self.eventually(&format!("pod {name} {what}"), found).await
    }

    async fn wait_for_ready_replicas(&self, set: &str, count: i32) {
        let ready = async || {
            let status = self.the::<StatefulSet>(set).await.status?;
            (status.ready_replicas.unwrap_or_default() == count).then_some(())
        };
        self.eventually(&format!("{set} has {count} ready pods"), ready).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_stateful_set_run_on_the_node_and_go_with_it() {
    let env = TestEnv::without_operator().await;
    env.create(&stateful_set("a", 3)).await;
    env.wait_for_ready_replicas("a", 3).await;
    let pods = env.list::<Pod>().await;
    let mut addresses: Vec<String> = pods.iter().map(address).collect();
    addresses.dedup();
    assert_eq!(addresses.len(), 3, "each pod has an address of its own");
    for pod in &pods {
        assert_eq!((phase(pod), is_ready(pod)), ("Running", true));
        let containers = pod
            .status
            .clone()
            .unwrap_or_default()
            .container_statuses
            .unwrap_or_default();
        assert!(
            containers
                .iter()
                .all(|container| container.ready && container.image == IMAGE)
        );
        assert!(ask(pod).unwrap().contains("\nfirebolt_running_queries 0\n"));
    }
    assert_eq!(env.node.scrapes(&env.namespace, "a"), 3);
    assert_eq!(env.node.scrapes(&env.namespace, "a-1"), 1);
    env.delete::<StatefulSet>("a").await;
    for pod in &pods {
        env.wait_until_gone::<Pod>(&pod.name_any()).await;
        assert!(ask(pod).is_err(), "a pod that is gone serves nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_status_stands_is_not_written_again() {
    let env = TestEnv::without_operator().await;
    env.create(&stateful_set("a", 1)).await;
    env.create(&stateful_set("b", 1)).await;
    env.wait_for_ready_replicas("a", 1).await;
    env.wait_for_ready_replicas("b", 1).await;
    // A setting for one pod makes the node reconcile all pods of the namespace.
    let before = env.mark();
    for behaviour in [Behaviour::Unready, Behaviour::Ready, Behaviour::Unready] {
        env.node.set_behaviour(&env.namespace, "b", behaviour);
        let expected = i32::from(behaviour == Behaviour::Ready);
        env.wait_for_ready_replicas("b", expected).await;
    }
    let writes = before.writes_by(&agent::user(), &env.namespace);
    let counts = tally(&writes);
    // One for each change; two if the node reconciles the pod before it has seen its own write.
    let changed = counts.get(&("pods/status", "b-0")).copied().unwrap_or_default();
    assert!((2..=6).contains(&changed), "{writes:?}");
    assert_eq!(counts.get(&("pods/status", "a-0")), None, "{writes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_can_be_switched_off_and_on_for_one_pod() {
    let env = TestEnv::without_operator().await;
    env.create(&stateful_set("a", 2)).await;
    env.wait_for_ready_replicas("a", 2).await;
    for _ in 0..3 {
        env.node.set_behaviour(&env.namespace, "a-0", Behaviour::Unready);
        env.wait_for_ready_replicas("a", 1).await;
        assert!(is_ready(&env.the("a-1").await));
        env.node.set_behaviour(&env.namespace, "a-0", Behaviour::Ready);
        env.wait_for_ready_replicas("a", 2).await;
    }
}

#[rstest]
#[case::pending(Behaviour::Pending, "Pending", "ContainerCreating")]
#[case::pull(Behaviour::ErrImagePull, "Pending", "ErrImagePull")]
#[case::pull_again(Behaviour::ImagePullBackOff, "Pending", "ImagePullBackOff")]
#[case::crash(Behaviour::CrashLoop { exit_code: 137 }, "Running", "CrashLoopBackOff")]
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_does_not_run_says_why(
    #[case] behaviour: Behaviour,
    #[case] expected_phase: &str,
    #[case] expected_reason: &str,
) {
    let env = TestEnv::without_operator().await;
    env.node.set_behaviour(&env.namespace, "a", behaviour);
    env.create(&stateful_set("a", 1)).await;
    let main = |pod: &Pod| {
        let containers = pod
            .status
            .clone()
            .unwrap_or_default()
            .container_statuses
            .unwrap_or_default();
        containers.into_iter().next()
    };
    let pod = env.wait_for_pod("a-0", "is reported", |pod| main(pod).is_some()).await;
    let container = main(&pod).unwrap();
    let waiting = container.state.and_then(|state| state.waiting).unwrap_or_default();
    assert_eq!(
        (phase(&pod), waiting.reason.as_deref()),
        (expected_phase, Some(expected_reason))
    );
    assert!(!is_ready(&pod));
    let code = |state: ContainerState| state.terminated.map(|terminated| terminated.exit_code);
    let crashes = matches!(behaviour, Behaviour::CrashLoop { .. });
    assert_eq!(container.last_state.and_then(code), crashes.then_some(137));
    env.node.set_behaviour(&env.namespace, "a", Behaviour::Ready);
    env.wait_for_pod("a-0", "recovers", is_ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_termination_is_held_serves_until_it_is_released() {
    let env = TestEnv::without_operator().await;
    env.node.set_behaviour(&env.namespace, "a", Behaviour::HoldTermination);
    env.create(&stateful_set("a", 1)).await;
    env.wait_for_ready_replicas("a", 1).await;
    env.delete::<StatefulSet>("a").await;
    let terminating = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let pod = env.wait_for_pod("a-0", "is to end", terminating).await;
    assert!(is_ready(&pod) && ask(&pod).is_ok());
    env.node.set_behaviour(&env.namespace, "a", Behaviour::Ready);
    env.wait_until_gone::<Pod>("a-0").await;
}

#[rstest]
#[case::queries(Answer::Queries { running: 2, suspended: 3 }, "200", "\nfirebolt_suspended_queries 3\n")]
#[case::status(Answer::Status(503), "503", "firebolt_running_queries 0")]
#[case::redirect(Answer::Redirect, "302", "Location: http://127.")]
#[case::empty(Answer::Empty, "200", "Content-Length: 0\r\n")]
#[case::text(Answer::Text("nonsense".to_owned()), "200", "nonsense")]
#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_as_instructed(#[case] answer: Answer, #[case] status: &str, #[case] contained: &str) {
    let env = TestEnv::without_operator().await;
    env.create(&stateful_set("a", 1)).await;
    let pod = env.wait_for_pod("a-0", "is ready", is_ready).await;
    env.node.metrics(&env.namespace, "a", answer);
    let answer = ask(&pod).unwrap();
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(contained),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_can_be_refused_withheld_and_without_measure() {
    let env = TestEnv::without_operator().await;
    env.create(&stateful_set("a", 1)).await;
    let pod = env.wait_for_pod("a-0", "is ready", is_ready).await;
    let order = |answer| env.node.metrics(&env.namespace, "a-0", answer);
    order(Answer::Refuse);
    let refused = async || ask(&pod).is_err().then_some(());
    env.eventually("the connection is refused", refused).await;
    order(Answer::Huge(3 << 20));
    let answered = async || ask(&pod).ok();
    let huge = env.eventually("it is open again", answered).await;
    let (_, body) = huge.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.len(), 3 << 20);
    assert!(firebolt_core::activity::queries(body.as_bytes()).is_ok());
    let scrapes = || env.node.scrapes(&env.namespace, "a");
    // A request above whose answer was lost counts too.
    let before = scrapes();
    order(Answer::Hang);
    let mut stream = send(address(&pod), "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    env.eventually("it is asked", async || (scrapes() > before).then_some(()))
        .await;
    stream.set_nonblocking(true).unwrap();
    let silence = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_counts_what_the_operator_writes_and_nothing_else() {
    let mut env = TestEnv::without_operator().await;
    let before = env.mark();
    env.create(&engine("a").0).await;
    env.start_operator();
    let lease = env.lease();
    let created = async || {
        // Other tests have leases of their own in this namespace.
        let mut writes = before.writes(OPERATOR_NAMESPACE).into_iter();
        writes.find(|write| write.name == lease && write.verb == "create")
    };
    let created = env
        .eventually(&format!("the lease {lease} is in the audit log"), created)
        .await;
    assert_eq!((created.resource.as_str(), created.code), ("leases", 201));
    let by_us = before.writes(&env.namespace);
    assert!(
        !by_us
            .iter()
            .any(|write| write.verb == "create" && write.resource == "fireboltengines"),
        "{by_us:?}"
    );
    assert_eq!(Mark::now(&env.cluster).writes("default"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_of_the_fixture_is_accepted() {
    let env = TestEnv::without_operator().await;
    let created = env.create(&engine("a").replicas(3).class("c").0).await;
    assert_eq!((created.spec.replicas, created.status), (3, None));
    env.set_status::<FireboltEngine>("a", json!({ "currentGeneration": 0, "activeGeneration": 0 }))
        .await;
    assert_eq!(env.status("a").await.active_generation, 0);
}
