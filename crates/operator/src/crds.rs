//! `firebolt-operator crds`: the custom resource definitions, ready for `kubectl apply`.

use std::io::{self, Write};
use std::process::ExitCode;

/// Prints the three definitions as a YAML stream.
#[must_use]
pub fn print() -> ExitCode {
    match io::stdout().lock().write_all(firebolt_api::crds_yaml().as_bytes()) {
        // A reader that has seen enough, such as `head`, is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("firebolt-operator: write the definitions to standard output: {error}");
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}
