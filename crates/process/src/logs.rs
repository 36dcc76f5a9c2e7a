//! Logs: one line per event on standard error, as text or as JSON.
//!
//! A JSON line is one flat object. The fields of the spans around an event are fields of its line, so that every line that
//! is logged while an object is reconciled names that object. Use `error_span!` for such a span: a filter of `warn` turns
//! off an `info_span!`, and its fields are then missing from warnings.

mod json;

use std::io::{self, IsTerminal};
use std::panic;

use clap::ValueEnum;
use tracing::error;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::JsonFields;

/// Modules of the Kubernetes client that log every failed attempt. Our programs report such a failure themselves, once.
/// A filter that names these modules takes precedence.
const SILENCED: &str = "kube_client::client::builder=off,kube_runtime::watcher=error";

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The value parser of `--log-level`.
pub fn parse_filter(text: &str) -> Result<String, String> {
    EnvFilter::builder()
        .parse(text)
        .map(|_| text.to_owned())
        .map_err(|error| {
            format!("{text:?} is not a log filter: {error}; write a level, or module=level pairs separated by commas")
        })
}

/// Starts logging: by default as text on a terminal and as JSON elsewhere. `filter` was checked by [`parse_filter`].
///
/// A panic is logged as well, with the fields of the spans that it happened in: it ends a task and not the process.
pub fn start(format: Option<LogFormat>, filter: &str) {
    let is_terminal = io::stderr().is_terminal();
    let format = format.unwrap_or(if is_terminal { LogFormat::Text } else { LogFormat::Json });
    let filter = EnvFilter::builder().parse_lossy(format!("{SILENCED},{filter}"));
    let lines = fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(is_terminal).with_target(false).init(),
        LogFormat::Json => lines.fmt_fields(JsonFields::new()).event_format(json::Flat).init(),
    }
    panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let cause = panic.payload_as_str().unwrap_or("for an unknown reason");
        error!(
            location,
            "a task panicked: {cause}; this is a bug, please report it with the log"
        );
    }));
}
