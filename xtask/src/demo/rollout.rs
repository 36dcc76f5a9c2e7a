//! The live view of a rollout: a line for each phase, and how the queries fare meanwhile.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use firebolt_api::key::Label;
use firebolt_api::{EnginePhase, FireboltEngine, FireboltEngineStatus};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::WatchParams;
use kube::{Api, Client, ResourceExt as _};

use super::load::{Counts, Load};
use super::screen::Screen;
use super::{ENGINE, NAMESPACE, Result, watch};

/// What is known of the rollout at the moment.
#[derive(Debug)]
struct View {
    status: FireboltEngineStatus,
    /// The pods of the newest generation that are ready, and how many there are to be.
    ready: BTreeSet<String>,
    desired: i32,
    since: Instant,
    counts: Counts,
}

/// Shows the rollout that has just been asked for, until it is over, and returns the generation that serves then.
pub(super) async fn show(
    screen: &mut Screen,
    client: &Client,
    load: &mut Load,
    before: &FireboltEngine,
) -> Result<i64> {
    let engines: Api<FireboltEngine> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let named = WatchParams::default().fields(&format!("metadata.name={ENGINE}"));
    let labelled = WatchParams::default().labels(&format!("{}={ENGINE}", Label::Engine));
    let mut engines = watch::changes(&engines, named).await?;
    let mut pods = watch::changes(&pods, labelled).await?;
    let first = before.status.clone().ok_or("read the status of the engine")?;
    let asked = before.metadata.generation;
    let mut view = View::new(first);
    loop {
        tokio::select! {
            change = engines.next() => {
                let (engine, _) = change.ok_or("wait for the rollout: it takes too long")??;
                let Some(status) = engine.status else { continue };
                if let Some(line) = view.take(status, engine.spec.replicas) {
                    screen.line(&line)?;
                }
                let seen = view.status.observed_generation;
                if view.status.phase == Some(EnginePhase::Stable) && seen > asked && seen == engine.metadata.generation {
                    return Ok(view.status.active_generation);
                }
            }
            change = pods.next() => {
                let (pod, exists) = change.ok_or("wait for the pods: it takes too long")??;
                view.see(&pod, exists);
            }
            counts = load.next() => view.counts = counts?,
        }
        screen.passing(&view.passing())?;
    }
}

impl View {
    fn new(status: FireboltEngineStatus) -> Self {
        Self {
            status,
            ready: BTreeSet::new(),
            desired: 0,
            since: Instant::now(),
            counts: Counts::default(),
        }
    }

    /// Updates the view with the status, and returns the line about the phase that has ended, if one has.
    fn take(&mut self, status: FireboltEngineStatus, desired: i32) -> Option<String> {
        self.desired = desired;
        if self.status.current_generation != status.current_generation {
            self.ready.clear();
        }
        let mut over = None;
        if self.status.phase != status.phase {
            over = self.phase(self.since.elapsed());
            self.since = Instant::now();
        }
        self.status = status;
        over
    }

    fn see(&mut self, pod: &Pod, exists: bool) {
        let current = self.status.current_generation.to_string();
        if pod.labels().get(Label::Generation.key()) != Some(&current) {
            return;
        }
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if exists && ready {
            self.ready.insert(pod.name_any());
        } else {
            self.ready.remove(&pod.name_any());
        }
    }

    /// The line about the current phase, unless there is nothing to wait for. In a drain, it contains the last count of
    /// running queries.
    fn phase(&self, took: Duration) -> Option<String> {
        let status = &self.status;
        let phase = status.phase?;
        let old = status.draining_generation.unwrap_or(status.current_generation);
        let (generation, detail) = match phase {
            EnginePhase::Stable | EnginePhase::Stopped => return None,
            EnginePhase::Creating => (
                status.current_generation,
                format!("pods {}/{}", self.ready.len(), self.desired),
            ),
            EnginePhase::Switching => (status.current_generation, String::new()),
            EnginePhase::Draining => (old, queries_left(watch::news(&status.conditions)).to_owned()),
            EnginePhase::Cleaning => (old, String::new()),
        };
        let seconds = took.as_secs_f64();
        let phase = phase.to_string();
        Some(format!("  {phase:<10} g{generation:<3} {detail:<20} {seconds:5.1} s"))
    }

    fn passing(&self) -> String {
        let Counts { answered, failed, .. } = self.counts;
        let phase = self.phase(self.since.elapsed()).unwrap_or_default();
        format!("{phase}   {} served, {failed} failed", grouped(answered))
    }
}

/// The end of the operator's sentence about a drain, if it has counted.
fn queries_left(news: &str) -> &str {
    let left = news.rsplit(": ").next().unwrap_or(news);
    left.strip_suffix(" left.").map_or("", |_| left.trim_end_matches('.'))
}

/// The number with a space between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(phase: &str, current: i64, draining: Option<i64>, message: &str) -> FireboltEngineStatus {
        let ready = json!({ "type": "Ready", "status": "False", "reason": "Rolling", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let status = json!({ "phase": phase, "currentGeneration": current, "activeGeneration": 0,
            "drainingGeneration": draining, "conditions": [ready] });
        serde_json::from_value(status).expect("a status")
    }

    fn pod(name: &str, generation: &str) -> Pod {
        let pod = json!({ "metadata": { "name": name, "labels": { Label::Generation.key(): generation } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        serde_json::from_value(pod).expect("a pod")
    }

    #[test]
    fn each_phase_has_a_line_when_it_is_over() {
        let mut view = View::new(status("stable", 0, None, "Generation 0 is serving queries."));
        view.see(&pod("a-g0-0", "0"), true);
        let mut lines = vec![view.take(status("creating", 1, None, "0 of 2 pods ready."), 2)];
        for (name, generation) in [("a-g0-0", "0"), ("a-g1-0", "1"), ("a-g1-1", "1")] {
            view.see(&pod(name, generation), true);
        }
        view.see(&pod("a-g1-1", "1"), false);
        let left = "Generation 1 is serving queries; generation 0 is draining: 2 queries left.";
        lines.push(view.take(status("switching", 1, None, ""), 2));
        lines.push(view.take(status("draining", 1, Some(0), "… is draining: not counted yet."), 2));
        lines.push(view.take(status("draining", 1, Some(0), left), 2));
        lines.push(view.take(status("cleaning", 1, Some(0), "… is being deleted."), 2));
        lines.push(view.take(status("stable", 1, None, "Generation 1 is serving queries."), 2));
        let expected = [
            "  creating   g1   pods 1/2               0.0 s",
            "  switching  g1                          0.0 s",
            "  draining   g0   2 queries left         0.0 s",
            "  cleaning   g0                          0.0 s",
        ];
        assert_eq!(lines.into_iter().flatten().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_drain_that_was_never_counted_has_no_number() {
        assert_eq!(queries_left("Generation 0 is draining: not counted yet."), "");
        assert_eq!(queries_left("Generation 0 is draining: 1 query left."), "1 query left");
    }

    #[test]
    fn numbers_are_read_in_groups() {
        let numbers = [0, 999, 1000, 12_418, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1 000", "12 418", "1 234 567"]);
    }
}
