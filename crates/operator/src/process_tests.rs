use std::time::Duration;

use axum::Router;
use firebolt_runtime::leader::Loss;
use kube::Client;

use super::*;
use crate::cli::tests::settings;
use crate::settings::LeaseSettings;

/// A process whose controllers never end, with this election.
fn stubborn(election: impl Future<Output = Ended> + Send + 'static) -> Parts {
    let settings = Arc::new(settings(&[]));
    // Responds 404 to everything, so that the watches fail.
    let client = Client::new(Router::new(), "ns");
    let mut watches = JoinSet::new();
    let metrics = Arc::new(Metrics::new(VERSION, SystemTime::UNIX_EPOCH));
    let pending = Pending::default();
    let caches = Arc::new(informers::start(&client, &settings, &metrics, &mut watches, &pending));
    let (_, reports) = watch::channel(ElectionStatus::LEADER);
    let lease = LeaseSettings {
        namespace: "ns".to_owned(),
        name: "lease".to_owned(),
        duration: Duration::from_secs(15),
    };
    Parts {
        lease: Some(lease_client(client.clone(), &lease, "me")),
        context: Context {
            client,
            settings,
            caches,
            pending,
            leadership: Leadership::new(reports),
        },
        election: tokio::spawn(election),
        work: tokio::spawn(std::future::pending()),
        watches,
        servers: JoinSet::new(),
        stop_work: CancellationToken::new(),
        stop_election: CancellationToken::new(),
        stop_servers: CancellationToken::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_during_the_shutdown_ends_the_process_at_once() {
    let lost_at = Instant::now() + Duration::from_secs(3);
    let parts = stubborn(async move {
        tokio::time::sleep_until(lost_at).await;
        Ended::Lost(Loss::NotRenewed)
    });
    let failure = parts.stop().await.unwrap_err();
    assert!(matches!(failure, Failure::LeadershipLost { .. }), "{failure}");
    assert!(lost_at.elapsed() < Duration::from_millis(10), "{:?}", lost_at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn controllers_that_do_not_end_are_waited_for_until_the_timeout() {
    let start = Instant::now();
    let failure = stubborn(std::future::pending()).stop().await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "cannot stop within 10s: the controllers did not end"
    );
    assert!(start.elapsed() >= Duration::from_secs(10));
}

#[test]
fn the_process_does_not_wait_for_blocking_calls() {
    let (release, block) = std::sync::mpsc::channel::<()>();
    let start = std::time::Instant::now();
    on_runtime(async {
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        tokio::task::spawn_blocking(move || {
            begun.send(()).unwrap();
            let _released_or_late = block.recv_timeout(Duration::from_secs(30));
        });
        has_begun.await.unwrap();
    });
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    drop(release);
}
