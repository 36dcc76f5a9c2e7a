//! Schedule windows as time spans: whether one is open, and when the next and the last change is.
//!
//! Windows are in UTC, where every day has 24 hours. A window opens at its start on each of its days and closes at its
//! end, which is on the next day if it is before the start. The end itself is outside. A window whose end equals its
//! start is empty; one that ends at `24:00` lasts until midnight. Overlapping and adjacent windows are merged.

use firebolt_api::{ScheduleWindow, Weekday};
use jiff::civil;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// Longer than the longest distance between two changes: one week, plus a window that began the day before.
const HORIZON_DAYS: i64 = 9;
const MINUTES_PER_DAY: i64 = 24 * 60;

/// The open spans around a time, in order and without overlap.
pub(super) struct Spans {
    spans: Vec<(Timestamp, Timestamp)>,
    now: Timestamp,
}

impl Spans {
    pub(super) fn around(windows: &[ScheduleWindow], now: Timestamp) -> Self {
        let midnight = Offset::UTC.to_datetime(now).date();
        let mut spans: Vec<_> = (-HORIZON_DAYS..=HORIZON_DAYS)
            .filter_map(|days| midnight.checked_add(SignedDuration::from_hours(24 * days)).ok())
            .flat_map(|day| windows.iter().filter_map(move |window| span_on(window, day)))
            .collect();
        spans.sort_unstable();
        Self {
            spans: merged(spans),
            now,
        }
    }

    pub(super) fn open(&self) -> bool {
        self.containing().is_some()
    }

    /// The next time at which the schedule opens or closes, if any.
    pub(super) fn next_edge(&self) -> Option<Timestamp> {
        let edge = match self.containing() {
            Some((_, end)) => end,
            None => self
                .spans
                .iter()
                .map(|&(start, _)| start)
                .find(|&start| start > self.now)?,
        };
        // A span that reaches the horizon does not necessarily end there.
        let within = edge.duration_since(self.now) < SignedDuration::from_hours(24 * (HORIZON_DAYS - 1));
        within.then_some(edge)
    }

    /// The last time at which the schedule closed, if that was within the last week and it is closed now.
    pub(super) fn last_close(&self) -> Option<Timestamp> {
        let ends = self.spans.iter().map(|&(_, end)| end);
        ends.filter(|&end| end <= self.now).max()
    }

    fn containing(&self) -> Option<(Timestamp, Timestamp)> {
        self.spans
            .iter()
            .copied()
            .find(|&(start, end)| start <= self.now && self.now < end)
    }
}

/// The span of a window that opens on this day, if it does.
fn span_on(window: &ScheduleWindow, day: civil::Date) -> Option<(Timestamp, Timestamp)> {
    if !window.days.is_empty() && !window.days.contains(&weekday(day)) {
        return None;
    }
    let (start, end) = (minute_of_day(&window.start)?, minute_of_day(&window.end)?);
    let length = if end < start {
        end + MINUTES_PER_DAY - start
    } else {
        end - start
    };
    let midnight = Offset::UTC.to_timestamp(day.at(0, 0, 0, 0)).ok()?;
    let opens = midnight.checked_add(SignedDuration::from_mins(start)).ok()?;
    let closes = opens.checked_add(SignedDuration::from_mins(length)).ok()?;
    (length > 0).then_some((opens, closes))
}

/// `08:30` in minutes, up to and including `24:00`. The schema accepts nothing else; an invalid text is not a window.
fn minute_of_day(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let minute = hours * 60 + minutes;
    ((0..60).contains(&minutes) && (0..=MINUTES_PER_DAY).contains(&minute)).then_some(minute)
}

fn weekday(day: civil::Date) -> Weekday {
    match day.weekday() {
        civil::Weekday::Monday => Weekday::Mon,
        civil::Weekday::Tuesday => Weekday::Tue,
        civil::Weekday::Wednesday => Weekday::Wed,
        civil::Weekday::Thursday => Weekday::Thu,
        civil::Weekday::Friday => Weekday::Fri,
        civil::Weekday::Saturday => Weekday::Sat,
        civil::Weekday::Sunday => Weekday::Sun,
    }
}

