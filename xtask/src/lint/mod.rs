//! `cargo xtask lint-deps` and `cargo xtask lint-words`: rules of the design that neither the compiler nor clippy checks.

mod cycles;
mod identifiers;
mod walls;
mod words;

use std::error::Error;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::Outcome;

#[derive(clap::Args)]
pub(crate) struct WordsArgs {
    /// List every line with a discouraged term, in these paths if any are given
    #[arg(long)]
    list: bool,
    /// Fail if any discouraged term is found
    #[arg(long)]
    deny: bool,
    /// Directories or files to search [default: all]
    paths: Vec<String>,
}

/// Checks the walls between crates, that modules form no cycles, and that no line has a discouraged
/// term.
pub(crate) fn deps(root: &Path) -> Outcome {
    report("crate boundary violations", &walls::faults(root)?)?;
    report("modules form cycles", &cycles::faults(root)?)?;
    report("discouraged terms", &words::faults(root)?)
}

/// Counts the discouraged terms.
pub(crate) fn words(root: &Path, arguments: &WordsArgs) -> Outcome {
    let found = words::search(root, &arguments.paths)?;
    print!("{}", words::table(&found));
    if arguments.list {
        print!("{}", words::list(&found));
    }
    if arguments.deny && !found.is_empty() {
        return Err("found discouraged terms: see `cargo xtask lint-words --list`".into());
    }
    Ok(ExitCode::SUCCESS)
}

fn report(title: &str, faults: &[String]) -> Outcome {
    if faults.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(format!("{title}:\n- {}", faults.join("\n- ")).into())
}

/// What `git` prints, run with these arguments in the repository. Failing without a complaint is how `git grep` says that
/// it found nothing.
fn git(root: &Path, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    output(Command::new("git").args(arguments).current_dir(root))
}

fn output(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.output()?;
    if !output.status.success() && !output.stderr.is_empty() {
        return Err(format!("run {command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
