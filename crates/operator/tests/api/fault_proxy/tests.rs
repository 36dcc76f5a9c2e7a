//! Tests of the proxy, with a plain client in place of the operator and objects of one kind in place of all.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};

use super::*;
use crate::support::namespace;

const RESOURCE: &str = "configmaps";
/// How long nothing has to come before it counts as withheld. What comes later would be missed here, not failed.
const QUIET: Duration = Duration::from_millis(300);

/// A client behind a proxy, and one that is not.
struct Way {
    proxy: Proxy,
    behind: Api<ConfigMap>,
    direct: Api<ConfigMap>,
}

async fn way() -> Way {
    let cluster = Cluster::attach();
    let namespace = namespace(&cluster).await;
    let proxy = Proxy::start(&cluster, &cluster.kubeconfig_admin());
    let behind = client(&proxy.kubeconfig()).await;
    Way {
        behind: Api::namespaced(behind, &namespace),
        direct: Api::namespaced(cluster.client().await.unwrap(), &namespace),
        proxy,
    }
}

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([("firebolt.io/engine".to_owned(), "a".to_owned())])),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

async fn create(api: &Api<ConfigMap>, name: &str) -> kube::Result<ConfigMap> {
    api.create(&PostParams::default(), &map(name)).await
}

async fn exists(api: &Api<ConfigMap>, name: &str) -> bool {
    api.get_opt(name).await.unwrap().is_some()
}

/// The names in the list that fills a cache.
async fn list(api: &Api<ConfigMap>) -> (Vec<String>, String) {
    let list = api
        .list(&ListParams::default().labels("firebolt.io/engine"))
        .await
        .unwrap();
    let names = list.items.iter().map(ResourceExt::name_any).collect();
    (names, list.metadata.resource_version.unwrap())
}

async fn follow(api: &Api<ConfigMap>) -> impl Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + use<> {
    let (_, version) = list(api).await;
    let parameters = WatchParams::default().labels("firebolt.io/engine");
    api.watch(&parameters, &version).await.unwrap().boxed()
}

fn added(event: Option<kube::Result<WatchEvent<ConfigMap>>>) -> String {
    match event {
        Some(Ok(WatchEvent::Added(map))) => map.name_any(),
        other => panic!("not an addition: {other:?}"),
    }
}

