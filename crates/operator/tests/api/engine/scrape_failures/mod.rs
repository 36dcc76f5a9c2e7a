//! Pods whose metrics cannot be read or cannot be trusted. None of this counts as "no queries".

mod pod_proxy;

use std::fs;

use firebolt_api::EnginePhase::{Draining, Stable, Stopped};
use firebolt_api::{AutoStopReason, FireboltEngine};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::fixtures::{INSTANCE, engine, new_image, quick_to_stop};
use crate::kubelet::metrics_server::Answer;
use crate::testenv::{TestEnv, ready};

const NEW_IMAGE: &str = "registry.example/engine:2";
/// More than the operator may ever hold in memory, in one response.
const HUGE: usize = 100 << 20;
/// The peak memory that the operator may use with such responses, in KiB. One of them, read in full, would exceed it.
const MAX_MEMORY_KIB: u64 = 80 << 10;

/// A failure of the metrics endpoint.
struct ScrapeFailure {
    /// Also the name of the engine.
    name: &'static str,
    answer: Answer,
    /// The cause in the message.
    cause: &'static str,
}

fn text(running: &str, suspended: &str) -> Answer {
    let line = |gauge: &str, value: &str| format!("firebolt_{gauge}_queries {value}\n");
    Answer::Text(format!("{}{}", line("running", running), line("suspended", suspended)))
}

fn scrape_failures() -> Vec<ScrapeFailure> {
    let failure = |name, answer, cause| ScrapeFailure { name, answer, cause };
    let missing = "# TYPE firebolt_running_queries gauge\nfirebolt_running_queries 0\n";
    vec![
        failure("hang", Answer::Hang, "no response within 10s"),
        failure("refuse", Answer::Refuse, "connection refused at 127."),
        failure(
            "redirect",
            Answer::Redirect,
            "HTTP status 302; redirects are not followed",
        ),
        failure("error", Answer::Status(500), "HTTP status 500"),
        failure("empty", Answer::Empty, "the metric firebolt_running_queries is missing"),
        failure("huge", Answer::Huge(HUGE), "the metrics are larger than 1 MiB"),
        failure(
            "nan",
            text("NaN", "0"),
            "the metric firebolt_running_queries has the value \"NaN\", which is not a count",
        ),
        failure(
            "negative",
            text("0", "-1"),
            "the metric firebolt_suspended_queries has the value \"-1\", which is not a count",
        ),
        failure(
            "missing",
            Answer::Text(missing.to_owned()),
            "the metric firebolt_suspended_queries is missing",
        ),
    ]
}

/// A gauge that never decreases is not a failure: there may be a query that long.
const STUCK: Answer = Answer::Queries {
    running: 1,
    suspended: 0,
};

impl TestEnv {
    /// The number of failed scrapes of the engine.
    fn failed_counts(&self, engine: &str) -> f64 {
        let labels = format!(
            "namespace=\"{}\",name=\"{engine}\",instance=\"{INSTANCE}\"",
            self.namespace
        );
        let name = format!("firebolt_engine_drain_check_errors_total{{{labels}}}");
        self.operator().metric(&name).unwrap_or_default()
    }

    async fn wait_for_failed_counts(&self, engine: &str, more: f64) {
        let enough = self.failed_counts(engine) + more;
        let failed = async || (self.failed_counts(engine) >= enough).then_some(());
        self.eventually(&format!("{more} more counts of {engine} fail"), failed)
            .await;
    }

