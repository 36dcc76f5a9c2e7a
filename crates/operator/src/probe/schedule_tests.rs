use rstest::rstest;

use super::super::Transport;
use super::*;

const MINUTE: Duration = Duration::from_mins(1);

fn key() -> ObjectKey {
    ObjectKey::new("team", "a")
}

fn assignment(purpose: Purpose, interval: Duration) -> Assignment {
    Assignment {
        uid: "u1".to_owned(),
        purpose,
        generation: 3,
        interval,
        transport: Transport::PodIp,
    }
}

/// A schedule with one assignment, and clocks that only tests advance.
struct TestSchedule {
    schedule: Schedule,
    start: Instant,
    now: Moment,
}

impl TestSchedule {
    fn with(purpose: Purpose, interval: Duration) -> Self {
        let start = Instant::now();
        let mut test = Self {
            schedule: Schedule::default(),
            start,
            now: Moment {
                monotonic: start,
                wall: Timestamp::UNIX_EPOCH,
            },
        };
        test.assign(Some(assignment(purpose, interval)));
        test
    }

    fn assign(&mut self, assignment: Option<Assignment>) {
        self.schedule.assign(&key(), assignment, self.now.monotonic);
    }

    fn wait(&mut self, time: Duration) {
        self.now.monotonic += time;
        self.now.wall += time;
    }

    fn start(&mut self) -> Option<SampleJob> {
        let mut jobs = self.schedule.start_due(self.now.monotonic);
        assert!(jobs.len() <= 1, "one at a time");
        jobs.pop()
    }

    fn finish(&mut self, job: &SampleJob, total: PodTotal) -> bool {
        let began = self.now;
        self.schedule.finish(job, Some(SampleResult { began, total }))
    }

    /// A sample that takes no time.
    fn sample(&mut self, total: PodTotal) {
        let job = self.start().expect("a sample is due");
        assert!(self.finish(&job, total));
    }

    /// Since when it is quiet, in seconds from the start.
    fn quiet_since(&self) -> Option<i64> {
        match self.schedule.activity_sample(&key())?.outcome {
            Activity::Quiet { since } => Some(since.as_second()),
            Activity::Busy(_) | Activity::Failed { .. } => None,
        }
    }

    /// When the next sample is due, in seconds from the start.
    fn due(&self) -> Option<u64> {
        self.schedule.next_due().map(|due| (due - self.start).as_secs())
    }
}

fn failed() -> PodTotal {
    PodTotal::Failed {
        pod: "a-g3-0".to_owned(),
        cause: "HTTP status 500".to_owned(),
    }
}

#[rstest]
#[case(PodTotal::NoPods, Drain::Drained)]
#[case(PodTotal::Queries(0), Drain::Drained)]
#[case(PodTotal::Queries(2), Drain::Busy(2))]
#[case(failed(), Drain::Failed { pod: "a-g3-0".to_owned(), cause: "HTTP status 500".to_owned() })]
fn a_drain_is_done_when_no_query_is_left(#[case] total: PodTotal, #[case] outcome: Drain) {
    let mut test = TestSchedule::with(Purpose::Drain, MINUTE);
    test.sample(total);
    let (generation, began) = (3, Timestamp::UNIX_EPOCH);
    let expected = DrainSample {
        generation,
        began,
        outcome,
    };
    assert_eq!(test.schedule.drain_sample(&key()), Some(expected));
    assert_eq!(test.schedule.activity_sample(&key()), None);
}

#[rstest]
#[case(PodTotal::NoPods, Activity::Failed { cause: "no pod is running".to_owned() })]
#[case(PodTotal::Queries(0), Activity::Quiet { since: Timestamp::UNIX_EPOCH })]
#[case(PodTotal::Queries(2), Activity::Busy(2))]
#[case(failed(), Activity::Failed { cause: "pod a-g3-0: HTTP status 500".to_owned() })]
fn an_engine_is_quiet_only_if_its_pods_report_no_query(#[case] total: PodTotal, #[case] outcome: Activity) {
    let mut test = TestSchedule::with(Purpose::Activity, MINUTE);
    test.sample(total);
    let (generation, taken) = (3, Timestamp::UNIX_EPOCH);
    let expected = ActivitySample {
        generation,
        taken,
        outcome,
    };
    assert_eq!(test.schedule.activity_sample(&key()), Some(expected));
    assert_eq!(test.schedule.drain_sample(&key()), None);
}

#[test]
fn quiet_lasts_from_the_first_of_an_unbroken_run() {
    let mut test = TestSchedule::with(Purpose::Activity, MINUTE);
    for _ in 0..3 {
        test.sample(PodTotal::Queries(0));
        assert_eq!(test.quiet_since(), Some(0));
        test.wait(MINUTE);
    }
}

#[rstest]
#[case(PodTotal::Queries(1))]
#[case(PodTotal::NoPods)]
#[case(failed())]
fn anything_but_quiet_breaks_the_run(#[case] between: PodTotal) {
    let mut test = TestSchedule::with(Purpose::Activity, MINUTE);
    for total in [PodTotal::Queries(0), between, PodTotal::Queries(0)] {
        test.sample(total);
        test.wait(MINUTE);
    }
    assert_eq!(test.quiet_since(), Some(120));
}

