use rstest::rstest;

use super::super::mint::{Minted, mint};
use super::*;

const DAY: Duration = Duration::from_hours(24);
const VALIDITY: Duration = Duration::from_hours(24 * 90);
const LONG: Option<Duration> = Some(Duration::from_hours(24));

fn now() -> Timestamp {
    "2026-05-04T03:02:01Z".parse().unwrap()
}

fn hosts() -> Hosts {
    Hosts::new(["operator.firebolt-system.svc"])
}

fn wanted() -> Wanted {
    Wanted::new(hosts(), VALIDITY)
}

fn minted(ago: Duration) -> Minted {
    mint(&hosts(), VALIDITY, now() - ago).unwrap()
}

/// A Secret with a pair that was made some time ago, and nothing else going on.
fn steady(ago: Duration) -> Content {
    Content::begin(minted(ago), Bundle::default())
}

/// The same with another pair beside it.
fn staged(ago: Duration) -> Content {
    let steady = steady(ago);
    steady.stage(minted(Duration::ZERO), steady.bundle.clone())
}

fn trusting(bundle: &Bundle) -> [Seen; 2] {
    let rendered = bundle.render();
    [
        Seen::Present(vec![rendered.clone(), rendered.clone()]),
        Seen::Present(vec![rendered]),
    ]
}

fn trusting_nobody() -> [Seen; 2] {
    [Seen::Present(vec![vec![], vec![]]), Seen::Present(vec![vec![]])]
}

fn decide_now(content: &Content, seen: &[Seen], held_for: Option<Duration>) -> Step {
    decide(content, seen, held_for, &wanted(), now())
}

#[rstest]
#[case(90 * DAY, Duration::from_mins(5), Duration::from_secs(10))]
#[case(Duration::from_secs(500), Duration::from_secs(5), Duration::from_secs(5))]
#[case(Duration::from_secs(10), Duration::from_secs(1), Duration::from_secs(1))]
fn the_time_to_settle_follows_from_the_validity(
    #[case] validity: Duration,
    #[case] settling: Duration,
    #[case] when_lost: Duration,
) {
    let wanted = Wanted::new(hosts(), validity);
    assert_eq!((wanted.settling, wanted.settling_when_lost), (settling, when_lost));
}

#[test]
fn nothing_is_decided_before_both_configurations_were_read() {
    let seen = [Seen::Absent, Seen::Unknown];
    assert_eq!(decide_now(&Content::default(), &seen, None), Step::Look);
    assert_eq!(decide_now(&staged(60 * DAY), &seen, None), Step::Look);
}

#[rstest]
#[case::no_configurations([Seen::Absent, Seen::Absent])]
#[case::fresh_configurations(trusting_nobody())]
#[case::garbage([Seen::Present(vec![b"garbage".to_vec()]), Seen::Absent])]
#[case::an_authority_that_has_expired(trusting(&steady(VALIDITY + DAY).bundle))]
fn the_first_pair_is_served_at_once(#[case] seen: [Seen; 2]) {
    assert_eq!(
        decide_now(&Content::default(), &seen, None),
        Step::Begin(Bundle::default())
    );
}

#[test]
fn when_the_secret_is_lost_what_the_webhooks_trust_stays_trusted() {
    let lost = steady(DAY);
    let step = decide_now(&Content::default(), &trusting(&lost.bundle), None);
    assert_eq!(step, Step::Stage(lost.bundle));
}

#[test]
fn what_replaces_a_lost_secret_settles_for_a_shorter_time() {
    let lost = steady(DAY);
    let content = Content::default().stage(minted(Duration::ZERO), lost.bundle.clone());
    let seen = trusting(&content.bundle);
    assert_eq!(decide_now(&content, &trusting(&lost.bundle), None), Step::Trust);
    let almost = wanted().settling_when_lost.saturating_sub(Duration::from_secs(1));
    assert_eq!(
        decide_now(&content, &seen, Some(almost)),
        Step::Rest(Duration::from_secs(1))
    );
    let settled = Some(wanted().settling_when_lost);
    assert_eq!(
        decide_now(&content, &seen, settled),
        Step::Store(Box::new(content.promote()))
    );
}

#[test]
fn a_pair_rests_until_two_thirds_of_its_validity_are_over() {
    let content = steady(10 * DAY);
    assert_eq!(
        decide_now(&content, &trusting(&content.bundle), LONG),
        Step::Rest(50 * DAY)
    );
    let content = steady(60 * DAY);
    assert_eq!(
        decide_now(&content, &trusting(&content.bundle), LONG),
        Step::Stage(content.bundle.clone())
    );
}

