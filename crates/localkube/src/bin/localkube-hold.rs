//! Starts an owned cluster, prints its folder, and holds it until it is told to end: what the tests of cleaning up
//! interrupt and kill. A program of its own and not an example, because cargo builds programs for tests and examples not.

use std::time::Duration;

use localkube::{Cluster, Options};

#[tokio::main]
async fn main() -> Result<(), localkube::Error> {
    let base = std::env::args_os().nth(1);
    let mut options = Options::default();
    if let Some(base) = base {
        options.base = base.into();
    }
    let started = std::time::Instant::now();
    let cluster = Cluster::start(options).await?;
    eprintln!("ready in {:.1?}", started.elapsed());
    println!("{}", cluster.dir().display());
    tokio::time::sleep(Duration::from_mins(10)).await;
    Ok(())
}
