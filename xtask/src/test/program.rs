//! One test program: found, run, and its results.

use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::libtest::{Reader, Test, TestOutcome};

/// A compiled test program.
#[derive(Clone)]
pub(super) struct TestProgram {
    /// The crate and the name of the test in it, for people.
    pub(super) label: String,
    /// The name of the test alone.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The folder of the crate, where tests expect to be started.
    pub(super) folder: PathBuf,
}

impl TestProgram {
    /// The test program that a message of cargo is about.
    pub(super) fn of_message(message: &Value) -> Option<Self> {
        let path = PathBuf::from(message["executable"].as_str()?);
        if message["profile"]["test"] != true {
            return None;
        }
        let name = message["target"]["name"].as_str()?;
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        let package = folder.file_name()?.to_string_lossy().into_owned();
        let label = match message["target"]["kind"][0].as_str()? {
            "lib" => format!("{package} (lib)"),
            "bin" => format!("{package} (bin {name})"),
            _ => format!("{package} {name}"),
        };
        Some(Self {
            label,
            name: name.to_owned(),
            path,
            folder: folder.to_owned(),
        })
    }

    /// A command that runs it where its tests expect to be.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        self.prepare(&mut command);
        command
    }

    /// Gives a command that runs it the surroundings that cargo would.
    pub(super) fn prepare(&self, command: &mut Command) {
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
    }
}

/// A run of one test program.
pub(super) struct Run {
    pub(super) label: String,
    pub(super) tests: Vec<Test>,
    pub(super) took: Duration,
    /// Whether the program ended well. One that died has no result for the tests that it was at.
    pub(super) succeeded: bool,
}

impl Run {
    pub(super) fn count(&self, outcome: TestOutcome) -> usize {
        self.tests.iter().filter(|test| test.outcome == outcome).count()
    }
}

/// Runs the program with so many threads unless the arguments say how many, and passes on what it prints.
pub(super) fn run(
    program: &TestProgram,
    command: &mut Command,
    threads: usize,
    arguments: &[String],
    out: &mut impl io::Write,
) -> io::Result<Run> {
    writeln!(out, "\n     Running {}", program.label)?;
    let threads = threads_of(arguments).unwrap_or(threads);
    let started = Instant::now();
    let mut child = command
        .args(arguments)
        .env("RUST_TEST_THREADS", threads.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().expect("its output is piped");
    let mut reader = Reader::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        reader.line(&String::from_utf8_lossy(&line), started.elapsed());
        out.write_all(&line)?;
        out.write_all(b"\n")?;
    }
    let succeeded = child.wait()?.success();
    Ok(Run {
        label: program.label.clone(),
        tests: reader.finish(threads),
        took: started.elapsed(),
        succeeded,
    })
}

/// The number of threads that the user asked for.
fn threads_of(arguments: &[String]) -> Option<usize> {
    let option = "--test-threads";
    let position = arguments.iter().position(|argument| argument.starts_with(option))?;
    let value = match arguments[position].strip_prefix(option)? {
        "" => arguments.get(position + 1)?,
        value => value.strip_prefix('=')?,
    };
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_are_found_among_the_messages_of_cargo() {
        let message = |kind: &str, executable: Value, test: bool| {
            json!({
                "manifest_path": "/repo/crates/core/Cargo.toml",
                "target": { "name": "model", "kind": [kind] },
                "profile": { "test": test },
                "executable": executable,
            })
        };
        let program = TestProgram::of_message(&message("test", json!("/target/model-1"), true)).expect("a program");
        assert_eq!((program.label.as_str(), program.name.as_str()), ("core model", "model"));
        assert_eq!(program.folder, Path::new("/repo/crates/core"));
        let program = TestProgram::of_message(&message("lib", json!("/target/core-1"), true)).expect("a program");
        assert_eq!(program.label, "core (lib)");
        assert!(TestProgram::of_message(&message("bin", json!("/target/core-1"), false)).is_none());
        assert!(TestProgram::of_message(&message("test", Value::Null, true)).is_none());
    }

    #[test]
    fn the_number_of_threads_may_be_asked_for() {
        let threads = |arguments: &[&str]| threads_of(&arguments.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(threads(&["name", "--test-threads=3"]), Some(3));
        assert_eq!(threads(&["--test-threads", "7"]), Some(7));
        assert_eq!(threads(&["name"]), None);
    }

    #[test]
    fn a_run_has_results_and_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = TestProgram {
            label: "core model".to_owned(),
            name: "model".to_owned(),
            path: PathBuf::from("/bin/sh"),
            folder: folder.path().to_owned(),
        };
        let script = "echo test a ... ok; echo test $RUST_TEST_THREADS ... FAILED; pwd; exit 101";
        let mut command = program.command();
        let arguments = ["-c".to_owned(), script.to_owned()];
        let run = run(&program, &mut command, 3, &arguments, &mut Vec::new()).expect("it starts");
        let names: Vec<&str> = run.tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!((names, run.succeeded), (vec!["a", "3"], false));
        assert_eq!((run.count(TestOutcome::Passed), run.count(TestOutcome::Failed)), (1, 1));
    }
}
