//! Where the time of a tier goes, and what failed how often.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use super::libtest::TestOutcome;
use super::program::Run;

/// How many of the slowest tests are shown.
const SLOWEST: usize = 10;

/// One run of a tier.
pub(super) struct Round {
    pub(super) programs: Vec<Run>,
    pub(super) took: Duration,
    /// Whether a core was kept busy.
    pub(super) is_busy: bool,
}

impl Round {
    fn has_failures(&self) -> bool {
        self.programs.iter().any(|run| !run.succeeded)
    }

    /// The time of every program, the slowest tests, and what failed.
    pub(super) fn summary(&self, tier: impl Display) -> String {
        let count = |outcome| self.programs.iter().map(|run| run.count(outcome)).sum::<usize>();
        let mut text = format!(
            "\n--- {tier}: {} passed, {} failed, {} ignored, in {} ---\n",
            count(TestOutcome::Passed),
            count(TestOutcome::Failed),
            count(TestOutcome::Ignored),
            seconds(self.took),
        );
        let mut programs: Vec<&Run> = self.programs.iter().collect();
        programs.sort_by_key(|run| std::cmp::Reverse(run.took));
        for run in programs {
            let tests = run.tests.len() - run.count(TestOutcome::Ignored);
            let _ = writeln!(text, "{:>9}  {} ({tests} tests)", seconds(run.took), run.label);
        }
        let mut tests: Vec<(Duration, &Run, &str)> = self
            .programs
            .iter()
            .flat_map(|run| run.tests.iter().map(move |test| (test.took, run, test.name.as_str())))
            .collect();
        tests.sort_by_key(|(took, ..)| std::cmp::Reverse(*took));
        text.push_str("slowest tests:\n");
        for (took, run, name) in tests.into_iter().take(SLOWEST) {
            let _ = writeln!(text, "{:>9}  {}: {name}", seconds(took), run.label);
        }
        for run in self.programs.iter().filter(|run| !run.succeeded) {
            let _ = writeln!(text, "failed: {}", run.label);
            for test in run.tests.iter().filter(|test| test.outcome == TestOutcome::Failed) {
                let _ = writeln!(text, "    {}", test.name);
            }
        }
        text
    }
}

/// What happened to one test in all runs.
#[derive(Default)]
struct History {
    runs: usize,
    failures: usize,
    failures_while_busy: usize,
    slowest: Duration,
}

/// All runs of a tier.
#[derive(Default)]
pub(super) struct Report {
    rounds: Vec<Round>,
}

impl Report {
    pub(super) fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    pub(super) fn has_failures(&self) -> bool {
        self.rounds.iter().any(Round::has_failures)
    }

