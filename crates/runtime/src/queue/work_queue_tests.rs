use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;
use crate::queue::metrics::WorkQueueMetrics;

fn at(at: Instant) -> Requeue {
    Requeue {
        at: Some(at),
        ..Requeue::default()
    }
}

fn with_workers(workers: usize) -> WorkQueue<&'static str> {
    WorkQueue::new(workers, QueueMetrics::default())
}

fn drain(queue: &mut WorkQueue<&'static str>, now: Instant) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.next(now)).collect()
}

#[test]
fn objects_are_reconciled_in_order_and_once() {
    let (mut queue, now) = (with_workers(9), Instant::now());
    for key in ["b", "a", "b"] {
        queue.add(key, Priority::Normal, now);
    }
    assert_eq!(drain(&mut queue, now), ["b", "a"]);
}

#[test]
fn the_depth_is_exported_by_priority() {
    let mut registry = Registry::default();
    let metrics = WorkQueueMetrics::register(&mut registry, "widgets");
    let (mut queue, now) = (WorkQueue::new(1, metrics.queue("widget")), Instant::now());
    let depth = |queue: &WorkQueue<&str>| {
        queue.measure();
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        ["urgent", "normal"].map(|priority| {
            let series = format!(r#"workqueue_depth{{name="widget",controller="widget",priority="{priority}"}} "#);
            let value = text.lines().find_map(|line| line.strip_prefix(&series));
            value.unwrap().parse::<u32>().unwrap()
        })
    };
    for key in ["a", "b", "c"] {
        queue.add(key, Priority::Normal, now);
    }
    assert_eq!(depth(&queue), [0, 3]);
    queue.add("c", Priority::Urgent, now);
    queue.add("d", Priority::Urgent, now);
    queue.add("d", Priority::Urgent, now);
    assert_eq!(depth(&queue), [2, 2]);
    assert_eq!(drain(&mut queue, now), ["c", "d", "a"]);
    assert_eq!(depth(&queue), [0, 1]);
}

#[test]
fn workers_limit_normal_reconciles_and_not_urgent_ones() {
    let (mut queue, now) = (with_workers(1), Instant::now());
    queue.add("a", Priority::Normal, now);
    queue.add("b", Priority::Normal, now);
    queue.add("c", Priority::Urgent, now);
    queue.add("d", Priority::Urgent, now);
    assert_eq!(drain(&mut queue, now), ["c", "d", "a"]);
    queue.done(&"c", Requeue::default(), now);
    assert_eq!(queue.next(now), None, "an urgent reconcile frees no worker");
    queue.done(&"a", Requeue::default(), now);
    assert_eq!(queue.next(now), Some("b"));
}

#[test]
fn an_object_that_becomes_urgent_overtakes_and_is_reconciled_once() {
    let (mut queue, now) = (with_workers(1), Instant::now());
    for key in ["a", "b", "c"] {
        queue.add(key, Priority::Normal, now);
    }
    queue.add("c", Priority::Urgent, now);
    assert_eq!(queue.next(now), Some("c"));
    queue.done(&"c", Requeue::default(), now);
    assert_eq!(queue.next(now), Some("a"));
    queue.done(&"a", Requeue::default(), now);
    assert_eq!(queue.next(now), Some("b"));
    queue.done(&"b", Requeue::default(), now);
    assert_eq!(queue.next(now), None);
}

#[test]
fn changes_during_a_reconcile_lead_to_one_more() {
    let (mut queue, now) = (with_workers(4), Instant::now());
    queue.add("a", Priority::Normal, now);
    assert_eq!(queue.next(now), Some("a"));
    queue.add("a", Priority::Normal, now);
    queue.add("a", Priority::Urgent, now);
    assert_eq!(queue.next(now), None, "one reconcile at a time");
    queue.done(&"a", Requeue::default(), now);
    queue.add("b", Priority::Normal, now);
    assert_eq!(drain(&mut queue, now), ["a", "b"]);
    queue.done(&"a", Requeue::default(), now);
    assert_eq!(queue.next(now), None);
}

#[test]
fn a_timer_fires_once_and_the_last_one_counts() {
    let (mut queue, now) = (with_workers(4), Instant::now());
    let later = |seconds| now + Duration::from_secs(seconds);
    queue.add("a", Priority::Normal, now);
    queue.next(now);
    queue.done(&"a", at(later(5)), now);
    assert_eq!(queue.next_timer(), Some(later(5)));
    assert_eq!(queue.next(later(4)), None);
    assert_eq!(queue.next(later(5)), Some("a"));
    assert_eq!(queue.next_timer(), None);
    queue.done(&"a", at(later(9)), now);
    queue.add("a", Priority::Normal, now);
    assert_eq!(queue.next(later(6)), Some("a"), "a change comes before the timer");
    assert_eq!(queue.next_timer(), None, "and the reconcile sets its own");
    queue.done(&"a", Requeue::default(), now);
    assert_eq!(queue.next(later(10)), None);
}

#[test]
fn the_last_reconcile_sets_the_timer() {
    let (mut queue, now) = (with_workers(4), Instant::now());
    queue.add("a", Priority::Normal, now);
    queue.next(now);
    queue.done(&"a", at(now + Duration::from_secs(5)), now);
    queue.done(&"a", at(now + Duration::from_secs(2)), now);
    assert_eq!(queue.next_timer(), Some(now + Duration::from_secs(2)));
    assert_eq!(queue.timers.len(), 1);
}

#[test]
fn a_throttled_object_is_reconciled_early_only_if_it_is_urgent() {
    let (mut queue, now) = (with_workers(4), Instant::now());
    let later = |seconds| now + Duration::from_secs(seconds);
    let failed = Requeue {
        at: Some(later(60)),
        not_before: Some(later(2)),
        ..Requeue::default()
    };
    queue.add("a", Priority::Normal, now);
    queue.next(now);
    queue.add("a", Priority::Normal, now);
    queue.done(&"a", failed, now);
    assert_eq!(queue.next(later(1)), None, "changed during the reconcile");
    queue.add("a", Priority::Normal, now);
    assert_eq!(queue.next(later(1)), None, "changed after the reconcile");
    assert_eq!(queue.next_timer(), Some(later(2)));
    assert_eq!(queue.next(later(2)), Some("a"));
    queue.done(&"a", Requeue::default(), now);
    queue.add("a", Priority::Normal, now);
    assert_eq!(queue.next(later(2)), Some("a"), "no longer throttled");
    queue.done(&"a", failed, now);
    queue.add("a", Priority::Urgent, now);
    assert_eq!(queue.next(now), Some("a"));
}

#[test]
fn the_timer_of_a_throttled_object_stands_if_nothing_changes() {
    let (mut queue, now) = (with_workers(4), Instant::now());
    let later = |seconds| now + Duration::from_secs(seconds);
    queue.add("a", Priority::Normal, now);
    queue.next(now);
    queue.done(
        &"a",
        Requeue {
            at: Some(later(60)),
            not_before: Some(later(2)),
            ..Requeue::default()
        },
        now,
    );
    assert_eq!(queue.next_timer(), Some(later(60)));
    assert_eq!(queue.next(later(60)), Some("a"));
    assert!(queue.not_before.is_empty());
}

#[test]
fn an_urgent_reconcile_that_could_not_do_its_work_stays_urgent() {
    let (mut queue, now) = (with_workers(1), Instant::now());
    let unfinished = Requeue {
        at: Some(now),
        keep_priority: true,
        ..Requeue::default()
    };
    queue.add("busy", Priority::Normal, now);
    queue.next(now);
    queue.add("wake", Priority::Urgent, now);
    assert_eq!(queue.next(now), Some("wake"));
    queue.done(&"wake", unfinished, now);
    assert_eq!(queue.next(now), Some("wake"), "all workers are busy");
    queue.done(&"wake", at(now), now);
    assert_eq!(queue.next(now), None, "it has done its work");
    queue.done(&"busy", unfinished, now);
    assert_eq!(queue.next(now), Some("wake"));
}
