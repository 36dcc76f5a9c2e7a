//! `cargo xtask mutants`: injects one bug after the other into the decision code, and counts those that a test finds.
//!
//! What is examined, and by which tests, stands in `.cargo/mutants.toml`. The mutants that survive are listed with their
//! reasons in `docs/mutants.md`, and every run is held against that list.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use localkube::tools::{Binary, Tool, Tools};

use crate::{Outcome, tools};

/// How many of a hundred viable mutants must be caught.
const REQUIRED: usize = 90;
const LIST: &str = "docs/mutants.md";
/// Every examined file lies below it; names are shorter without.
const SOURCES: &str = "crates/core/src/";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only the mutants whose name matches, for example plan/engine/phase.rs or `in drained$`
    #[arg(long, value_name = "REGEX")]
    only: Option<String>,
}

pub(crate) fn run(root: &Path, arguments: &Arguments) -> Outcome {
    // Read first: a mistake in the list shows before the long run, not after it.
    let text = fs::read_to_string(root.join(LIST)).map_err(|error| format!("read {LIST}: {error}"))?;
    let listed = listed(&text)?;
    let started = Instant::now();
    let results = inject(root, arguments)?;
    println!("{} in {} minutes", results.figures(), started.elapsed().as_secs() / 60);
    let problems = results.problems(&listed, arguments.only.is_none());
    for problem in &problems {
        println!("{problem}");
    }
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn inject(root: &Path, arguments: &Arguments) -> Result<Results, Box<dyn Error>> {
    let tools = Tools::from_env()?;
    tools::ensure(&tools, Tool::CargoMutants)?;
    let target = root.join("target");
    fs::create_dir_all(&target)?;
    let mut command = Command::new(tools.binary(Binary::CargoMutants)?);
    command.args(["mutants", "--output"]).arg(&target).current_dir(root);
    command.args(arguments.only.iter().flat_map(|only| ["--re", only]));
    // The same mutant must have the same fate in every run, and must not profit from what another one has shown.
    command.env("PROPTEST_RNG_SEED", "1");
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    let status = command.status()?;
    // All caught, some missed, some timed out. Anything else says nothing about the tests.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(format!("run cargo-mutants: it ended with {status}").into());
    }
    Results::read(&target.join("mutants.out"))
}

/// The names of the mutants that were built, by their fate.
struct Results {
    caught: Vec<String>,
    missed: Vec<String>,
    timed_out: Vec<String>,
}

impl Results {
    fn read(output: &Path) -> Result<Self, Box<dyn Error>> {
        let names = |file: &str| match fs::read_to_string(output.join(file)) {
            Ok(text) => Ok(text.lines().map(name).collect()),
            Err(error) => Err(format!("read {file} of cargo-mutants: {error}")),
        };
        Ok(Self {
            caught: names("caught.txt")?,
            missed: names("missed.txt")?,
            timed_out: names("timeout.txt")?,
        })
    }

    fn viable(&self) -> usize {
        self.caught.len() + self.missed.len() + self.timed_out.len()
    }

    fn figures(&self) -> String {
        // One digit after the point, rounded down: what is printed as enough is enough.
        let permille = (self.caught.len() * 1000).checked_div(self.viable()).unwrap_or(0);
        format!(
            "{} viable mutants: {} caught ({}.{} %), {} missed, {} timed out",
            self.viable(),
            self.caught.len(),
            permille / 10,
            permille % 10,
            self.missed.len(),
            self.timed_out.len(),
        )
    }

    /// What has to be done. In a run of a part, a listed mutant that did not survive may just not have been tried.
    fn problems(&self, listed: &[String], whole: bool) -> Vec<String> {
        let mut problems = Vec::new();
        if self.caught.len() * 100 < self.viable() * REQUIRED || self.viable() == 0 {
            problems.push(format!("less than {REQUIRED} % are caught"));
        }
        for name in surplus(&self.missed, listed) {
            problems.push(format!("not listed in {LIST}: {name}"));
        }
        for name in surplus(listed, &self.missed) {
            if self.caught.contains(name) {
                problems.push(format!("listed in {LIST}, but caught now: {name}"));
            } else if whole {
                problems.push(format!("listed in {LIST}, but no survivor: {name}"));
            }
        }
        problems
    }
}

