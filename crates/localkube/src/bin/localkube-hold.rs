//! Starts an owned cluster, prints its directory, and holds it until it is terminated. The tests of cleanup interrupt
//! and kill it. It is a program because cargo does not build examples for tests.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use localkube::{Cluster, Options};

fn main() -> ExitCode {
    if let Some(code) = localkube::serve_as_helper() {
        return code;
    }
    let runtime = tokio::runtime::Runtime::new().expect("start a runtime");
    match runtime.block_on(hold()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", firebolt_process::error::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Called with the folder for clusters, and with the number of nodes.
async fn hold() -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    if let Some(base) = arguments.next() {
        options.base = base.into();
    }
    if let Some(nodes) = arguments.next() {
        options.nodes = nodes.parse()?;
    }
    let started = std::time::Instant::now();
    let cluster = Cluster::start(options).await?;
    eprintln!("ready in {:.1?}", started.elapsed());
    println!("{}", cluster.dir().display());
    tokio::time::sleep(Duration::from_mins(10)).await;
    Ok(())
}
