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

/// A book with one assignment, and clocks that only tests move.
struct Desk {
    book: Book,
    start: Instant,
    now: Moment,
}

impl Desk {
    fn with(purpose: Purpose, interval: Duration) -> Self {
        let start = Instant::now();
        let mut desk = Self {
            book: Book::default(),
            start,
            now: Moment {
                monotonic: start,
                wall: Timestamp::UNIX_EPOCH,
            },
        };
        desk.assign(Some(assignment(purpose, interval)));
        desk
    }

    fn assign(&mut self, wanted: Option<Assignment>) {
        self.book.assign(&key(), wanted, self.now.monotonic);
    }

    fn wait(&mut self, time: Duration) {
        self.now.monotonic += time;
        self.now.wall += time;
    }

    fn start(&mut self) -> Option<Job> {
        let mut jobs = self.book.start_due(self.now.monotonic);
        assert!(jobs.len() <= 1, "one at a time");
        jobs.pop()
    }

    fn finish(&mut self, job: &Job, tally: Tally) -> bool {
        let began = self.now;
        self.book.finish(job, Some(Finding { began, tally }))
    }

    /// A sample that takes no time.
    fn sample(&mut self, tally: Tally) {
        let job = self.start().expect("a sample is due");
        assert!(self.finish(&job, tally));
    }

    /// Since when it is quiet, in seconds from the start.
    fn quiet_since(&self) -> Option<i64> {
        match self.book.activity_sample(&key())?.outcome {
            Activity::Quiet { since } => Some(since.as_second()),
            Activity::Busy(_) | Activity::Failed { .. } => None,
        }
    }

    /// When the next sample is due, in seconds from the start.
    fn due(&self) -> Option<u64> {
        self.book.next_due().map(|due| (due - self.start).as_secs())
    }
}

fn failed() -> Tally {
    Tally::Failed {
        pod: "a-g3-0".to_owned(),
        cause: "answered 500".to_owned(),
    }
}

#[rstest]
#[case(Tally::NobodyAsked, Drain::Drained)]
#[case(Tally::Queries(0), Drain::Drained)]
#[case(Tally::Queries(2), Drain::Busy(2))]
#[case(failed(), Drain::Failed { pod: "a-g3-0".to_owned(), cause: "answered 500".to_owned() })]
fn a_drain_is_done_when_no_query_is_left(#[case] tally: Tally, #[case] outcome: Drain) {
    let mut desk = Desk::with(Purpose::Drain, MINUTE);
    desk.sample(tally);
    let (generation, began) = (3, Timestamp::UNIX_EPOCH);
    let expected = DrainSample {
        generation,
        began,
        outcome,
    };
    assert_eq!(desk.book.drain_sample(&key()), Some(expected));
    assert_eq!(desk.book.activity_sample(&key()), None);
}

#[rstest]
#[case(Tally::NobodyAsked, Activity::Failed { cause: "no pod is running".to_owned() })]
#[case(Tally::Queries(0), Activity::Quiet { since: Timestamp::UNIX_EPOCH })]
#[case(Tally::Queries(2), Activity::Busy(2))]
#[case(failed(), Activity::Failed { cause: "pod a-g3-0: answered 500".to_owned() })]
fn an_engine_is_quiet_only_if_its_pods_say_so(#[case] tally: Tally, #[case] outcome: Activity) {
    let mut desk = Desk::with(Purpose::Activity, MINUTE);
    desk.sample(tally);
    let (generation, taken) = (3, Timestamp::UNIX_EPOCH);
    let expected = ActivitySample {
        generation,
        taken,
        outcome,
    };
    assert_eq!(desk.book.activity_sample(&key()), Some(expected));
    assert_eq!(desk.book.drain_sample(&key()), None);
}

#[test]
fn quiet_lasts_from_the_first_of_an_unbroken_run() {
    let mut desk = Desk::with(Purpose::Activity, MINUTE);
    for _ in 0..3 {
        desk.sample(Tally::Queries(0));
        assert_eq!(desk.quiet_since(), Some(0));
        desk.wait(MINUTE);
    }
}

#[rstest]
#[case(Tally::Queries(1))]
#[case(Tally::NobodyAsked)]
#[case(failed())]
fn anything_but_quiet_breaks_the_run(#[case] between: Tally) {
    let mut desk = Desk::with(Purpose::Activity, MINUTE);
    for tally in [Tally::Queries(0), between, Tally::Queries(0)] {
        desk.sample(tally);
        desk.wait(MINUTE);
    }
    assert_eq!(desk.quiet_since(), Some(120));
}

