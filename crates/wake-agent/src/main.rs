//! The wake agent's binary. Everything it does is in the library, where tests reach it.

use std::process::ExitCode;

use clap::Parser;
use firebolt_wake_agent::cli::Cli;
use firebolt_wake_agent::process;

fn main() -> ExitCode {
    process::main(Cli::parse())
}
