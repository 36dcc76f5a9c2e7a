//! D1: pods whose metrics cannot be had or cannot be believed. None of it ever passes for "no queries".

mod apiserver;

use std::fs;

use firebolt_api::EnginePhase::{Draining, Stable, Stopped};
use firebolt_api::{AutoStopReason, FireboltEngine};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::fixture::{INSTANCE, engine, new_image, quick_to_stop};
use crate::metrics_server::Answer;
use crate::scene::{Scene, ready};

const NEW_IMAGE: &str = "registry.example/engine:2";
/// More than the operator may ever hold, in one answer.
const HUGE: usize = 100 << 20;
/// The most memory that the operator may ever have held in the presence of such answers, in KiB. Read whole, one of them
/// would already be above.
const MOST_MEMORY: u64 = 80 << 10;

/// A way not to answer.
struct Fault {
    /// Of the engine too.
    name: &'static str,
    answer: Answer,
    /// What is said about it.
    cause: &'static str,
}

fn text(running: &str, suspended: &str) -> Answer {
    let line = |gauge: &str, value: &str| format!("firebolt_{gauge}_queries {value}\n");
    Answer::Text(format!("{}{}", line("running", running), line("suspended", suspended)))
}

fn faults() -> Vec<Fault> {
    let fault = |name, answer, cause| Fault { name, answer, cause };
    let missing = "# TYPE firebolt_running_queries gauge\nfirebolt_running_queries 0\n";
    vec![
        fault("hang", Answer::Hang, "no answer within 10s"),
        fault("refuse", Answer::Refuse, "connection refused at 127."),
        fault(
            "redirect",
            Answer::Redirect,
            "answered 302, and redirects are not followed",
        ),
        fault("error", Answer::Status(500), "answered 500"),
        fault("empty", Answer::Empty, "the metrics have no firebolt_running_queries"),
        fault("huge", Answer::Huge(HUGE), "the metrics are larger than 1 MiB"),
        fault(
            "nan",
            text("NaN", "0"),
            "the metrics say \"NaN\" for firebolt_running_queries, which is no count",
        ),
        fault(
            "negative",
            text("0", "-1"),
            "the metrics say \"-1\" for firebolt_suspended_queries, which is no count",
        ),
        fault(
            "missing",
            Answer::Text(missing.to_owned()),
            "the metrics have no firebolt_suspended_queries",
        ),
    ]
}

/// A gauge that never goes down is no failure: somebody may well have a query that long.
const STUCK: Answer = Answer::Queries {
    running: 1,
    suspended: 0,
};

impl Scene {
    /// How many counts of the engine have failed.
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

