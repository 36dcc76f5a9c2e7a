//! The stand-ins as one program, so that one small image can play every closed-source part.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use firebolt_process::error::chain;
use stand_ins::{engine, load, metadata};
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
    /// An engine, by the command line of its image
    Server(engine::Arguments),
    /// The metadata service, on a PostgreSQL
    Metadata(MetadataArguments),
    /// Clients that query an engine through a gateway, and a ledger of what ran
    Load(load::Arguments),
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
        Part::Server(arguments) => engine::run(arguments).await.map_err(Into::into),
        Part::Metadata(arguments) => run_metadata(arguments).await,
        Part::Load(arguments) => load::run(arguments).await.map_err(Into::into),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run_metadata(arguments: MetadataArguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    // Before anything else: the first process of a container ignores every signal that it has no handler for.
    let mut terminated = signal(SignalKind::terminate())?;
    let patience = Duration::from_secs(arguments.give_up_after);
    let settings = metadata::Settings::from_environment(arguments.config, patience)?;
    tokio::select! {
        ended = metadata::run(&settings) => ended?,
        // Nothing is lost: every statement is a transaction of its own.
        _ = terminated.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
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

    fn parse(line: &str) -> Result<Part, clap::Error> {
        let arguments = line.split(' ').map(OsString::from);
        Ok(Arguments::try_parse_from(named_by_program(arguments))?.part)
    }

    #[test]
    fn the_program_name_of_the_metadata_image_needs_no_part() {
        let part = parse("/dedicated-pensieve --config /configs/config.xml").expect("the command of the pod");
        assert!(matches!(part, Part::Metadata(arguments) if arguments.config == Path::new("/configs/config.xml")));
    }

    #[test]
    fn any_other_program_name_needs_a_part() {
        assert!(parse("firebolt-stand-in --config config.xml").is_err());
        assert!(parse("firebolt-stand-in metadata --config config.xml").is_ok());
    }

    #[test]
    fn the_command_line_of_an_engine_is_understood() {
        let part = parse("/opt/firebolt/firebolt server --node 3 --data-dir /var/lib/firebolt --pod-name a-g0-3");
        let Ok(Part::Server(arguments)) = part else {
            panic!("no engine");
        };
        assert_eq!(
            (arguments.node, arguments.data_dir.as_path()),
            (3, Path::new("/var/lib/firebolt"))
        );
    }
}
