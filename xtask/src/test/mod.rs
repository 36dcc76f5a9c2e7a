//! `cargo xtask test`: the tiers of tests, each with what it needs, once or again and again.
//!
//! The name of an integration test says its tier: `tests/api*` needs a real API server, `tests/gateway*` and
//! `tests/envoy*` need that and the real Envoy, `tests/e2e*` need a whole cluster, any other needs nothing.

mod busy;
mod libtest;
mod program;
mod report;
mod tiers;

use std::process::ExitCode;
use std::time::Instant;

use crate::Outcome;

use self::busy::Busy;
use self::report::{Report, Round};
use self::tiers::Tier;
pub(crate) use self::tiers::whole_cluster;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which tests
    tier: Tier,
    /// Run the tier this many times, go on after failures, and report how often each test failed and its slowest run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Keep one core busy during every second run, to reveal races that an idle machine hides
    #[arg(long, requires = "repeat")]
    one_core_busy: bool,
    /// Arguments for the test programs: a filter of test names, or options
    #[arg(last = true, value_name = "ARGUMENTS")]
    passed_on: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let tier = arguments.tier;
    let mut report = Report::default();
    for number in 1..=arguments.repeat {
        let is_busy = arguments.one_core_busy && number % 2 == 0;
        if arguments.repeat > 1 {
            let note = if is_busy { ", one core kept busy" } else { "" };
            println!("=== {tier}: run {number} of {}{note} ===", arguments.repeat);
        }
        let programs = tiers::compile(tier)?;
        let _busy = is_busy.then(Busy::start);
        let started = Instant::now();
        let round = Round {
            programs: tiers::run(tier, &programs, &arguments.passed_on)?,
            took: started.elapsed(),
            is_busy,
        };
        print!("{}", round.summary(tier));
        report.add(round);
    }
    if arguments.repeat > 1 {
        print!("{report}");
    }
    Ok(if report.has_failures() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
