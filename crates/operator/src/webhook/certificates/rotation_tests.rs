use rstest::rstest;

use super::super::issue::{Issued, issue};
use super::*;

const DAY: Duration = Duration::from_hours(24);
const VALIDITY: Duration = Duration::from_hours(24 * 90);
const LONG_AGO: Option<Duration> = Some(Duration::from_hours(24));

fn now() -> Timestamp {
    "2026-05-04T03:02:01Z".parse().unwrap()
}

fn hosts() -> Hosts {
    Hosts::new(["operator.firebolt-system.svc"])
}

fn policy() -> RotationPolicy {
    RotationPolicy::new(hosts(), VALIDITY)
}

fn issued(ago: Duration) -> Issued {
    issue(&hosts(), VALIDITY, now() - ago).unwrap()
}

/// A Secret with a certificate that was issued some time ago, and no rotation in progress.
fn steady(ago: Duration) -> SecretData {
    SecretData::initial(issued(ago), CaBundle::default())
}

/// The same with a next certificate.
fn rotating(ago: Duration) -> SecretData {
    let steady = steady(ago);
    steady.with_next(issued(Duration::ZERO), steady.bundle.clone())
}

fn injected(bundle: &CaBundle) -> [InjectedBundles; 2] {
    let pem = bundle.to_pem();
    [
        InjectedBundles::Present(vec![pem.clone(), pem.clone()]),
        InjectedBundles::Present(vec![pem]),
    ]
}

fn not_injected() -> [InjectedBundles; 2] {
    [
        InjectedBundles::Present(vec![vec![], vec![]]),
        InjectedBundles::Present(vec![vec![]]),
    ]
}

fn next_step_now(secret: &SecretData, injected: &[InjectedBundles], propagated_for: Option<Duration>) -> RotationStep {
    next_step(secret, injected, propagated_for, &policy(), now())
}

#[rstest]
#[case(90 * DAY, Duration::from_mins(5), Duration::from_secs(10))]
#[case(Duration::from_secs(500), Duration::from_secs(5), Duration::from_secs(5))]
#[case(Duration::from_secs(10), Duration::from_secs(1), Duration::from_secs(1))]
fn the_delays_follow_from_the_validity(
    #[case] validity: Duration,
    #[case] propagation_delay: Duration,
    #[case] recovery_delay: Duration,
) {
    let policy = RotationPolicy::new(hosts(), validity);
    assert_eq!(
        (policy.propagation_delay, policy.recovery_delay),
        (propagation_delay, recovery_delay)
    );
}

#[test]
fn nothing_is_issued_before_both_configurations_were_read() {
    let bundles = [InjectedBundles::Absent, InjectedBundles::Unknown];
    assert_eq!(
        next_step_now(&SecretData::default(), &bundles, None),
        RotationStep::WaitForSync
    );
    assert_eq!(
        next_step_now(&rotating(60 * DAY), &bundles, None),
        RotationStep::WaitForSync
    );
}

#[rstest]
#[case::no_configurations([InjectedBundles::Absent, InjectedBundles::Absent])]
#[case::fresh_configurations(not_injected())]
#[case::garbage([InjectedBundles::Present(vec![b"garbage".to_vec()]), InjectedBundles::Absent])]
#[case::expired_ca(injected(&steady(VALIDITY + DAY).bundle))]
fn the_first_certificate_is_served_at_once(#[case] bundles: [InjectedBundles; 2]) {
    assert_eq!(
        next_step_now(&SecretData::default(), &bundles, None),
        RotationStep::IssueFirst(CaBundle::default())
    );
}

#[test]
fn when_the_secret_is_lost_the_injected_cas_stay_in_the_bundle() {
    let lost = steady(DAY);
    let step = next_step_now(&SecretData::default(), &injected(&lost.bundle), None);
    assert_eq!(step, RotationStep::IssueNext(lost.bundle));
}

#[test]
fn the_certificate_that_replaces_a_lost_secret_is_served_after_the_recovery_delay() {
    let lost = steady(DAY);
    let secret = SecretData::default().with_next(issued(Duration::ZERO), lost.bundle.clone());
    let bundles = injected(&secret.bundle);
    assert_eq!(
        next_step_now(&secret, &injected(&lost.bundle), None),
        RotationStep::InjectBundle
    );
    let almost = policy().recovery_delay.saturating_sub(Duration::from_secs(1));
    assert_eq!(
        next_step_now(&secret, &bundles, Some(almost)),
        RotationStep::Wait(Duration::from_secs(1))
    );
    let propagated = Some(policy().recovery_delay);
    assert_eq!(
        next_step_now(&secret, &bundles, propagated),
        RotationStep::UpdateSecret(Box::new(secret.promote()))
    );
}

#[test]
fn a_certificate_is_renewed_after_two_thirds_of_its_validity() {
    let secret = steady(10 * DAY);
    assert_eq!(
        next_step_now(&secret, &injected(&secret.bundle), LONG_AGO),
        RotationStep::Wait(50 * DAY)
    );
    let secret = steady(60 * DAY);
    assert_eq!(
        next_step_now(&secret, &injected(&secret.bundle), LONG_AGO),
        RotationStep::IssueNext(secret.bundle.clone())
    );
}

