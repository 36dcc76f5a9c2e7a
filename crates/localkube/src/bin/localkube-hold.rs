//! Starts an owned cluster, prints its folder, and holds it until it is told to end: what the tests of cleaning up
//! interrupt and kill. A program of its own and not an example, because cargo builds programs for tests and examples not.

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
            eprintln!("error: {}", localkube::chain(error.as_ref()));
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