#[rstest]
#[case::in_time(120, 120, 0)]
#[case::missed(121, 121, 121)]
#[case::slept(60, 121, 121)]
#[case::clock_stood_still(121, 60, 60)]
#[case::clock_set_back(60, -1, -1)]
fn a_missed_poll_breaks_the_run(#[case] monotonic: u64, #[case] wall: i64, #[case] since: i64) {
    let mut desk = Desk::with(Purpose::Activity, MINUTE);
    desk.sample(Tally::Queries(0));
    desk.now = Moment {
        monotonic: desk.start + Duration::from_secs(monotonic),
        wall: Timestamp::from_second(wall).unwrap(),
    };
    desk.sample(Tally::Queries(0));
    assert_eq!(desk.quiet_since(), Some(since));
}

#[rstest]
#[case::shorter(1, 60)]
#[case::longer(600, 600)]
fn another_interval_misses_no_poll(#[case] seconds: u64, #[case] next: u64) {
    let mut desk = Desk::with(Purpose::Activity, MINUTE);
    desk.sample(Tally::Queries(0));
    desk.wait(Duration::from_secs(50));
    desk.assign(Some(assignment(Purpose::Activity, Duration::from_secs(seconds))));
    assert_eq!(desk.quiet_since(), Some(0), "kept");
    desk.wait(Duration::from_secs(next - 50));
    desk.sample(Tally::Queries(0));
    assert_eq!(desk.quiet_since(), Some(0));
}

#[rstest]
#[case::shorter(10, 10)]
#[case::longer(600, 600)]
#[case::no_time_at_all(0, 1)]
fn another_interval_counts_from_the_last_sample(#[case] seconds: u64, #[case] due: u64) {
    let mut desk = Desk::with(Purpose::Drain, MINUTE);
    desk.sample(Tally::Queries(1));
    assert_eq!(desk.due(), Some(60));
    desk.wait(Duration::from_secs(5));
    desk.assign(Some(assignment(Purpose::Drain, Duration::from_secs(seconds))));
    assert_eq!(desk.due(), Some(due));
    assert!(desk.book.drain_sample(&key()).is_some());
}

#[test]
fn an_interval_beyond_all_bounds_is_as_good_as_never() {
    let mut desk = Desk::with(Purpose::Activity, Duration::MAX);
    desk.sample(Tally::Queries(0));
    desk.wait(MINUTE);
    assert!(desk.start().is_none());
}

#[test]
fn another_interval_during_a_sample_leaves_one_timer() {
    let mut desk = Desk::with(Purpose::Drain, MINUTE);
    desk.sample(Tally::Queries(1));
    desk.wait(MINUTE);
    let job = desk.start().unwrap();
    desk.assign(Some(assignment(Purpose::Drain, MINUTE * 3)));
    assert!(desk.start().is_none(), "one at a time");
    assert!(desk.finish(&job, Tally::Queries(1)));
    desk.wait(MINUTE * 2);
    assert!(desk.start().is_none(), "due after three minutes");
    desk.wait(MINUTE);
    desk.sample(Tally::Queries(1));
    assert!(desk.start().is_none());
    assert_eq!(desk.book.schedule.len(), 1);
}

#[test]
fn a_change_during_a_sample_calls_it_off_and_is_due_when_it_has_ended() {
    let mut desk = Desk::with(Purpose::Drain, MINUTE);
    let job = desk.start().unwrap();
    desk.assign(None);
    assert!(job.called_off.is_cancelled());
    desk.assign(Some(assignment(Purpose::Activity, MINUTE)));
    assert!(desk.start().is_none(), "one at a time");
    assert!(!desk.finish(&job, failed()), "it is worth nothing");
    assert_eq!(desk.book.drain_failures(&key()), 0);
    assert_eq!(desk.book.activity_sample(&key()), None);
    desk.sample(Tally::Queries(0));
}

#[test]
fn an_engine_that_is_gone_leaves_nothing_behind() {
    let mut desk = Desk::with(Purpose::Drain, MINUTE);
    desk.sample(failed());
    desk.wait(MINUTE);
    let job = desk.start().unwrap();
    desk.book.forget(&key());
    assert!(!desk.finish(&job, failed()));
    let Book {
        entries,
        schedule,
        asking,
        drain_failures,
    } = desk.book;
    assert!(entries.is_empty() && schedule.is_empty() && asking.is_empty() && drain_failures.is_empty());
}

#[test]
fn failed_drains_are_counted_until_the_engine_is_gone() {
    let mut desk = Desk::with(Purpose::Drain, MINUTE);
    for _ in 0..2 {
        desk.sample(failed());
        desk.wait(MINUTE);
    }
    desk.sample(Tally::Queries(1));
    assert_eq!(desk.book.drain_failures(&key()), 2);
    desk.assign(Some(assignment(Purpose::Activity, MINUTE)));
    desk.sample(failed());
    assert_eq!(desk.book.drain_failures(&key()), 2, "auto-stop is no drain");
    desk.assign(None);
    assert_eq!(
        desk.book.drain_failures(&key()),
        2,
        "a counter never falls while its engine is there"
    );
    desk.book.forget(&key());
    assert_eq!(desk.book.drain_failures(&key()), 0);
}
