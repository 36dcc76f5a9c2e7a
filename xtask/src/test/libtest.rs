//! What a test program prints, read as results.
//!
//! Stable Rust has neither a machine-readable format nor the duration of a test. Both follow from what is printed: a test
//! is named when it ends, and the next one by name starts on the thread that has become free.

use std::collections::BTreeSet;
use std::time::Duration;

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    Ignored,
}

/// A test that ended.
#[derive(Debug, PartialEq)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) took: Duration,
}

/// Reads the output of one program, line by line.
#[derive(Default)]
pub(super) struct Reader {
    /// In the order in which they ended, with the time since the start of the program.
    ended: Vec<(String, Verdict, Duration)>,
    /// What the list at the end calls failed.
    failed: BTreeSet<String>,
    in_failures: bool,
}

impl Reader {
    /// Takes a line that was printed so long after the start of the program.
    pub(super) fn line(&mut self, line: &str, at: Duration) {
        if let Some((name, verdict)) = ended(line) {
            self.ended.push((name.to_owned(), verdict, at));
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
        let missed: Vec<_> = missed.map(|name| (name.clone(), Verdict::Failed, end)).collect();
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
        let tests = self.ended.iter().map(|(name, verdict, at)| Test {
            name: name.clone(),
            verdict: *verdict,
            took: at.saturating_sub(started(name)),
        });
        tests.collect()
    }
}

/// The test that the line says has ended.
fn ended(line: &str) -> Option<(&str, Verdict)> {
    let (name, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    // A test that must panic says so after its name.
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let verdict = match verdict {
        "FAILED" => Verdict::Failed,
        "ignored" => Verdict::Ignored,
        _ if verdict.starts_with("ignored, ") => Verdict::Ignored,
        // With one thread, what a test prints itself may come in between.
        _ if verdict == "ok" || verdict.ends_with("ok") => Verdict::Passed,
        _ if verdict.ends_with("FAILED") => Verdict::Failed,
        _ => return None,
    };
    Some((name, verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&str, u64)], threads: usize) -> Vec<(String, Verdict, u64)> {
        let mut reader = Reader::default();
        for (line, second) in lines {
            reader.line(line, Duration::from_secs(*second));
        }
        let tests = reader.finish(threads).into_iter();
        tests
            .map(|test| (test.name, test.verdict, test.took.as_secs()))
            .collect()
    }

    fn test(name: &str, verdict: Verdict, took: u64) -> (String, Verdict, u64) {
        (name.to_owned(), verdict, took)
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
                test("a::one", Verdict::Passed, 1),
                test("a::two", Verdict::Passed, 0),
                test("b", Verdict::Ignored, 0),
                test("c", Verdict::Failed, 1),
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
                test("b", Verdict::Passed, 2),
                test("a", Verdict::Passed, 5),
                test("c", Verdict::Passed, 7),
                test("d", Verdict::Passed, 5),
            ]
        );
    }

    #[test]
    fn a_failure_whose_line_is_spoiled_is_known_from_the_list_at_the_end() {
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
            [test("a", Verdict::Passed, 1), test("b", Verdict::Failed, 1)]
        );
    }

    #[test]
    fn output_of_a_test_before_its_result_does_not_hide_it() {
        assert_eq!(ended("test a ... something printedok"), Some(("a", Verdict::Passed)));
        assert_eq!(
            ended("test a ... something printedFAILED"),
            Some(("a", Verdict::Failed))
        );
    }
}