fn code<T>(answer: kube::Result<T>) -> Option<u16> {
    match answer {
        Err(kube::Error::Api(status)) => Some(status.code),
        Ok(_) | Err(_) => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rules_everything_passes_and_writes_are_noted() {
    let way = way().await;
    let mut events = follow(&way.behind).await;
    create(&way.behind, "a").await.unwrap();
    assert_eq!(added(events.next().await), "a");
    assert_eq!(code(create(&way.behind, "a").await), Some(409));
    let noted: Vec<_> = way
        .proxy
        .writes()
        .iter()
        .map(|write| (write.call.to_string(), write.outcome))
        .collect();
    let call = "Create configmaps/a".to_owned();
    assert_eq!(
        noted,
        [(call.clone(), Outcome::Answered(201)), (call, Outcome::Answered(409))]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_is_not_forwarded() {
    let way = way().await;
    let rule = way.proxy.on(writes().nth(2), answer(503));
    create(&way.behind, "a").await.unwrap();
    assert_eq!(code(create(&way.behind, "b").await), Some(503));
    assert!(!exists(&way.direct, "b").await);
    create(&way.behind, "b").await.unwrap();
    assert_eq!(rule.struck(), 1);
    assert_eq!(way.proxy.writes()[1].outcome, Outcome::Refused(503));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_closed_before_or_after_the_write_is_stored() {
    let way = way().await;
    way.proxy.on(writes().named("before"), Fault::CutBefore);
    way.proxy.on(writes().named("after"), Fault::LoseResponse);
    assert!(create(&way.behind, "before").await.is_err());
    assert!(create(&way.behind, "after").await.is_err());
    assert!(!exists(&way.direct, "before").await);
    assert!(exists(&way.direct, "after").await);
    let stored: Vec<bool> = way.proxy.writes().iter().map(ProxiedWrite::is_stored).collect();
    assert_eq!(stored, [false, true], "each was tried once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_write_is_carried_out_on_release_even_if_its_sender_has_gone() {
    let way = way().await;
    let rule = way.proxy.on(writes(), Fault::Hold);
    let sender = tokio::spawn({
        let behind = way.behind.clone();
        async move { create(&behind, "late").await }
    });
    rule.happened().await;
    assert!(!exists(&way.direct, "late").await);
    sender.abort();
    assert!(sender.await.unwrap_err().is_cancelled());
    rule.release();
    way.proxy
        .wait_for_writes("it is stored", |writes| writes[0].is_stored());
    assert!(exists(&way.direct, "late").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_response_is_of_a_write_that_is_stored() {
    let way = way().await;
    let rule = way.proxy.on(writes(), Fault::HoldResponse);
    let mut sender = tokio::spawn({
        let behind = way.behind.clone();
        async move { create(&behind, "stored").await }
    });
    rule.happened().await;
    assert!(exists(&way.direct, "stored").await);
    assert!(
        tokio::time::timeout(QUIET, &mut sender).await.is_err(),
        "answered before the release"
    );
    rule.release();
    sender.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_kind_lags_in_caches_and_nowhere_else() {
    let way = way().await;
    create(&way.direct, "before").await.unwrap();
    let mut running = follow(&way.behind).await;
    way.proxy.freeze(RESOURCE);
    for name in ["one", "two"] {
        create(&way.behind, name).await.unwrap();
    }
    assert!(
        tokio::time::timeout(QUIET, running.next()).await.is_err(),
        "a running watch delivers"
    );
    assert_eq!(list(&way.behind).await.0, ["before"], "a cache is filled with what was");
    let mut later = follow(&way.behind).await;
    assert!(
        tokio::time::timeout(QUIET, later.next()).await.is_err(),
        "a new watch delivers"
    );
    assert!(exists(&way.behind, "one").await, "a single object is as of now");
    let of_one = ListParams::default().labels("firebolt.io/engine=a");
    assert_eq!(
        way.behind.list(&of_one).await.unwrap().items.len(),
        3,
        "a list for one engine is as of now"
    );

    way.proxy.thaw(RESOURCE);
    for events in [&mut running, &mut later] {
        assert_eq!(added(events.next().await), "one");
        assert_eq!(added(events.next().await), "two");
    }
    assert_eq!(list(&way.behind).await.0.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn running_watches_end_as_they_are_reported() {
    let way = way().await;
    for (disturbance, expected) in [
        (Disturbance::End, "end"),
        (Disturbance::Gone, "410"),
        (Disturbance::Silence, "silent"),
    ] {
        let mut events = follow(&way.behind).await;
        assert_eq!(way.proxy.disturb(RESOURCE, disturbance), 1, "{disturbance:?}");
        create(&way.direct, expected).await.unwrap();
        let seen = match tokio::time::timeout(if expected == "silent" { QUIET } else { SOON }, events.next()).await {
            Err(_elapsed) => "silent".to_owned(),
            Ok(None) => "end".to_owned(),
            Ok(Some(Ok(WatchEvent::Error(status)))) => status.code.to_string(),
            Ok(Some(event)) => format!("{event:?}"),
        };
        assert_eq!(seen, expected, "{disturbance:?}");
        drop(events);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_can_be_dead_from_its_start() {
    let way = way().await;
    way.proxy
        .on(every(Verb::Watch, RESOURCE).next(1), Fault::Watch(Disturbance::Silence));
    let mut dead = follow(&way.behind).await;
    let mut alive = follow(&way.behind).await;
    create(&way.direct, "a").await.unwrap();
    assert_eq!(added(alive.next().await), "a");
    assert!(tokio::time::timeout(QUIET, dead.next()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_request_has_a_retry_after() {
    let way = way().await;
    let fault = Fault::Answer {
        code: 429,
        retry_after: Some(7),
    };
    way.proxy.on(writes(), fault);
    let request = axum::http::Request::post("/api/v1/namespaces/n/configmaps");
    let client = client(&way.proxy.kubeconfig()).await;
    let answer = client
        .send(request.body(kube::client::Body::empty()).unwrap())
        .await
        .unwrap();
    assert_eq!(
        (
            answer.status().as_u16(),
            answer.headers()["retry-after"].to_str().unwrap()
        ),
        (429, "7")
    );
}