    /// The most memory that the operator has held so far, in KiB.
    fn most_memory(&self) -> u64 {
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

/// Invariants 6 and 15: a generation whose queries cannot be counted is kept, however the count fails; the condition
/// names pod and cause, the counter grows, the operator reads no more than it needs, and the drain goes on by itself
/// when the answers come back. A gauge that is stuck is a query that runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_fails_holds_the_drain_until_it_succeeds() {
    let scene = Scene::begin().await;
    let faults = faults();
    let names: Vec<&str> = faults.iter().map(|fault| fault.name).chain(["stuck"]).collect();
    for name in &names {
        scene.create(&engine(name).0).await;
    }
    for name in &names {
        scene.wait_for_generation(name, 0).await;
        scene.edit_engine(name, new_image(NEW_IMAGE)).await;
        scene.node.metrics(&scene.namespace, &format!("{name}-g0"), STUCK);
    }
    // All of them drain before anything goes wrong, so that each is held by the fault and nothing else.
    for name in &names {
        scene
            .wait_for_message(name, "generation 0 finishes its queries: 1 query left.")
            .await;
    }
    for Fault { name, answer, .. } in &faults {
        scene
            .node
            .metrics(&scene.namespace, &format!("{name}-g0"), answer.clone());
    }
    for Fault { name, cause, .. } in &faults {
        let said = scene.wait_for_reason(name, "DrainCheckFailing").await;
        let expected = format!("The running queries of pod {name}-g0-0 (generation 0) cannot be read: {cause}");
        assert!(
            said.status == "False" && said.message.starts_with(&expected),
            "{said:?}"
        );
        assert!(scene.failed_counts(name) >= 1.0, "{name} is not counted as failed");
    }
    scene.wait_for_failed_counts("error", 2.0).await;
    for Fault { name, .. } in &faults {
        assert_eq!(
            scene.wait_for_event(name, "DrainCheckFailing").await.severity,
            "Warning"
        );
        assert_eq!(scene.wait_for_phase(name, Draining).await.draining_generation, Some(0));
        assert_eq!(scene.generations(name).await, [0, 1], "{name} was taken for drained");
    }
    let stuck = ready(&scene.the("stuck").await).unwrap();
    assert!(
        stuck.reason == "Rolling" && stuck.message.contains("1 query left"),
        "{stuck:?}"
    );
    assert!(scene.failed_counts("stuck") < 1.0);
    let peak = scene.most_memory();
    assert!(peak < MOST_MEMORY, "the operator has held {peak} KiB");

    for name in &names {
        scene
            .node
            .metrics(&scene.namespace, &format!("{name}-g0"), Answer::IDLE);
    }
    for name in &names {
        assert_eq!(scene.wait_for_phase(name, Stable).await.active_generation, 1);
        scene.wait_for_reason(name, "EngineReady").await;
    }
}

/// Invariant 11: an engine is not stopped on missing data. Several idle times pass, and it stays; it stops once it can
/// be seen that nobody uses it.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_fails_stops_no_engine() {
    let scene = Scene::begin().await;
    let mut cases: Vec<_> = faults()
        .into_iter()
        .map(|fault| (fault.name, fault.answer, AutoStopReason::ScrapeFailed))
        .collect();
    cases.push(("stuck", STUCK, AutoStopReason::ActivityObserved));
    for (name, answer, _) in &cases {
        scene.node.metrics(&scene.namespace, name, answer.clone());
        scene.create(&engine(name).auto_stop(quick_to_stop(1)).0).await;
    }
    for (name, _, reason) in &cases {
        let says = |engine: &FireboltEngine| said(engine) == Some(*reason);
        scene.wait_for(name, &format!("says {reason:?}"), says).await;
    }
    for (name, _, reason) in &cases {
        // One that hangs takes many idle times to say so, and has had them.
        let enough = SignedDuration::from_secs(if *name == "hang" { 0 } else { 3 });
        let used = |engine: &FireboltEngine| last_used(engine) >= created(engine) + enough;
        let kept = scene.wait_for(name, "counts as used for three idle times", used).await;
        assert_eq!((kept.spec.replicas, said(&kept)), (1, Some(*reason)), "{name}");
    }
    for (name, _, _) in &cases {
        scene.node.metrics(&scene.namespace, name, Answer::IDLE);
    }
    for (name, _, _) in &cases {
        scene
            .wait_for(name, "is scaled down", |engine| engine.spec.replicas == 0)
            .await;
        scene.wait_for_phase(name, Stopped).await;
    }
}

fn said(engine: &FireboltEngine) -> Option<AutoStopReason> {
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

/// A pod that does not answer holds up its own engine and no other: another one is asked, and drained, while the
/// question to the first is still open.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_hangs_does_not_hold_up_another() {
    let scene = Scene::begin().await;
    for (name, answer) in [("hung", Answer::Hang), ("well", STUCK)] {
        scene.deploy(&engine(name)).await;
        scene.node.metrics(&scene.namespace, &format!("{name}-g0"), answer);
        scene.edit_engine(name, new_image(NEW_IMAGE)).await;
    }
    scene.wait_for_message("well", "1 query left").await;
    // A question was open while the other engine was asked, if it has not failed by then.
    let overlap = async || {
        let asked = scene.node.scrapes(&scene.namespace, "hung-g0");
        scene.wait_for_scrapes("well-g0", 1).await;
        let failed = scene.failed_counts("hung");
        let asked = f64::from(u32::try_from(asked).unwrap());
        (failed < asked).then_some(())
    };
    scene.eventually("one is asked while the other hangs", overlap).await;
    scene.node.metrics(&scene.namespace, "well-g0", Answer::IDLE);
    assert_eq!(scene.wait_for_phase("well", Stable).await.active_generation, 1);
    assert_eq!(
        scene.wait_for_phase("hung", Draining).await.draining_generation,
        Some(0)
    );
}
