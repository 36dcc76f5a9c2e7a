//! Development tasks, run as `cargo xtask TASK`. One module for each task.

mod api_reference;
mod bench;
mod demo;
mod deny;
mod generate;
mod images;
mod install;
mod kube;
mod lint;
mod mutants;
mod pod_schema;
mod test;
mod tools;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use serde_json::Value;

/// What a task returns: the exit code to end with, or what went wrong.
type Outcome = Result<ExitCode, Box<dyn Error>>;

/// Development tasks of firebolt-operator.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build and download the pinned tools into a cache outside the source tree
    Tools(tools::Arguments),
    /// Run a local Kubernetes in the background
    #[command(subcommand)]
    Kube(kube::Command),
    /// Build the container images for a local Kubernetes, and import them
    Images(images::Arguments),
    /// Run a tier of tests with everything that it needs, and clean up afterwards
    Test(test::Arguments),
    /// Run the operator on a whole cluster on this machine, and scale an engine under load (requires root)
    Demo(demo::Arguments),
    /// Run the benchmarks and compare the results with the targets (about 15 minutes)
    Bench(bench::Arguments),
    /// Update the generated files: CRDs and API reference
    Generate(generate::Arguments),
    /// Check crate boundaries, module cycles and discouraged terms
    LintDeps,
    /// Count discouraged terms
    LintWords(lint::WordsArgs),
    /// Check licences, sources and duplicate versions of dependencies
    Deny(deny::Arguments),
    /// Verify that the tests detect injected bugs in the decision code
    Mutants(mutants::Arguments),
}

fn main() -> ExitCode {
    if let Some(code) = localkube::serve_as_helper() {
        return code;
    }
    let outcome = match Arguments::parse().task {
        Task::Tools(arguments) => tools::run(&arguments),
        Task::Kube(command) => kube::run(command),
        Task::Images(arguments) => images::run(&root(), arguments),
        Task::Test(arguments) => test::run(&arguments),
        Task::Demo(arguments) => demo::run(&root(), arguments),
        Task::Bench(arguments) => bench::run(&root(), &arguments),
        Task::Generate(arguments) => generate::run(&root(), &arguments),
        Task::LintDeps => lint::deps(&root()),
        Task::LintWords(arguments) => lint::words(&root(), &arguments),
        Task::Deny(arguments) => deny::run(&root(), &arguments),
        Task::Mutants(arguments) => mutants::run(&root(), &arguments),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {}", firebolt_process::error::chain(error.as_ref()));
        ExitCode::FAILURE
    })
}

/// The root of the repository. Tasks are run from a checkout, through cargo, so the place of this source is the answer.
fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .expect("this crate is a folder of the repository")
        .to_owned()
}

/// Cargo for another run in the repository, as a user would start it: the variables that this run of cargo sets for
/// this crate would make build scripts of others run again.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    let inherited = std::env::vars_os().map(|(name, _)| name);
    for name in inherited.filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    }) {
        command.env_remove(name);
    }
    command.current_dir(root);
    command
}

/// Arguments that make cargo compile the dependencies of programs like those of this program and of all tests, so that
/// builds can be reused: a test among the targets adds its features, and this program adds the debug information of
/// crates that procedural macros use too.
const AS_TESTS: [&str; 2] = ["--test=program", "--bin=xtask"];

/// Runs the command to its end and passes its exit code on.
fn finish(command: &mut Command) -> Outcome {
    let code = command.status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// What cargo knows of the crates of the workspace.
fn packages(root: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    let output = cargo(root)
        .args(["metadata", "--format-version=1", "--no-deps", "--locked"])
        .output()?;
    let mut metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        format!(
            "read cargo metadata: {error}: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => Err("find packages in cargo metadata".into()),
    }
}
