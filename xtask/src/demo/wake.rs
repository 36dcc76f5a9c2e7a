//! A query for an engine that is stopped, and where its time went.

use std::net::SocketAddr;

use firebolt_api::{EnginePhase, FireboltEngine};
use kube::{Api, Client};
use localkube::Cluster;

use super::screen::Screen;
use super::{NAMESPACE, Result, query, watch};

/// What the manifest calls the engine.
const ENGINE: &str = "nightly";

pub(super) async fn show(screen: &mut Screen, cluster: &Cluster, client: &Client, gateway: SocketAddr) -> Result<()> {
    let engines: Api<FireboltEngine> = Api::namespaced(client.clone(), NAMESPACE);
    // A user who runs the demo again may find it awake.
    let engine = watch::until(&engines, ENGINE, |engine| {
        Ok(engine.status.as_ref().is_some_and(|status| status.phase.is_some()))
    })
    .await?;
    let phase = engine
        .status
        .and_then(|status| status.phase)
        .unwrap_or(EnginePhase::Stopped);
    screen.passing_step("wake", format!("{ENGINE} is {phase}; a query waits for it"))?;
    let answer = query::ask(cluster, gateway, ENGINE, "SELECT 42")?;
    let (value, took) = (answer.value, answer.took.as_secs_f64());
    let stages = stages(&answer.timing);
    let where_it_went = if stages.is_empty() { "" } else { ": " };
    let stages = stages.join(", ");
    Ok(screen.step(
        "wake",
        format!("{ENGINE} is {phase}; SELECT 42  ->  {value}   ({took:.1} s{where_it_went}{stages})"),
    )?)
}

/// The stages of a wait in seconds. The sum is reported separately.
fn stages(timing: &str) -> Vec<String> {
    let stages = timing.split(", ").filter_map(|stage| stage.split_once(";dur="));
    let stages = stages.filter_map(|(name, duration)| Some((name, duration.parse::<f64>().ok()? / 1000.0)));
    stages
        .filter(|(name, _)| *name != "wake")
        .map(|(name, seconds)| format!("{name} {seconds:.1}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_printed_in_seconds_and_without_their_sum() {
        let timing = "detected;dur=0.4, scaled;dur=812.1, released;dur=3120.5, wake;dur=3933.0";
        assert_eq!(stages(timing), ["detected 0.0", "scaled 0.8", "released 3.1"]);
        assert!(stages("").is_empty());
    }
}
