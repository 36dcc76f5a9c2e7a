//! Time from a wake request to the new number of replicas, as a client observes it.

use std::time::{Duration, Instant};

use localkube::{Cluster, Options};

use super::engines::Fleet;
use super::operator::Starter;
use super::programs::Programs;
use super::sample::{Samples, milliseconds};
use super::table::{Below, Line};
use super::{Extent, Result, report};

/// The target for wakes one at a time.
const IDLE: Below = Below(100.0, "ms");
const BUSY: Below = Below(250.0, "ms");
const RESTART: Below = Below(2.0, "s");

pub(super) async fn measure(programs: &Programs, extent: Extent) -> Result<Vec<Line>> {
    report("starting a control plane");
    let cluster = Cluster::start(Options::default()).await?;
    let starter = Starter::prepare(programs, &cluster).await?;
    let mut fleet = Fleet::begin(&cluster).await?;
    let operator = starter.start()?;

    let woken = names("engine", 0, extent.wakes);
    fleet.add(&woken).await?;
    report(&format!("waking {} engines, one after the other", woken.len()));
    let idle = one_by_one(&fleet, &woken).await?;

    report(&format!("adding engines, up to {}", extent.engines));
    let began = Instant::now();
    fleet.stop(&woken).await?;
    let more = names("engine", extent.wakes, extent.engines);
    fleet.add(&more).await?;
    report(&format!("  {:.1} s", began.elapsed().as_secs_f64()));
    fleet.add_black_holes(&names("hole", 0, extent.black_holes)).await?;
    report("waking some of them, one after the other");
    let busy = one_by_one(&fleet, &woken).await?;
    fleet.stop(&woken).await?;

    report("restarting the operator");
    operator.stop()?;
    let restarts = at_restarts(&fleet, &starter, &woken[..woken.len().min(extent.restarts)]).await?;

    report("waking all of them at once");
    let _operator = starter.start()?;
    let all = names("engine", 0, extent.engines);
    fleet.stop(&all).await?;
    let (asked, last) = all_at_once(&fleet, &all).await?;

    let p99 = |samples: &Samples| milliseconds(samples.quantile(0.99));
    let (engines, holes) = (extent.engines, extent.black_holes);
    Ok(vec![
        Line::against("wake to patch, idle operator, p99", p99(&idle), idle.summary(), IDLE),
        Line::against(
            format!("wake to patch, {engines} engines and {holes} black-holed pods, p99"),
            p99(&busy),
            busy.summary(),
            BUSY,
        ),
        Line::against(
            format!("restart with {engines} engines to first wake served, worst"),
            restarts.worst().as_secs_f64(),
            format!(
                "median {:.2} s, worst {:.2} s",
                restarts.median().as_secs_f64(),
                restarts.worst().as_secs_f64()
            ),
            RESTART,
        ),
        Line::shown(
            format!("{engines} engines woken at once: all asked for, all patched"),
            format!("{:.2} s, {:.2} s", asked.as_secs_f64(), last.as_secs_f64()),
        ),
    ])
}

/// Wakes them one after the other, each once the operator has finished the previous one. The measurement begins before
/// the request is sent, so it is more than the operator's part.
async fn one_by_one(fleet: &Fleet, names: &[String]) -> Result<Samples> {
    let mut samples = Samples::default();
    for name in names {
        let began = Instant::now();
        fleet.wake(std::slice::from_ref(name)).await?;
        samples.add(fleet.grown(name).await?.saturating_duration_since(began));
        fleet.started(name).await?;
        // The rest of its start.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(samples)
}

/// Requests each wake while no operator runs, and measures from the start of the operator.
async fn at_restarts(fleet: &Fleet, starter: &Starter<'_>, names: &[String]) -> Result<Samples> {
    let mut samples = Samples::default();
    for name in names {
        fleet.wake(std::slice::from_ref(name)).await?;
        let began = Instant::now();
        let operator = starter.start()?;
        samples.add(fleet.grown(name).await?.saturating_duration_since(began));
        fleet.stop(std::slice::from_ref(name)).await?;
        operator.stop()?;
    }
    Ok(samples)
}

/// Says how long it took to ask for all of them, and until the last one was scaled.
async fn all_at_once(fleet: &Fleet, names: &[String]) -> Result<(Duration, Duration)> {
    let began = Instant::now();
    fleet.wake(names).await?;
    let asked = began.elapsed();
    let mut last = began;
    for name in names {
        last = last.max(fleet.grown(name).await?);
    }
    Ok((asked, last.saturating_duration_since(began)))
}

fn names(prefix: &str, from: usize, to: usize) -> Vec<String> {
    (from..to).map(|number| format!("{prefix}-{number}")).collect()
}
