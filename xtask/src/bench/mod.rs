//! `cargo xtask bench`: the latencies that users notice, on this machine, from outside.
//!
//! Everything measured is the real thing, compiled as for a release: the operator under the service account that it is
//! shipped with, a real control plane, the real Envoy. Nothing is written into the tree. A missed target is reported
//! and is no error, because machines differ.

mod apply;
mod engines;
mod gateway;
mod operator;
mod programs;
mod sample;
mod start;
mod table;
mod wakes;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;

use crate::Outcome;
use programs::Programs;
use table::Line;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Take few samples: enough to verify that the benchmarks work, too few for results
    #[arg(long)]
    quick: bool,
    /// Run only this part [default: all]
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// The profile of cargo that the programs are compiled with
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Time from a wake request to the new number of replicas
    Wakes,
    /// Latency and CPU that the wake hook adds to queries for a running engine
    Hook,
    /// Latency of the query that wakes an engine, on a whole cluster (requires root)
    FirstAnswer,
}

/// How much is done of everything.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Engines in the large fleet.
    engines: usize,
    /// Engines whose pods never answer.
    black_holes: usize,
    /// Wakes, one after the other.
    wakes: usize,
    /// Restarts of the operator.
    restarts: usize,
    /// Turns of each gateway, for each rate.
    rounds: usize,
    /// The length of a turn.
    seconds: u64,
    /// Starts of an engine by a query.
    starts: usize,
}

impl Extent {
    const FULL: Self = Self {
        engines: 1_000,
        black_holes: 20,
        wakes: 200,
        restarts: 5,
        rounds: 7,
        seconds: 5,
        starts: 5,
    };
    const QUICK: Self = Self {
        engines: 30,
        black_holes: 3,
        wakes: 10,
        restarts: 1,
        rounds: 1,
        seconds: 2,
        starts: 1,
    };
}

/// Reports progress.
fn report(news: &str) {
    eprintln!("bench: {news}");
}

pub(crate) fn run(root: &Path, arguments: &Arguments) -> Outcome {
    let extent = if arguments.quick { Extent::QUICK } else { Extent::FULL };
    let programs = Programs::build(root, &arguments.profile)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut lines: Vec<Line> = Vec::new();
    let parts = Part::value_variants();
    for part in parts
        .iter()
        .filter(|part| arguments.only.is_empty() || arguments.only.contains(part))
    {
        lines.extend(match part {
            Part::Wakes => runtime.block_on(wakes::measure(&programs, extent))?,
            Part::Hook => gateway::measure(&programs, extent)?,
            Part::FirstAnswer => runtime.block_on(start::measure(extent))?,
        });
    }
    println!("\n{}", table::text(&lines));
    Ok(ExitCode::SUCCESS)
}
