//! The operator's binary. Everything it does is in the library, where tests reach it.

use std::process::ExitCode;

use clap::Parser;
use firebolt_operator::cli::{Cli, Command};
use firebolt_operator::{crds, process};

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(arguments) => process::main(*arguments),
        Command::Crds => crds::print(),
    }
}
