//! What a test program prints, read as results.
//!
//! Stable Rust has neither a machine-readable format nor the duration of a test. Both follow from what is printed: a test
//! is named when it ends, and the next one by name starts on the thread that has become free.

use std::collections::BTreeSet;
use std::time::Duration;

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestOutcome {
    Passed,
    Failed,
    Ignored,
}

/// A test that ended.
#[derive(Debug, PartialEq)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) outcome: TestOutcome,
    pub(super) took: Duration,
}

/// Reads the output of one program, line by line.
#[derive(Default)]
pub(super) struct Reader {
    /// In the order in which they ended, with the time since the start of the program.
    ended: Vec<(String, TestOutcome, Duration)>,
    /// What the list at the end calls failed.
    failed: BTreeSet<String>,
    in_failures: bool,
}

impl Reader {
    /// Takes a line that was printed so long after the start of the program.
    pub(super) fn line(&mut self, line: &str, at: Duration) {
        if let Some((name, outcome)) = ended(line) {
            self.ended.push((name.to_owned(), outcome, at));
        }
        match line {
            // The last list of this title has the names alone; one with the output of each test comes before it.
            "failures:" => {
                self.in_failures = true;
                self.failed.clear();
            }
            "" => {}
            _ if self.in_failures => match line.strip_prefix("    ") {
                Some(name) if !name.contains(' ') => drop(self.failed.insert(name.to_owned())),
                Some(_) | None => {}
            },
            _ => {}
        }
        if line.starts_with("test result: ") {
            self.in_failures = false;
        }
    }

    /// Every test, with the time that it took if the program ran so many at a time.
    pub(super) fn finish(mut self, threads: usize) -> Vec<Test> {
        // A line that a child process of another test wrote into is not understood; the list at the end is.
        let known: BTreeSet<&String> = self.ended.iter().map(|(name, ..)| name).collect();
        let missed = self.failed.iter().filter(|name| !known.contains(name));
        let end = self.ended.last().map_or(Duration::ZERO, |(_, _, at)| *at);
        let missed: Vec<_> = missed.map(|name| (name.clone(), TestOutcome::Failed, end)).collect();
        self.ended.extend(missed);

        let mut by_name: Vec<&str> = self.ended.iter().map(|(name, ..)| name.as_str()).collect();
        by_name.sort_unstable();
        let started = |name: &str| {
            let position = by_name.iter().position(|other| *other == name).unwrap_or_default();
            match position.checked_sub(threads) {
                Some(freed) => self.ended[freed].2,
                None => Duration::ZERO,
            }
        };
        let tests = self.ended.iter().map(|(name, outcome, at)| Test {
            name: name.clone(),
            outcome: *outcome,
            took: at.saturating_sub(started(name)),
        });
        tests.collect()
    }
}

/// The test that the line says has ended.
fn ended(line: &str) -> Option<(&str, TestOutcome)> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    // A test that must panic says so after its name.
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let outcome = match outcome {
        "FAILED" => TestOutcome::Failed,
        "ignored" => TestOutcome::Ignored,
        _ if outcome.starts_with("ignored, ") => TestOutcome::Ignored,
        // With one thread, what a test prints itself may come in between.
        _ if outcome == "ok" || outcome.ends_with("ok") => TestOutcome::Passed,
        _ if outcome.ends_with("FAILED") => TestOutcome::Failed,
        _ => return None,
    };
    Some((name, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&str, u64)], threads: usize) -> Vec<(String, TestOutcome, u64)> {
        let mut reader = Reader::default();
        for (line, second) in lines {
            reader.line(line, Duration::from_secs(*second));
        }
        let tests = reader.finish(threads).into_iter();
        tests
            .map(|test| (test.name, test.outcome, test.took.as_secs()))
            .collect()
    }

    fn test(name: &str, outcome: TestOutcome, took: u64) -> (String, TestOutcome, u64) {
        (name.to_owned(), outcome, took)
    }

    #[test]
    fn results_are_read_and_everything_else_is_passed_over() {
        let lines = [
            ("running 5 tests", 0),
            ("test a::one ... ok", 1),
            ("test a::two - should panic ... ok", 1),
            ("test b ... ignored, needs a cluster", 1),
            ("test c ... FAILED", 2),
            ("test result: FAILED. 2 passed; 1 failed; 1 ignored", 2),
            ("a log line: test d ... ok", 2),
            ("test e ... started", 2),
        ];
        assert_eq!(
            read(&lines, 1),
            [
                test("a::one", TestOutcome::Passed, 1),
                test("a::two", TestOutcome::Passed, 0),
                test("b", TestOutcome::Ignored, 0),
                test("c", TestOutcome::Failed, 1),
            ]
        );
    }

    #[test]
    fn a_test_starts_when_a_thread_becomes_free() {
        // Two threads: `a` and `b` start at once, `c` after `b`, and `d` after `a`.
        let lines = [
            ("test b ... ok", 2),
            ("test a ... ok", 5),
            ("test c ... ok", 9),
            ("test d ... ok", 10),
        ];
        assert_eq!(
            read(&lines, 2),
            [
                test("b", TestOutcome::Passed, 2),
                test("a", TestOutcome::Passed, 5),
                test("c", TestOutcome::Passed, 7),
                test("d", TestOutcome::Passed, 5),
            ]
        );
    }

    #[test]
    fn a_failure_whose_line_is_interrupted_is_known_from_the_list_at_the_end() {
        let lines = [
            ("test a ... ok", 1),
            ("test b ... FAsome outputILED", 2),
            ("", 2),
            ("failures:", 2),
            ("", 2),
            ("---- b stdout ----", 2),
            ("thread 'b' panicked at src/lib.rs:1:2:", 2),
            ("    indented", 2),
            ("", 2),
            ("failures:", 2),
            ("    b", 2),
            ("", 2),
            ("test result: FAILED. 1 passed; 1 failed", 2),
            ("    c", 2),
        ];
        assert_eq!(
            read(&lines, 4),
            [test("a", TestOutcome::Passed, 1), test("b", TestOutcome::Failed, 1)]
        );
    }

    #[test]
    fn output_of_a_test_before_its_result_does_not_hide_it() {
        assert_eq!(
            ended("test a ... something printedok"),
            Some(("a", TestOutcome::Passed))
        );
        assert_eq!(
            ended("test a ... something printedFAILED"),
            Some(("a", TestOutcome::Failed))
        );
    }
}