    /// By the names of program and test. A program that died has an entry of its own.
    fn histories(&self) -> BTreeMap<String, History> {
        let mut histories: BTreeMap<String, History> = BTreeMap::new();
        for round in &self.rounds {
            for run in &round.programs {
                let died = !run.succeeded && run.count(TestOutcome::Failed) == 0;
                let of_program = died.then(|| (format!("{} (the program itself)", run.label), true, run.took));
                let ran = run.tests.iter().filter(|test| test.outcome != TestOutcome::Ignored);
                let of_tests = ran.map(|test| {
                    let name = format!("{}: {}", run.label, test.name);
                    (name, test.outcome == TestOutcome::Failed, test.took)
                });
                for (name, failed, took) in of_tests.chain(of_program) {
                    let history = histories.entry(name).or_default();
                    history.runs += 1;
                    history.failures += usize::from(failed);
                    history.failures_while_busy += usize::from(failed && round.is_busy);
                    history.slowest = history.slowest.max(took);
                }
            }
        }
        histories
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.rounds.iter().filter(|round| round.has_failures()).count();
        writeln!(f, "\n=== {failed} of {} runs failed ===", self.rounds.len())?;
        for (number, round) in (1..).zip(&self.rounds) {
            let result = if round.has_failures() { "failed" } else { "passed" };
            let busy = if round.is_busy { ", one core kept busy" } else { "" };
            writeln!(f, "run {number:>3}  {result} in {}{busy}", seconds(round.took))?;
        }
        let histories = self.histories();
        let mut failures: Vec<_> = histories.iter().filter(|(_, it)| it.failures > 0).collect();
        failures.sort_by_key(|(_, history)| std::cmp::Reverse(history.failures));
        if !failures.is_empty() {
            writeln!(f, "\nfailures, and how many of them with a busy core:")?;
        }
        for (name, history) in failures {
            let (failures, busy) = (history.failures, history.failures_while_busy);
            writeln!(f, "{failures:>5} of {:<4} ({busy} busy)  {name}", history.runs)?;
        }
        let mut slowest: Vec<_> = histories.iter().collect();
        slowest.sort_by_key(|(_, history)| std::cmp::Reverse(history.slowest));
        writeln!(f, "\nslowest runs:")?;
        for (name, history) in slowest.into_iter().take(SLOWEST) {
            writeln!(f, "{:>9}  {name}", seconds(history.slowest))?;
        }
        Ok(())
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::libtest::Test;

    fn run(label: &str, succeeded: bool, tests: &[(&str, TestOutcome, u64)]) -> Run {
        let tests = tests.iter().map(|(name, outcome, took)| Test {
            name: (*name).to_owned(),
            outcome: *outcome,
            took: Duration::from_secs(*took),
        });
        Run {
            label: label.to_owned(),
            tests: tests.collect(),
            took: Duration::from_secs(9),
            succeeded,
        }
    }

    fn round(is_busy: bool, run: Run) -> Round {
        Round {
            programs: vec![run],
            took: Duration::from_secs(10),
            is_busy,
        }
    }

    #[test]
    fn a_tier_reports_its_durations_and_failures() {
        let tests = [
            ("a", TestOutcome::Passed, 1),
            ("b", TestOutcome::Failed, 3),
            ("c", TestOutcome::Ignored, 0),
        ];
        let summary = round(false, run("core model", false, &tests)).summary("unit");
        assert!(
            summary.starts_with("\n--- unit: 1 passed, 1 failed, 1 ignored, in 10.0 s ---\n"),
            "{summary}"
        );
        assert!(summary.contains("    9.0 s  core model (2 tests)\n"), "{summary}");
        assert!(
            summary.contains("slowest tests:\n    3.0 s  core model: b\n"),
            "{summary}"
        );
        assert!(summary.ends_with("failed: core model\n    b\n"), "{summary}");
    }

    #[test]
    fn failures_and_the_slowest_run_are_counted_over_all_runs() {
        let mut report = Report::default();
        report.add(round(
            false,
            run(
                "p",
                true,
                &[("a", TestOutcome::Passed, 1), ("b", TestOutcome::Passed, 7)],
            ),
        ));
        assert!(!report.has_failures());
        report.add(round(
            true,
            run(
                "p",
                false,
                &[("a", TestOutcome::Failed, 4), ("b", TestOutcome::Passed, 2)],
            ),
        ));
        report.add(round(false, run("p", false, &[("a", TestOutcome::Passed, 1)])));
        assert!(report.has_failures());
        let text = report.to_string();
        assert!(text.contains("2 of 3 runs failed"), "{text}");
        assert!(
            text.contains("run   2  failed in 10.0 s, one core kept busy\n"),
            "{text}"
        );
        assert!(text.contains("    1 of 3    (1 busy)  p: a\n"), "{text}");
        assert!(
            text.contains("    1 of 1    (0 busy)  p (the program itself)\n"),
            "{text}"
        );
        assert!(
            text.contains("slowest runs:\n    9.0 s  p (the program itself)\n    7.0 s  p: b\n"),
            "{text}"
        );
    }
}