    /// The peak memory of the operator so far, in KiB.
    fn peak_memory_kib(&self) -> u64 {
        let scope = format!("\0--namespaces\0{}\0", self.namespace);
        let is_ours = |folder: &fs::DirEntry| {
            let line = fs::read(folder.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&scope)
        };
        let mut processes = fs::read_dir("/proc").unwrap().map_while(Result::ok);
        let ours = processes.find(is_ours).expect("the operator runs");
        let status = fs::read_to_string(ours.path().join("status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok());
        peak.unwrap_or_else(|| panic!("no VmHWM in {status}"))
    }
}

/// A generation whose queries cannot be counted is kept, however the scrape fails; the condition names pod and cause,
/// the counter grows, the operator reads a bounded amount, and the drain proceeds by itself once scrapes succeed again.
/// A gauge that never decreases counts as a running query.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_scrape_blocks_the_end_of_the_drain_until_it_succeeds() {
    let env = TestEnv::start().await;
    let failures = scrape_failures();
    let names: Vec<&str> = failures.iter().map(|failure| failure.name).chain(["stuck"]).collect();
    for name in &names {
        env.create(&engine(name).0).await;
    }
    for name in &names {
        env.wait_for_generation(name, 0).await;
        env.edit_engine(name, new_image(NEW_IMAGE)).await;
        env.node.metrics(&env.namespace, &format!("{name}-g0"), STUCK);
    }
    // All of them drain before the failures start, so that each is blocked by its failure and nothing else.
    for name in &names {
        env.wait_for_message(name, "generation 0 is draining: 1 query left.")
            .await;
    }
    for ScrapeFailure { name, answer, .. } in &failures {
        env.node.metrics(&env.namespace, &format!("{name}-g0"), answer.clone());
    }
    for ScrapeFailure { name, cause, .. } in &failures {
        let reported = env.wait_for_reason(name, "DrainCheckFailing").await;
        let expected = format!("Cannot read the running queries of pod {name}-g0-0 (generation 0): {cause}");
        assert!(
            reported.status == "False" && reported.message.starts_with(&expected),
            "{reported:?}"
        );
        assert!(env.failed_counts(name) >= 1.0, "{name} is not counted as failed");
    }
    env.wait_for_failed_counts("error", 2.0).await;
    for ScrapeFailure { name, .. } in &failures {
        assert_eq!(env.wait_for_event(name, "DrainCheckFailing").await.severity, "Warning");
        assert_eq!(env.wait_for_phase(name, Draining).await.draining_generation, Some(0));
        assert_eq!(env.generations(name).await, [0, 1], "{name} was taken for drained");
    }
    let stuck = ready(&env.the("stuck").await).unwrap();
    assert!(
        stuck.reason == "Rolling" && stuck.message.contains("1 query left"),
        "{stuck:?}"
    );
    assert!(env.failed_counts("stuck") < 1.0);
    let peak = env.peak_memory_kib();
    assert!(peak < MAX_MEMORY_KIB, "the operator has held {peak} KiB");

    for name in &names {
        env.node.metrics(&env.namespace, &format!("{name}-g0"), Answer::IDLE);
    }
    for name in &names {
        assert_eq!(env.wait_for_phase(name, Stable).await.active_generation, 1);
        env.wait_for_reason(name, "EngineReady").await;
    }
}

/// An engine is not stopped on missing data. It stays for several idle timeouts, and stops once scrapes show that it is
/// idle.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_is_not_stopped_while_scrapes_fail() {
    let env = TestEnv::start().await;
    let mut cases: Vec<_> = scrape_failures()
        .into_iter()
        .map(|failure| (failure.name, failure.answer, AutoStopReason::ScrapeFailed))
        .collect();
    cases.push(("stuck", STUCK, AutoStopReason::ActivityObserved));
    for (name, answer, _) in &cases {
        env.node.metrics(&env.namespace, name, answer.clone());
        env.create(&engine(name).auto_stop(quick_to_stop(1)).0).await;
    }
    for (name, _, reason) in &cases {
        let has_reason = |engine: &FireboltEngine| auto_stop_reason(engine) == Some(*reason);
        env.wait_for(name, &format!("reports {reason:?}"), has_reason).await;
    }
    for (name, _, reason) in &cases {
        // A hanging scrape takes many idle timeouts to fail; they have passed.
        let enough = SignedDuration::from_secs(if *name == "hang" { 0 } else { 3 });
        let used = |engine: &FireboltEngine| last_used(engine) >= created(engine) + enough;
        let kept = env.wait_for(name, "counts as used for three idle times", used).await;
        assert_eq!(
            (kept.spec.replicas, auto_stop_reason(&kept)),
            (1, Some(*reason)),
            "{name}"
        );
    }
    for (name, _, _) in &cases {
        env.node.metrics(&env.namespace, name, Answer::IDLE);
    }
    for (name, _, _) in &cases {
        env.wait_for(name, "is scaled down", |engine| engine.spec.replicas == 0)
            .await;
        env.wait_for_phase(name, Stopped).await;
    }
}

fn auto_stop_reason(engine: &FireboltEngine) -> Option<AutoStopReason> {
    engine.status.as_ref().and_then(|status| status.auto_stop_reason)
}

fn last_used(engine: &FireboltEngine) -> Timestamp {
    let status = engine.status.as_ref();
    let used = status.and_then(|status| status.last_activity_time.as_ref());
    used.unwrap_or_else(|| panic!("{} was never seen in use", engine.name_any()))
        .0
}

fn created(engine: &FireboltEngine) -> Timestamp {
    engine.creation_timestamp().expect("it is stored").0
}

/// An unresponsive pod delays its own engine and no other: another one is scraped, and drained, while the scrape of the
/// first is still running.
#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_engine_does_not_delay_another() {
    let env = TestEnv::start().await;
    for (name, answer) in [("hung", Answer::Hang), ("well", STUCK)] {
        env.deploy(&engine(name)).await;
        env.node.metrics(&env.namespace, &format!("{name}-g0"), answer);
        env.edit_engine(name, new_image(NEW_IMAGE)).await;
    }
    env.wait_for_message("well", "1 query left").await;
    // A scrape was running while the other engine was scraped, unless it has failed by then.
    let overlap = async || {
        let asked = env.node.scrapes(&env.namespace, "hung-g0");
        env.wait_for_scrapes("well-g0", 1).await;
        let failed = env.failed_counts("hung");
        let asked = f64::from(u32::try_from(asked).unwrap());
        (failed < asked).then_some(())
    };
    env.eventually("one is asked while the other hangs", overlap).await;
    env.node.metrics(&env.namespace, "well-g0", Answer::IDLE);
    assert_eq!(env.wait_for_phase("well", Stable).await.active_generation, 1);
    assert_eq!(env.wait_for_phase("hung", Draining).await.draining_generation, Some(0));
}