#[rstest]
#[case::in_time(120, 120, 0)]
#[case::missed(121, 121, 121)]
#[case::slept(60, 121, 121)]
#[case::clock_stood_still(121, 60, 60)]
#[case::clock_set_back(60, -1, -1)]
fn a_missed_poll_breaks_the_run(#[case] monotonic: u64, #[case] wall: i64, #[case] since: i64) {
    let mut test = TestSchedule::with(Purpose::Activity, MINUTE);
    test.sample(PodTotal::Queries(0));
    test.now = Moment {
        monotonic: test.start + Duration::from_secs(monotonic),
        wall: Timestamp::from_second(wall).unwrap(),
    };
    test.sample(PodTotal::Queries(0));
    assert_eq!(test.quiet_since(), Some(since));
}

#[rstest]
#[case::shorter(1, 60)]
#[case::longer(600, 600)]
fn another_interval_misses_no_poll(#[case] seconds: u64, #[case] next: u64) {
    let mut test = TestSchedule::with(Purpose::Activity, MINUTE);
    test.sample(PodTotal::Queries(0));
    test.wait(Duration::from_secs(50));
    test.assign(Some(assignment(Purpose::Activity, Duration::from_secs(seconds))));
    assert_eq!(test.quiet_since(), Some(0), "kept");
    test.wait(Duration::from_secs(next - 50));
    test.sample(PodTotal::Queries(0));
    assert_eq!(test.quiet_since(), Some(0));
}

#[rstest]
#[case::shorter(10, 10)]
#[case::longer(600, 600)]
#[case::no_time_at_all(0, 1)]
fn another_interval_counts_from_the_last_sample(#[case] seconds: u64, #[case] due: u64) {
    let mut test = TestSchedule::with(Purpose::Drain, MINUTE);
    test.sample(PodTotal::Queries(1));
    assert_eq!(test.due(), Some(60));
    test.wait(Duration::from_secs(5));
    test.assign(Some(assignment(Purpose::Drain, Duration::from_secs(seconds))));
    assert_eq!(test.due(), Some(due));
    assert!(test.schedule.drain_sample(&key()).is_some());
}

#[test]
fn the_interval_is_bounded_above() {
    let mut test = TestSchedule::with(Purpose::Activity, Duration::MAX);
    test.sample(PodTotal::Queries(0));
    test.wait(MINUTE);
    assert!(test.start().is_none());
}

#[test]
fn another_interval_during_a_sample_leaves_one_timer() {
    let mut test = TestSchedule::with(Purpose::Drain, MINUTE);
    test.sample(PodTotal::Queries(1));
    test.wait(MINUTE);
    let job = test.start().unwrap();
    test.assign(Some(assignment(Purpose::Drain, MINUTE * 3)));
    assert!(test.start().is_none(), "one at a time");
    assert!(test.finish(&job, PodTotal::Queries(1)));
    test.wait(MINUTE * 2);
    assert!(test.start().is_none(), "due after three minutes");
    test.wait(MINUTE);
    test.sample(PodTotal::Queries(1));
    assert!(test.start().is_none());
    assert_eq!(test.schedule.due.len(), 1);
}

#[test]
fn a_change_during_a_sample_cancels_it_and_is_due_when_it_has_ended() {
    let mut test = TestSchedule::with(Purpose::Drain, MINUTE);
    let job = test.start().unwrap();
    test.assign(None);
    assert!(job.cancelled.is_cancelled());
    test.assign(Some(assignment(Purpose::Activity, MINUTE)));
    assert!(test.start().is_none(), "one at a time");
    assert!(!test.finish(&job, failed()), "dropped");
    assert_eq!(test.schedule.drain_failures(&key()), 0);
    assert_eq!(test.schedule.activity_sample(&key()), None);
    test.sample(PodTotal::Queries(0));
}

#[test]
fn forget_removes_every_entry() {
    let mut test = TestSchedule::with(Purpose::Drain, MINUTE);
    test.sample(failed());
    test.wait(MINUTE);
    let job = test.start().unwrap();
    test.schedule.forget(&key());
    assert!(!test.finish(&job, failed()));
    let Schedule {
        entries,
        due,
        running,
        drain_failures,
    } = test.schedule;
    assert!(entries.is_empty() && due.is_empty() && running.is_empty() && drain_failures.is_empty());
}

#[test]
fn failed_drains_are_counted_until_the_engine_is_gone() {
    let mut test = TestSchedule::with(Purpose::Drain, MINUTE);
    for _ in 0..2 {
        test.sample(failed());
        test.wait(MINUTE);
    }
    test.sample(PodTotal::Queries(1));
    assert_eq!(test.schedule.drain_failures(&key()), 2);
    test.assign(Some(assignment(Purpose::Activity, MINUTE)));
    test.sample(failed());
    assert_eq!(test.schedule.drain_failures(&key()), 2, "auto-stop is no drain");
    test.assign(None);
    assert_eq!(
        test.schedule.drain_failures(&key()),
        2,
        "a counter never falls while its engine is there"
    );
    test.schedule.forget(&key());
    assert_eq!(test.schedule.drain_failures(&key()), 0);
}