/// The name of a mutant without line and column, which any edit above it would change.
fn name(line: &str) -> String {
    let line = line.strip_prefix(SOURCES).unwrap_or(line);
    match line.splitn(4, ':').collect::<Vec<_>>()[..] {
        [file, _line, _column, change] => format!("{file}:{change}"),
        _ => line.to_owned(),
    }
}

/// The names in the list, whose entries read `` - `NAME`: REASON ``.
fn listed(text: &str) -> Result<Vec<String>, String> {
    let entries = text.lines().filter_map(|line| line.strip_prefix("- `"));
    entries
        .map(|entry| match entry.split_once("`: ") {
            Some((name, reason)) if !reason.trim().is_empty() => Ok(name.to_owned()),
            Some(_) | None => Err(format!("read {LIST}: an entry has no reason: {entry}")),
        })
        .collect()
}

/// Those of `names` that are not `known`. Two mutants of one function can share a name, so they are counted.
fn surplus<'names>(names: &'names [String], known: &[String]) -> Vec<&'names String> {
    let mut left = known.to_vec();
    let mut is_new = |name: &String| match left.iter().position(|other| other == name) {
        Some(index) => {
            left.swap_remove(index);
            false
        }
        None => true,
    };
    names.iter().filter(|name| is_new(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn results(caught: usize, missed: &[&str]) -> Results {
        Results {
            caught: (0..caught).map(|index| format!("caught {index}")).collect(),
            missed: names(missed),
            timed_out: Vec::new(),
        }
    }

    #[test]
    fn a_name_does_not_move_with_its_line() {
        let line = "crates/core/src/plan/engine/phase.rs:65:17: replace std::cmp::min -> i64 with 0";
        assert_eq!(name(line), "plan/engine/phase.rs: replace std::cmp::min -> i64 with 0");
    }

    #[test]
    fn nine_of_ten_must_be_caught() {
        let enough = results(9, &["x"]);
        assert_eq!(enough.problems(&names(&["x"]), true), [""; 0]);
        assert_eq!(
            enough.figures(),
            "10 viable mutants: 9 caught (90.0 %), 1 missed, 0 timed out"
        );
        let hung = Results {
            timed_out: names(&["y"]),
            ..enough
        };
        assert_eq!(hung.problems(&names(&["x"]), true), ["less than 90 % are caught"]);
        assert_eq!(results(0, &[]).problems(&[], true), ["less than 90 % are caught"]);
    }

    #[test]
    fn the_list_and_the_survivors_are_the_same() {
        let results = results(100, &["x", "x", "y"]);
        assert_eq!(
            results.problems(&names(&["x", "caught 7", "gone"]), true),
            [
                "not listed in docs/mutants.md: x",
                "not listed in docs/mutants.md: y",
                "listed in docs/mutants.md, but caught now: caught 7",
                "listed in docs/mutants.md, but no survivor: gone",
            ]
        );
        assert_eq!(results.problems(&names(&["x", "x", "y", "gone"]), false), [""; 0]);
    }

    #[test]
    fn every_listed_survivor_has_a_reason() {
        let text =
            "# Title\n\n- text\n- `a.rs: replace || with && in f`: it cannot\n  matter\n- `b.rs: delete !`: so\n";
        assert_eq!(
            listed(text),
            Ok(names(&["a.rs: replace || with && in f", "b.rs: delete !"]))
        );
        assert!(listed("- `a.rs: delete !`: \n").is_err());
        assert!(listed("- `a.rs: delete !`\n").is_err());
    }

    #[test]
    fn the_list_can_be_read() {
        let text = fs::read_to_string(crate::root().join(LIST)).expect("the list is there");
        listed(&text).expect("the list can be read");
    }
}
