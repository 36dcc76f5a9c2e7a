//! Writes that are rejected, cut off, or get no response.

use std::time::Duration;

use firebolt_api::EnginePhase::Stopped;
use firebolt_api::key::{Annotation, Finalizer};
use firebolt_runtime::client::READ_TIMEOUT;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::json;
use testkit::wait::SOON;

use super::testenv::{ENGINE, ProxiedEnv};
use crate::fault_proxy::{Fault, Outcome, ProxiedWrite, Verb, answer, every, writes};
use crate::fixtures::{engine, slow_to_stop};

/// However writes fail, and each of them does, the engine ends as if none had.
#[rstest]
#[case::conflict(answer(409), 1)]
#[case::storm_of_conflicts(answer(409), 3)]
#[case::error(answer(500), 1)]
#[case::unavailable(answer(503), 1)]
#[case::reset(Fault::CutBefore, 1)]
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_converges_if_every_write_fails_at_first(#[case] fault: Fault, #[case] in_a_row: usize) {
    let proxied = ProxiedEnv::start().await;
    let rule = proxied.proxy.on(writes().in_a_row(in_a_row, 0), fault);
    proxied.deploy_and_change().await;
    proxied.at_rest(1).await;
    let tried = proxied.proxy.writes();
    let stored = tried.iter().filter(|write| write.is_stored()).count();
    assert!(
        rule.struck() >= stored.div_ceil(2),
        "{} of {} failed",
        rule.struck(),
        tried.len()
    );
}

/// An overloaded server responds with `Retry-After`, and no request is retried sooner.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_write_is_retried_no_sooner_than_retry_after() {
    let pause = Duration::from_secs(1);
    let fault = Fault::Answer {
        code: 429,
        retry_after: Some(pause.as_secs()),
    };
    let proxied = ProxiedEnv::start().await;
    let resources = ["statefulsets", "configmaps", "fireboltengines"];
    let rules = resources.map(|resource| proxied.proxy.on(writes().of(resource).next(1), fault.clone()));
    proxied.env.create(&engine(ENGINE).0).await;
    proxied.at_rest(0).await;
    let asked = proxied.proxy.writes();
    for (resource, rule) in resources.into_iter().zip(rules) {
        assert_eq!(rule.struck(), 1, "{resource}");
        let first = asked.iter().position(|write| write.call.resource == resource).unwrap();
        let again = asked[first + 1..]
            .iter()
            .find(|write| write.call == asked[first].call)
            .unwrap();
        let waited = again.at - asked[first].at;
        assert!(waited >= pause, "{resource}: tried again after {waited:?}");
    }
}

/// A write without a response delays its own engine until the request times out, and no other engine.
#[rstest]
#[case::of_a_child("statefulsets")]
#[case::of_the_engine("fireboltengines")]
#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_a_response_times_out_and_is_retried(#[case] resource: &str) {
    let proxied = ProxiedEnv::start().await;
    let name = if resource == "statefulsets" { "a-g0" } else { ENGINE };
    let rule = proxied.proxy.on(writes().of(resource).named(name).next(1), Fault::Hold);
    proxied.env.create(&engine(ENGINE).0).await;
    rule.happened().await;
    proxied.env.create(&engine("other").0).await;
    proxied.env.wait_for_generation("other", 0).await;
    let held = |writes: &[ProxiedWrite]| {
        writes
            .iter()
            .filter(|write| write.call.name.as_deref() == Some(name))
            .count()
            > 1
    };
    let proxy = &proxied.proxy;
    proxy.wait_for_writes_within(READ_TIMEOUT + SOON, "it is retried", held);
    proxied.env.wait_for_generation(ENGINE, 0).await;
    // The first attempt arrives at last, long after the second was carried out.
    rule.release();
    proxied.proxy.wait_for_writes("the late one is answered", |writes| {
        writes.iter().all(|write| write.outcome != Outcome::Pending)
    });
    proxied.change(1).await;
    proxied.env.wait_for_generation(ENGINE, 1).await;
    proxied.invariants.hold().await;
}

/// Events are for users; no engine waits for them.
#[rstest]
#[case::refused(answer(500))]
#[case::never_answered(Fault::Hold)]
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_does_not_wait_for_its_events(#[case] fault: Fault) {
    let proxied = ProxiedEnv::start().await;
    proxied.proxy.on(every(Verb::Create, "events"), fault.clone());
    proxied.proxy.on(every(Verb::Patch, "events"), fault);
    proxied.deploy_and_change().await;
    proxied.at_rest(1).await;
}

/// How many engines get no response: more than there are workers.
const SILENT: usize = 40;

/// A wake is not stuck behind other work: every worker waits for an answer, many engines wait for a worker, and the
/// wake overtakes them all. In the order of arrival, each of the others would have had its turn first.
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_request_overtakes_engines_whose_writes_get_no_response() {
    let proxied = ProxiedEnv::start().await;
    let stopped = engine(ENGINE).replicas(0).auto_stop(slow_to_stop(1));
    proxied.env.create(&stopped.0).await;
    proxied.env.wait_for_phase(ENGINE, Stopped).await;
    let finalizer = writes().of("fireboltengines").saying(Finalizer::Engine.key());
    let rule = proxied.proxy.on(finalizer, Fault::Hold);
    for number in 0..SILENT {
        proxied.env.create(&engine(&format!("silent-{number}")).0).await;
    }
    rule.happened().await;
    let now = Timestamp::now().to_string();
    let wake = json!({ "metadata": { "annotations": { Annotation::WakeRequested.key(): now } } });
    proxied.env.edit_engine(ENGINE, wake).await;
    proxied
        .env
        .wait_for(ENGINE, "is woken", |engine| engine.spec.replicas == 1)
        .await;
    assert!(rule.struck() < SILENT, "{} others were reconciled first", rule.struck());
    rule.release();
}