#[test]
fn a_configuration_that_trusts_somebody_else_is_corrected() {
    let content = steady(DAY);
    assert_eq!(decide_now(&content, &trusting_nobody(), None), Step::Trust);
    assert_eq!(decide_now(&content, &trusting(&steady(DAY).bundle), None), Step::Trust);
}

#[test]
fn the_next_pair_is_served_only_when_its_authority_has_settled() {
    let content = staged(60 * DAY);
    let (seen, settling) = (trusting(&content.bundle), wanted().settling);
    assert_eq!(decide_now(&content, &seen, None), Step::Trust);
    assert_eq!(decide_now(&content, &seen, Some(Duration::ZERO)), Step::Rest(settling));
    let Step::Store(promoted) = decide_now(&content, &seen, Some(settling)) else {
        panic!("it has settled")
    };
    assert_eq!((promoted.current, promoted.next), (content.next, None));
    assert_eq!(promoted.bundle, content.bundle, "replicas may still serve the old pair");
}

#[test]
fn other_hosts_are_a_reason_to_rotate_at_once() {
    let content = steady(DAY);
    let wanted = Wanted::new(Hosts::new(["another.host"]), VALIDITY);
    let step = decide(&content, &trusting(&content.bundle), LONG, &wanted, now());
    assert_eq!(step, Step::Stage(content.bundle));
}

#[test]
fn a_shorter_validity_is_a_reason_to_rotate_at_once_and_a_clock_that_is_a_little_behind_is_none() {
    let content = steady(Duration::ZERO);
    let seen = trusting(&content.bundle);
    let shorter = Wanted::new(hosts(), VALIDITY / 2);
    assert_eq!(
        decide(&content, &seen, LONG, &shorter, now()),
        Step::Stage(content.bundle.clone())
    );
    let behind = now() - Duration::from_mins(10);
    assert!(matches!(
        decide(&content, &seen, LONG, &wanted(), behind),
        Step::Rest(_)
    ));
}

#[test]
fn a_next_pair_that_became_useless_is_made_anew() {
    let steady = steady(60 * DAY);
    let content = steady.stage(minted(70 * DAY), steady.bundle.clone());
    let step = decide_now(&content, &trusting(&content.bundle), LONG);
    assert!(matches!(step, Step::Stage(_)), "{step:?}");
}

#[test]
fn a_secret_that_forgot_whom_to_trust_learns_it_from_the_webhooks() {
    let whole = steady(DAY);
    let content = Content {
        bundle: Bundle::default(),
        ..whole.clone()
    };
    assert_eq!(
        decide_now(&content, &trusting(&whole.bundle), None),
        Step::Store(Box::new(whole.clone()))
    );
    let step = decide_now(&content, &trusting_nobody(), None);
    assert_eq!(step, Step::Begin(Bundle::default()), "nobody can vouch for it any more");
}

#[test]
fn however_often_the_next_pair_is_made_anew_the_one_that_is_served_stays_trusted() {
    let mut content = steady(DAY);
    for round in 0..20 {
        let wanted = Wanted::new(Hosts::new([format!("host-{round}")]), VALIDITY);
        let Step::Stage(keep) = decide(&content, &trusting(&content.bundle), LONG, &wanted, now()) else {
            panic!("other hosts are a reason to rotate")
        };
        content = content.stage(mint(&wanted.hosts, VALIDITY, now()).unwrap(), keep);
        for pair in [&content.current, &content.next] {
            assert!(content.bundle.vouches_for(pair.as_ref().unwrap(), now()));
        }
        assert!(content.bundle.render().len() < 10_000);
    }
}

#[tokio::test(start_paused = true)]
async fn trust_counts_from_when_it_was_first_seen_without_a_break() {
    let (bundle, other) = (steady(DAY).bundle, steady(DAY).bundle);
    let mut holding = Holding::default();
    let second = Duration::from_secs(1);
    let mut look = |bundle: &Bundle, seen: &[Seen]| holding.update(bundle, seen, Instant::now());
    assert_eq!(look(&bundle, &trusting(&bundle)), Some(Duration::ZERO));
    tokio::time::advance(second).await;
    assert_eq!(look(&bundle, &trusting(&bundle)), Some(second));
    assert_eq!(look(&other, &trusting(&bundle)), None);
    assert_eq!(
        look(&bundle, &trusting(&bundle)),
        Some(Duration::ZERO),
        "there was a break"
    );
    assert_eq!(look(&bundle, &[Seen::Unknown, Seen::Absent]), None);
    assert_eq!(look(&bundle, &[Seen::Absent, Seen::Absent]), Some(Duration::ZERO));
}
