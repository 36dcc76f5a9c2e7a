//! Logs: one line per event on standard error, for people or for machines.

use std::io::{self, IsTerminal};
use std::panic;

use tracing::error;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt;

use crate::cli::LogFormat;

/// Parts of the client library that log each failed attempt by themselves. The agent tells each trouble once, in its own
/// words. A filter that names these modules wins.
const HUSHED: &str = "kube_client::client::builder=off";

/// The value parser of `--log-level`.
pub fn parse_filter(text: &str) -> Result<String, String> {
    EnvFilter::builder()
        .parse(text)
        .map(|_| text.to_owned())
        .map_err(|error| {
            format!("{text:?} is not a log filter: {error}; write a level, or module=level pairs separated by commas")
        })
}

/// Starts logging. `filter` has gone through [`parse_filter`].
pub fn start(format: Option<LogFormat>, filter: &str) {
    let is_terminal = io::stderr().is_terminal();
    let format = format.unwrap_or(if is_terminal { LogFormat::Text } else { LogFormat::Json });
    let filter = EnvFilter::builder().parse_lossy(format!("{HUSHED},{filter}"));
    let lines = fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(is_terminal).with_target(false).init(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .init(),
    }
    // A panic does not end the process, so its only trace is the log: in the form of all other lines.
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let what = panic.payload_as_str().unwrap_or("for an unknown reason");
        error!(
            place,
            "a part of the agent panicked: {what}. This is a bug: please report it with the log."
        );
    }));
}
