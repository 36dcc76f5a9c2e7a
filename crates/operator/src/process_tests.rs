use std::future::pending;
use std::time::Duration;

use axum::Router;
use clap::Parser;

use super::*;
use crate::cli::{Cli, Command};
use crate::leader::decide::Loss;

/// A process that works for ever, whatever it is told, and an election that ends as given.
fn stubborn(election: impl Future<Output = Ended> + Send + 'static) -> Parts {
    let Command::Run(arguments) = Cli::parse_from(["firebolt-operator", "run"]).command else {
        panic!("parsed as another command");
    };
    let surroundings = Surroundings {
        namespace: "ns".into(),
        host_name: "host".into(),
        nonce: 0,
    };
    let settings = Arc::new(Settings::resolve(*arguments, surroundings));
    // Knows nothing, so that the watches have something to fail on.
    let client = Client::new(Router::new(), "ns");
    let mut watches = JoinSet::new();
    let metrics = Arc::new(Metrics::new(VERSION, SystemTime::UNIX_EPOCH));
    let inboxes = Inboxes::default();
    let caches = Arc::new(Caches::start(&client, &settings, &metrics, &mut watches, &inboxes));
    let probes = engine::pool(client.clone(), &caches, &inboxes.engines, &metrics);
    let (_, reports) = watch::channel(Report::LEADING);
    let timing = Timing {
        duration: Duration::from_secs(15),
    };
    Parts {
        lease: Some(LeaseHandle::new(client.clone(), "ns", "lease", "me", timing)),
        context: Context {
            client,
            settings,
            caches,
            inboxes,
            probes,
            metrics,
            term: Term::new(reports),
        },
        election: tokio::spawn(election),
        work: tokio::spawn(pending()),
        watches,
        servers: JoinSet::new(),
        stop_work: CancellationToken::new(),
        stop_election: CancellationToken::new(),
        stop_servers: CancellationToken::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_while_work_drains_ends_the_process_at_once() {
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
async fn work_that_does_not_end_is_waited_for_until_the_timeout() {
    let start = Instant::now();
    let failure = stubborn(pending()).stop().await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "cannot stop within 10s: the work of the leader did not end"
    );
    assert!(start.elapsed() >= Duration::from_secs(10));
}

#[test]
fn the_end_does_not_wait_for_blocking_calls() {
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