#[test]
fn a_configuration_with_another_bundle_is_corrected() {
    let secret = steady(DAY);
    assert_eq!(
        next_step_now(&secret, &not_injected(), None),
        RotationStep::InjectBundle
    );
    assert_eq!(
        next_step_now(&secret, &injected(&steady(DAY).bundle), None),
        RotationStep::InjectBundle
    );
}

#[test]
fn the_next_certificate_is_served_only_after_the_propagation_delay() {
    let secret = rotating(60 * DAY);
    let (bundles, propagation_delay) = (injected(&secret.bundle), policy().propagation_delay);
    assert_eq!(next_step_now(&secret, &bundles, None), RotationStep::InjectBundle);
    assert_eq!(
        next_step_now(&secret, &bundles, Some(Duration::ZERO)),
        RotationStep::Wait(propagation_delay)
    );
    let RotationStep::UpdateSecret(promoted) = next_step_now(&secret, &bundles, Some(propagation_delay)) else {
        panic!("the delay is over")
    };
    assert_eq!((promoted.current, promoted.next), (secret.next, None));
    assert_eq!(
        promoted.bundle, secret.bundle,
        "replicas may still serve the old certificate"
    );
}

#[test]
fn other_hosts_cause_a_rotation() {
    let secret = steady(DAY);
    let policy = RotationPolicy::new(Hosts::new(["another.host"]), VALIDITY);
    let step = next_step(&secret, &injected(&secret.bundle), LONG_AGO, &policy, now());
    assert_eq!(step, RotationStep::IssueNext(secret.bundle));
}

#[test]
fn a_shorter_validity_causes_a_rotation_and_a_clock_that_is_a_little_behind_does_not() {
    let secret = steady(Duration::ZERO);
    let bundles = injected(&secret.bundle);
    let shorter = RotationPolicy::new(hosts(), VALIDITY / 2);
    assert_eq!(
        next_step(&secret, &bundles, LONG_AGO, &shorter, now()),
        RotationStep::IssueNext(secret.bundle.clone())
    );
    let behind = now() - Duration::from_mins(10);
    assert!(matches!(
        next_step(&secret, &bundles, LONG_AGO, &policy(), behind),
        RotationStep::Wait(_)
    ));
}

#[test]
fn a_next_certificate_that_is_due_for_renewal_is_replaced() {
    let steady = steady(60 * DAY);
    let secret = steady.with_next(issued(70 * DAY), steady.bundle.clone());
    let step = next_step_now(&secret, &injected(&secret.bundle), LONG_AGO);
    assert!(matches!(step, RotationStep::IssueNext(_)), "{step:?}");
}

#[test]
fn a_secret_without_a_bundle_gets_it_from_the_webhooks() {
    let whole = steady(DAY);
    let secret = SecretData {
        bundle: CaBundle::default(),
        ..whole.clone()
    };
    assert_eq!(
        next_step_now(&secret, &injected(&whole.bundle), None),
        RotationStep::UpdateSecret(Box::new(whole.clone()))
    );
    let step = next_step_now(&secret, &not_injected(), None);
    assert_eq!(
        step,
        RotationStep::IssueFirst(CaBundle::default()),
        "no CA verifies it any more"
    );
}

#[test]
fn repeated_rotations_keep_the_ca_of_the_current_certificate() {
    let mut secret = steady(DAY);
    for round in 0..20 {
        let policy = RotationPolicy::new(Hosts::new([format!("host-{round}")]), VALIDITY);
        let RotationStep::IssueNext(keep) = next_step(&secret, &injected(&secret.bundle), LONG_AGO, &policy, now())
        else {
            panic!("other hosts cause a rotation")
        };
        secret = secret.with_next(issue(&policy.hosts, VALIDITY, now()).unwrap(), keep);
        for pair in [&secret.current, &secret.next] {
            assert!(secret.bundle.verifies(pair.as_ref().unwrap(), now()));
        }
        assert!(secret.bundle.to_pem().len() < 10_000);
    }
}

#[tokio::test(start_paused = true)]
async fn propagation_is_measured_from_the_first_of_consecutive_observations() {
    let (bundle, other) = (steady(DAY).bundle, steady(DAY).bundle);
    let mut timer = PropagationTimer::default();
    let second = Duration::from_secs(1);
    let mut observe = |bundle: &CaBundle, injected: &[InjectedBundles]| timer.update(bundle, injected, Instant::now());
    assert_eq!(observe(&bundle, &injected(&bundle)), Some(Duration::ZERO));
    tokio::time::advance(second).await;
    assert_eq!(observe(&bundle, &injected(&bundle)), Some(second));
    assert_eq!(observe(&other, &injected(&bundle)), None);
    assert_eq!(
        observe(&bundle, &injected(&bundle)),
        Some(Duration::ZERO),
        "the observations were interrupted"
    );
    assert_eq!(
        observe(&bundle, &[InjectedBundles::Unknown, InjectedBundles::Absent]),
        None
    );
    assert_eq!(
        observe(&bundle, &[InjectedBundles::Absent, InjectedBundles::Absent]),
        Some(Duration::ZERO)
    );
}
