//! One sample: all pods of an engine, scraped concurrently.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::schedule::PodTotal;
use super::{Hooks, ProbePod, ScrapeError, Target, Transport};

/// How many pods of one engine are scraped at the same time.
const CONCURRENT_SCRAPES: usize = 8;

/// The permit of a scrape. Each sample has one of its own, so it makes progress however long others hold the shared
/// ones.
enum ScrapePermit<'a> {
    Own,
    Shared(#[expect(dead_code, reason = "released when dropped")] SemaphorePermit<'a>),
}

struct Scraped<'a> {
    position: usize,
    pod: String,
    permit: ScrapePermit<'a>,
    result: Result<u64, ScrapeError>,
}

/// Scrapes the pods and adds up their queries.
///
/// Once one scrape has failed, the sample has: no more are started. Running ones are waited for, so that of several
/// pods that fail the same one is named each time.
pub(super) async fn sum_over_pods(
    pods: Vec<ProbePod>,
    transport: Transport,
    hooks: &Hooks,
    shared: &Semaphore,
) -> PodTotal {
    if pods.is_empty() {
        return PodTotal::NoPods;
    }
    let targets = match targets(pods) {
        Ok(targets) => targets,
        Err(failed) => return failed,
    };
    let mut waiting = targets.into_iter().enumerate();
    let mut running = FuturesUnordered::new();
    let mut own = Some(ScrapePermit::Own);
    let mut queries = 0_u64;
    let mut failure: Option<(usize, PodTotal)> = None;
    loop {
        while failure.is_none() && running.len() < CONCURRENT_SCRAPES && waiting.len() > 0 {
            let permit = own
                .take()
                .or_else(|| shared.try_acquire().ok().map(ScrapePermit::Shared));
            let Some(permit) = permit else { break };
            running.extend(
                waiting
                    .next()
                    .map(|(at, target)| scrape(at, target, transport, hooks, permit)),
            );
        }
        let Some(scraped) = running.next().await else { break };
        if let ScrapePermit::Own = scraped.permit {
            own = Some(ScrapePermit::Own);
        }
        match scraped.result {
            Ok(count) => queries = queries.saturating_add(count),
            Err(error) if failure.as_ref().is_none_or(|(first, _)| scraped.position < *first) => {
                let (pod, cause) = (scraped.pod, error.to_string());
                failure = Some((scraped.position, PodTotal::Failed { pod, cause }));
            }
            Err(_of_a_later_pod) => {}
        }
    }
    failure.map_or(PodTotal::Queries(queries), |(_, failed)| failed)
}

/// The pods to scrape, unless the sample fails without a scrape.
fn targets(pods: Vec<ProbePod>) -> Result<Vec<Target>, PodTotal> {
    let targets = pods.into_iter().filter_map(|pod| match pod {
        ProbePod::Scrape(target) => Some(Ok(target)),
        ProbePod::Drained => None,
        ProbePod::Unscrapable { pod, cause } => Some(Err(PodTotal::Failed { pod, cause })),
    });
    targets.collect()
}

async fn scrape<'a>(
    position: usize,
    target: Target,
    transport: Transport,
    hooks: &Hooks,
    permit: ScrapePermit<'a>,
) -> Scraped<'a> {
    let pod = target.pod.clone();
    let began = Instant::now();
    let result = (hooks.scrape)(target, transport).await;
    (hooks.measure)(began.elapsed(), result.is_ok());
    Scraped {
        position,
        pod,
        permit,
        result,
    }
}

#[cfg(test)]
#[path = "sample_tests.rs"]
mod tests;
