//! The stand-ins as one program, so that one small image can play every closed-source part.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use stand_ins::{chain, engine, metadata};
use tokio::signal::unix::{SignalKind, signal};

/// The program of the metadata image. Called by this name, the stand-in takes that program's arguments.
const METADATA_PROGRAM: &str = "dedicated-pensieve";

/// Imitations of the closed-source images, for development
#[derive(Parser)]
#[command(name = "firebolt-stand-in", version)]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// An engine
    Engine(engine::Settings),
    /// The metadata service, on a PostgreSQL
    Metadata(MetadataArguments),
}

#[derive(clap::Args)]
struct MetadataArguments {
    /// The configuration file, in XML or YAML
    #[arg(long)]
    config: PathBuf,
    /// How many seconds to keep trying to reach the database at the start
    #[arg(long, value_name = "SECONDS", default_value_t = metadata::PATIENCE.as_secs())]
    give_up_after: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let outcome = match Arguments::parse_from(named_by_program(std::env::args_os())).part {
        Part::Engine(settings) => engine::run(settings).await.map_err(Into::into),
        Part::Metadata(arguments) => run_metadata(arguments).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run_metadata(arguments: MetadataArguments) -> Result<(), Box<dyn std::error::Error>> {
    // Before anything else: the first process of a container ignores every signal that it has no handler for.
    let mut terminated = signal(SignalKind::terminate())?;
    let patience = Duration::from_secs(arguments.give_up_after);
    let settings = metadata::Settings::from_environment(arguments.config, patience)?;
    tokio::select! {
        ended = metadata::run(&settings) => Ok(ended?),
        // Nothing is lost: every statement is a transaction of its own.
        _ = terminated.recv() => Ok(()),
    }
}

/// The arguments, with the part that the program's own name stands for, if it does.
fn named_by_program(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let program = arguments.first().and_then(|program| Path::new(program).file_name());
    if program.is_some_and(|program| program == METADATA_PROGRAM) {
        arguments.insert(1, "metadata".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<MetadataArguments, clap::Error> {
        let arguments = line.split(' ').map(OsString::from);
        match Arguments::try_parse_from(named_by_program(arguments))?.part {
            Part::Metadata(arguments) => Ok(arguments),
            Part::Engine(settings) => panic!("not the metadata service: {settings:?}"),
        }
    }

    #[test]
    fn the_program_name_of_the_image_needs_no_part() {
        let arguments = parse("/dedicated-pensieve --config /configs/config.xml").expect("the command of the pod");
        assert_eq!(arguments.config, Path::new("/configs/config.xml"));
    }

    #[test]
    fn any_other_program_name_needs_a_part() {
        assert!(parse("firebolt-stand-in --config config.xml").is_err());
        assert!(parse("firebolt-stand-in metadata --config config.xml").is_ok());
    }
}