/// Joins sorted spans that overlap or touch.
fn merged(spans: Vec<(Timestamp, Timestamp)>) -> Vec<(Timestamp, Timestamp)> {
    let mut joined: Vec<(Timestamp, Timestamp)> = Vec::new();
    for (start, end) in spans {
        match joined.last_mut() {
            Some((_, last)) if start <= *last => *last = (*last).max(end),
            Some(_) | None => joined.push((start, end)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const DAYS: [Weekday; 7] = [
        Weekday::Mon,
        Weekday::Tue,
        Weekday::Wed,
        Weekday::Thu,
        Weekday::Fri,
        Weekday::Sat,
        Weekday::Sun,
    ];

    fn window(start: &str, end: &str, days: &[Weekday]) -> ScheduleWindow {
        ScheduleWindow {
            start: start.to_owned(),
            end: end.to_owned(),
            days: days.to_vec(),
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    // The 16th of November 2026 is a Monday.
    #[rstest]
    #[case::start_is_inside("08:00", "18:00", &[], "2026-11-16T08:00:00Z", true, Some("2026-11-16T18:00:00Z"))]
    #[case::end_is_outside("08:00", "18:00", &[], "2026-11-16T18:00:00Z", false, Some("2026-11-17T08:00:00Z"))]
    #[case::edges_are_exact("08:00", "18:00", &[], "2026-11-16T17:59:59.5Z", true, Some("2026-11-16T18:00:00Z"))]
    #[case::past_midnight("22:00", "02:00", &[], "2026-11-16T01:59:00Z", true, Some("2026-11-16T02:00:00Z"))]
    #[case::tail_belongs_to_the_day_before("22:00", "02:00", &[Weekday::Mon], "2026-11-16T01:00:00Z", false, Some("2026-11-16T22:00:00Z"))]
    #[case::tail_of_monday("22:00", "02:00", &[Weekday::Mon], "2026-11-17T01:00:00Z", true, Some("2026-11-17T02:00:00Z"))]
    #[case::until_midnight("20:00", "24:00", &[Weekday::Mon], "2026-11-16T23:59:59Z", true, Some("2026-11-17T00:00:00Z"))]
    #[case::always("00:00", "24:00", &[], "2026-11-16T23:59:59Z", true, None)]
    #[case::empty("08:00", "08:00", &[], "2026-11-16T08:00:00Z", false, None)]
    #[case::malformed("8 o'clock", "18:00", &[], "2026-11-16T09:00:00Z", false, None)]
    #[case::no_such_minute("08:60", "18:00", &[], "2026-11-16T09:30:00Z", false, None)]
    #[case::no_such_hour("08:00", "25:00", &[], "2026-11-16T09:00:00Z", false, None)]
    #[case::next_week("08:00", "09:00", &[Weekday::Mon], "2026-11-16T09:00:00Z", false, Some("2026-11-23T08:00:00Z"))]
    fn windows_open_and_close(
        #[case] start: &str,
        #[case] end: &str,
        #[case] days: &[Weekday],
        #[case] now: &str,
        #[case] open: bool,
        #[case] next: Option<&str>,
    ) {
        let spans = Spans::around(&[window(start, end, days)], at(now));
        assert_eq!(spans.open(), open);
        assert_eq!(spans.next_edge(), next.map(at));
    }

    #[test]
    fn adjacent_windows_have_no_change_between_them() {
        let windows = [window("08:00", "12:00", &[]), window("12:00", "18:00", &[])];
        let spans = Spans::around(&windows, at("2026-11-16T09:00:00Z"));
        assert_eq!(spans.next_edge(), Some(at("2026-11-16T18:00:00Z")));
    }

    #[test]
    fn the_last_close_is_remembered() {
        let windows = [window("08:00", "12:00", &[Weekday::Mon])];
        let spans = Spans::around(&windows, at("2026-11-17T09:00:00Z"));
        assert_eq!(spans.last_close(), Some(at("2026-11-16T12:00:00Z")));
    }

    /// A simple implementation to compare with: check the minute and the day.
    fn oracle(windows: &[ScheduleWindow], now: Timestamp) -> bool {
        let clock = Offset::UTC.to_datetime(now);
        let minute = i64::from(clock.hour()) * 60 + i64::from(clock.minute());
        let today = weekday(clock.date());
        let yesterday = DAYS[(DAYS.iter().position(|&day| day == today).unwrap() + 6) % 7];
        let on = |window: &ScheduleWindow, day| window.days.is_empty() || window.days.contains(&day);
        windows.iter().any(|window| {
            let (start, end) = (
                minute_of_day(&window.start).unwrap(),
                minute_of_day(&window.end).unwrap(),
            );
            if start <= end {
                on(window, today) && start <= minute && minute < end
            } else {
                (on(window, today) && minute >= start) || (on(window, yesterday) && minute < end)
            }
        })
    }

    fn any_window() -> impl Strategy<Value = ScheduleWindow> {
        let days = proptest::sample::subsequence(DAYS.to_vec(), 0..=7);
        (0..MINUTES_PER_DAY, 0..=MINUTES_PER_DAY, days).prop_map(|(start, end, days)| {
            let text = |minute: i64| format!("{:02}:{:02}", minute / 60, minute % 60);
            window(&text(start), &text(end), &days)
        })
    }

    proptest! {
        #[test]
        fn windows_agree_with_a_simple_implementation_minute_by_minute(
            windows in proptest::collection::vec(any_window(), 0..4),
            first in 0i64..20_000_000,
        ) {
            for minute in 0..200 {
                let now = Timestamp::from_second((29_000_000 + first + minute * 53) * 60).unwrap();
                prop_assert_eq!(Spans::around(&windows, now).open(), oracle(&windows, now), "{}", now);
            }
        }

        #[test]
        fn the_next_change_is_the_first_minute_that_differs(
            windows in proptest::collection::vec(any_window(), 0..4),
            minute in 29_000_000i64..49_000_000,
            second in 0i64..60,
        ) {
            let now = Timestamp::from_second(minute * 60 + second).unwrap();
            let open = oracle(&windows, now);
            let ahead = (1..=7 * MINUTES_PER_DAY + 1).map(|ahead| Timestamp::from_second((minute + ahead) * 60).unwrap());
            let expected = ahead.into_iter().find(|&then| oracle(&windows, then) != open);
            prop_assert_eq!(Spans::around(&windows, now).next_edge(), expected);
        }
    }
}
