//! The metrics of the agent.

use std::fmt::Write as _;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::hold::Occupancy;

/// Every value of the label `answer`. No label ever contains text that a client sent.
const ANSWERS: [&str; 12] = [
    "ready",
    "reachable",
    "released",
    "fail_open",
    "malformed",
    "not_found",
    "stopped",
    "not_allowed",
    "full",
    "timed_out",
    "closing",
    "gone",
];

/// The buckets of the wait in seconds: an engine that is running takes a moment, one that has to be scheduled takes
/// minutes.
const WAITS: [f64; 11] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabel {
    answer: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// The metrics of the process.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<AnswerLabel, Counter>,
    /// Requests that were held.
    pub(crate) holds: Counter,
    wait: Histogram,
    patches: Family<OutcomeLabel, Counter>,
    listings: Family<OutcomeLabel, Counter>,
    probes: Family<OutcomeLabel, Counter>,
    waiting: Gauge,
    waiting_bytes: Gauge,
    synced: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("firebolt_gateway_wake"),
            requests: Family::default(),
            holds: Counter::default(),
            wait: Histogram::new(WAITS),
            patches: Family::default(),
            listings: Family::default(),
            probes: Family::default(),
            waiting: Gauge::default(),
            waiting_bytes: Gauge::default(),
            synced: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "requests",
            "Total number of requests from Envoy, by answer",
            self.requests.clone(),
        );
        registry.register("holds", "Total number of held requests", self.holds.clone());
        registry.register("wait_seconds", "How long requests were held", self.wait.clone());
        registry.register(
            "patches",
            "Total number of patches of the wake annotation, by outcome",
            self.patches.clone(),
        );
        registry.register(
            "listings",
            "Total number of list requests, by outcome",
            self.listings.clone(),
        );
        registry.register(
            "probes",
            "Total number of probes of engines, by outcome",
            self.probes.clone(),
        );
        registry.register("waiting", "Requests that are held", self.waiting.clone());
        registry.register(
            "waiting_bytes",
            "Memory in Envoy that held requests may occupy",
            self.waiting_bytes.clone(),
        );
        registry.register(
            "synced",
            "1 after the first successful list of engines",
            self.synced.clone(),
        );
        // A series that has not been counted yet is zero, not absent.
        for answer in ANSWERS {
            drop(self.requests.get_or_create(&AnswerLabel { answer }));
        }
        let outcomes = [
            (&self.patches, &["stored", "refused", "failed"][..]),
            (&self.listings, &["listed", "failed"]),
            (&self.probes, &["reached", "missed"]),
        ];
        for (family, outcomes) in outcomes {
            for outcome in outcomes {
                drop(family.get_or_create(&OutcomeLabel { outcome }));
            }
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, answer: &'static str) {
        self.requests.get_or_create(&AnswerLabel { answer }).inc();
    }

    /// A held request was answered, or its client disconnected.
    pub(crate) fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }

    /// A patch has ended.
    pub(crate) fn patched(&self, outcome: &'static str) {
        self.patches.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// A listing has ended.
    pub(crate) fn listed(&self, succeeded: bool) {
        let outcome = if succeeded { "listed" } else { "failed" };
        self.listings.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// A probe has ended.
    pub(crate) fn probed(&self, reached: bool) {
        let outcome = if reached { "reached" } else { "missed" };
        self.probes.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// All metrics in the text format 0.0.4 of Prometheus, which Envoy uses.
    pub(crate) fn render(&self, occupancy: Occupancy) -> String {
        self.waiting.set(i64::try_from(occupancy.waiting).unwrap_or(i64::MAX));
        self.waiting_bytes
            .set(i64::try_from(occupancy.bytes).unwrap_or(i64::MAX));
        self.synced.set(occupancy.synced.into());
        let mut text = String::new();
        encode_registry(&mut text, &self.registry).expect("writing to a string does not fail");
        to_text_format(&text)
    }
}

/// The encoder writes the `OpenMetrics` format, where the name in the description of a counter does not end in `_total`
/// as its samples do. In the text format it has to.
fn to_text_format(text: &str) -> String {
    let mut older = String::with_capacity(text.len() + 256);
    let mut help = None;
    for line in text.lines() {
        if line.starts_with("# HELP ") {
            help = Some(line);
            continue;
        }
        let described = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '));
        let suffix = if described.is_some_and(|(_, kind)| kind == "counter") {
            "_total"
        } else {
            ""
        };
        if let Some((name, kind)) = described {
            let text = help.take().and_then(|help| help.splitn(4, ' ').nth(3));
            if let Some(text) = text {
                let _ = writeln!(older, "# HELP {name}{suffix} {text}");
            }
            let _ = writeln!(older, "# TYPE {name}{suffix} {kind}");
        } else {
            older.push_str(line);
            older.push('\n');
        }
    }
    older
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Occupancy = Occupancy {
        waiting: 3,
        bytes: 200_000,
        synced: true,
    };

    #[test]
    fn metrics_are_written_in_the_format_of_envoy() {
        let metrics = Metrics::default();
        metrics.answered("ready");
        metrics.holds.inc();
        metrics.waited(Duration::from_millis(300));
        metrics.patched("stored");
        metrics.listed(false);
        metrics.probed(true);
        // The samples of a metric have no fixed order.
        let text = metrics.render(SOME);
        let (text, samples): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('#'));
        insta::assert_snapshot!(text.join("\n"));
        for sample in [
            "requests_total{answer=\"ready\"} 1",
            "requests_total{answer=\"gone\"} 0",
            "holds_total 1",
            "wait_seconds_bucket{le=\"0.5\"} 1",
            "patches_total{outcome=\"stored\"} 1",
            "listings_total{outcome=\"failed\"} 1",
            "probes_total{outcome=\"reached\"} 1",
            "waiting 3",
            "waiting_bytes 200000",
            "synced 1",
        ] {
            let sample = format!("firebolt_gateway_wake_{sample}");
            assert!(samples.contains(&sample.as_str()), "{sample} is not in {samples:?}");
        }
    }

    #[test]
    fn every_sample_belongs_to_the_metric_that_is_described_before_it() {
        let text = Metrics::default().render(SOME);
        let mut described = String::new();
        for line in text.lines() {
            assert_ne!(line, "# EOF");
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                described = rest.split(' ').next().unwrap().to_owned();
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let base = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| name.strip_suffix(end));
                assert!(
                    name == described || base == Some(&described),
                    "{line} after {described}"
                );
            }
        }
    }
}
