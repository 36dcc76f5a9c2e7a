//! What became of all queries, and whether it agrees with what ran.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::ledger::{Executions, Ledger};

/// How many faults of a kind are printed in full.
const LISTED: usize = 5;

/// What became of all queries.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The identifiers of the queries that were answered with 200.
    pub answered: Vec<String>,
    /// The queries that failed.
    pub failures: Vec<Failure>,
    latencies: Vec<Duration>,
}

/// A query that failed. It may have run nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The identifier of the query.
    pub id: String,
    /// What came in place of an answer.
    pub reason: String,
}

/// How long answers took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// None took longer.
    pub max: Duration,
}

/// What is wrong with a run. Nothing, if all lists are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Faults {
    /// The queries that ran more than once, with the pods that they ran on.
    pub ran_twice: Executions,
    /// The queries that were answered and did not run.
    pub lost: Vec<String>,
    /// The queries that failed.
    pub failures: Vec<Failure>,
}

impl Report {
    pub(super) fn answer(&mut self, id: String, latency: Duration) {
        self.answered.push(id);
        self.latencies.push(latency);
    }

    pub(super) fn merged(reports: Vec<Self>) -> Self {
        let mut whole = Self::default();
        for report in reports {
            let Self {
                answered,
                failures,
                latencies,
            } = report;
            whole.answered.extend(answered);
            whole.failures.extend(failures);
            whole.latencies.extend(latencies);
        }
        whole.latencies.sort_unstable();
        whole
    }

    /// How long the answers took that were 200.
    #[must_use]
    pub fn latency(&self) -> Latency {
        let percentile = |percent: usize| {
            let rank = (self.latencies.len() * percent).div_ceil(100);
            self.latencies.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        Latency {
            p50: percentile(50),
            p99: percentile(99),
            max: percentile(100),
        }
    }

    /// Fails unless every query was answered, every one that was answered ran, and none ran twice.
    pub fn check(&self, ledger: &Ledger) -> Result<(), Faults> {
        let faults = self.faults(ledger);
        if faults == Faults::default() {
            Ok(())
        } else {
            Err(faults)
        }
    }

    /// What is wrong, for runs in which something has to be, such as when an engine is killed.
    #[must_use]
    pub fn faults(&self, ledger: &Ledger) -> Faults {
        let executions = ledger.executions();
        let lost = self.answered.iter().filter(|id| !executions.contains_key(*id));
        Faults {
            lost: lost.cloned().collect(),
            failures: self.failures.clone(),
            ran_twice: executions.into_iter().filter(|(_, pods)| pods.len() > 1).collect(),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ran_twice,
            lost,
            failures,
        } = self;
        let (twice, gone, failed) = (ran_twice.len(), lost.len(), failures.len());
        write!(f, "{twice} queries ran twice, {gone} were lost, {failed} failed")?;
        for (id, pods) in ran_twice.iter().take(LISTED) {
            write!(f, "\n{id} ran on {}", pods.join(" and "))?;
        }
        for id in lost.iter().take(LISTED) {
            write!(f, "\n{id} was answered and never ran")?;
        }
        for Failure { id, reason } in failures.iter().take(LISTED) {
            write!(f, "\n{id} failed: {reason}")?;
        }
        Ok(())
    }
}
