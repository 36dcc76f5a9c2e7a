//! One sample: all pods of an engine, asked side by side.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::book::Tally;
use super::{Hooks, ScrapeError, Subject, Target, Transport};

/// How many pods of one engine are asked at the same time.
const SIDE_BY_SIDE: usize = 8;

/// What a scrape runs on. Each sample has one place of its own, so it gets on however long others hold the shared ones.
enum Place<'a> {
    Own,
    Shared(#[expect(dead_code, reason = "given back when dropped")] SemaphorePermit<'a>),
}

struct Answer<'a> {
    position: usize,
    pod: String,
    place: Place<'a>,
    result: Result<u64, ScrapeError>,
}

/// Asks all that are to be asked and adds up what they say.
///
/// Once one has failed, the sample has: no more questions are begun. Those under way are waited for, so that of pods
/// that fail together the same one is named each time.
pub(super) async fn tally(subjects: Vec<Subject>, transport: Transport, hooks: &Hooks, shared: &Semaphore) -> Tally {
    let targets = match targets(subjects) {
        Ok(targets) if targets.is_empty() => return Tally::NobodyAsked,
        Ok(targets) => targets,
        Err(failed) => return failed,
    };
    let mut waiting = targets.into_iter().enumerate();
    let mut running = FuturesUnordered::new();
    let mut own = Some(Place::Own);
    let mut queries = 0_u64;
    let mut failure: Option<(usize, Tally)> = None;
    loop {
        while failure.is_none() && running.len() < SIDE_BY_SIDE && waiting.len() > 0 {
            let place = own.take().or_else(|| shared.try_acquire().ok().map(Place::Shared));
            let Some(place) = place else { break };
            running.extend(
                waiting
                    .next()
                    .map(|(at, target)| ask(at, target, transport, hooks, place)),
            );
        }
        let Some(answer) = running.next().await else { break };
        if let Place::Own = answer.place {
            own = Some(Place::Own);
        }
        match answer.result {
            Ok(count) => queries = queries.saturating_add(count),
            Err(error) if failure.as_ref().is_none_or(|(first, _)| answer.position < *first) => {
                let (pod, cause) = (answer.pod, error.to_string());
                failure = Some((answer.position, Tally::Failed { pod, cause }));
            }
            Err(_of_a_later_pod) => {}
        }
    }
    failure.map_or(Tally::Queries(queries), |(_, failed)| failed)
}

/// Those who are to be asked, unless the sample fails without asking.
fn targets(subjects: Vec<Subject>) -> Result<Vec<Target>, Tally> {
    let targets = subjects.into_iter().filter_map(|subject| match subject {
        Subject::Ask(target) => Some(Ok(target)),
        Subject::Drained => None,
        Subject::Unaskable { pod, cause } => Some(Err(Tally::Failed { pod, cause })),
    });
    targets.collect()
}

async fn ask<'a>(position: usize, target: Target, transport: Transport, hooks: &Hooks, place: Place<'a>) -> Answer<'a> {
    let pod = target.pod.clone();
    let began = Instant::now();
    let result = (hooks.scrape)(target, transport).await;
    (hooks.measure)(began.elapsed(), result.is_ok());
    Answer {
        position,
        pod,
        place,
        result,
    }
}

#[cfg(test)]
#[path = "sample_tests.rs"]
mod tests;
