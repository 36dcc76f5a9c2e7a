//! Simulates a leader, replicas and API servers, with delays and faults in any order.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::issue::issue;
use super::*;

const VALIDITY: Duration = Duration::from_mins(10);
/// The resolution of certificate times, and of this simulation.
const TICK: Duration = Duration::from_secs(1);
/// Seconds until everybody has observed the effects of a fault. Faults that cause damage follow each other at this distance.
const RECOVERY: u32 = 40;

/// An external event.
#[derive(Clone, Copy, Debug)]
enum Fault {
    SecretDeleted,
    PairDestroyed,
    CasDestroyed,
    BundlesEmptied,
    ConfigurationsDeleted,
    ConfigurationsCreated,
    LeaderReplaced,
    LeaderPaused(u32),
    HostsChanged,
    ReplicaRestarted,
}

impl Fault {
    /// Seconds until the next event. An event that causes no damage can be followed by another at once.
    fn recovery(self) -> u32 {
        match self {
            Self::LeaderReplaced | Self::HostsChanged | Self::ReplicaRestarted => 0,
            Self::LeaderPaused(ticks) => RECOVERY + ticks,
            Self::SecretDeleted
            | Self::PairDestroyed
            | Self::CasDestroyed
            | Self::BundlesEmptied
            | Self::ConfigurationsDeleted
            | Self::ConfigurationsCreated => RECOVERY,
        }
    }
}

/// The past values of an object, so that observers can lag behind.
struct History<T> {
    past: VecDeque<Rc<T>>,
}

impl<T> History<T> {
    fn new(value: T) -> Self {
        Self {
            past: [Rc::new(value)].into(),
        }
    }

    fn tick(&mut self) {
        let value = Rc::clone(self.now());
        self.past.push_front(value);
        self.past.truncate(100);
    }

    fn now(&self) -> &Rc<T> {
        &self.past[0]
    }

    fn set(&mut self, value: T) {
        self.past[0] = Rc::new(value);
    }

    fn ago(&self, ticks: usize) -> &Rc<T> {
        self.past.get(ticks).unwrap_or_else(|| &self.past[self.past.len() - 1])
    }
}

#[derive(Clone, Debug)]
struct Configurations {
    injected: [InjectedBundles; 2],
    /// Expectations by a user: the leader is not responsible for failures.
    by_hand: bool,
}

/// A bundle and a certificate.
type Verification = (Vec<u8>, Vec<u8>);

#[derive(Clone, Copy, Debug)]
struct Delays {
    leader: usize,
    replica: usize,
    api_server: usize,
}

struct Simulation {
    start: (Timestamp, Instant),
    ticks: u32,
    secret: History<SecretData>,
    configurations: History<Configurations>,
    replica: Option<ServingPair>,
    policy: RotationPolicy,
    timer: PropagationTimer,
    paused_until: u32,
    delays: Delays,
    is_idle: bool,
    /// What the leader observed when it last decided to wait, and until when.
    waiting: Option<(Rc<SecretData>, Rc<Configurations>, u32)>,
    /// Cached results, since verifying signatures is slow.
    verified: RefCell<HashMap<Verification, bool>>,
}

fn fresh() -> [InjectedBundles; 2] {
    [
        InjectedBundles::Present(vec![vec![], vec![]]),
        InjectedBundles::Present(vec![vec![]]),
    ]
}

impl Simulation {
    fn new(delays: Delays) -> Self {
        let start: Timestamp = "2026-05-04T03:02:01Z".parse().unwrap();
        Self {
            start: (start, Instant::now()),
            ticks: 0,
            secret: History::new(SecretData::default()),
            configurations: History::new(Configurations {
                injected: fresh(),
                by_hand: true,
            }),
            replica: None,
            policy: RotationPolicy::new(Hosts::new(["a.host"]), VALIDITY),
            timer: PropagationTimer::default(),
            paused_until: 0,
            delays,
            is_idle: false,
            waiting: None,
            verified: RefCell::default(),
        }
    }

    fn now(&self) -> Timestamp {
        self.start.0 + TICK * self.ticks
    }

    fn apply_fault(&mut self, fault: Fault) {
        let content = SecretData::clone(self.secret.now());
        self.waiting = None;
        match fault {
            Fault::SecretDeleted => self.secret.set(SecretData::default()),
            Fault::PairDestroyed => self.secret.set(SecretData {
                current: None,
                ..content
            }),
            Fault::CasDestroyed => self.secret.set(SecretData {
                bundle: CaBundle::default(),
                ..content
            }),
            Fault::BundlesEmptied | Fault::ConfigurationsCreated => self.configurations.set(Configurations {
                injected: fresh(),
                by_hand: true,
            }),
            Fault::ConfigurationsDeleted => self.configurations.set(Configurations {
                injected: [InjectedBundles::Absent, InjectedBundles::Absent],
                by_hand: true,
            }),
            Fault::LeaderReplaced => self.timer = PropagationTimer::default(),
            Fault::LeaderPaused(ticks) => self.paused_until = self.ticks + ticks,
            Fault::HostsChanged => {
                let hosts = Hosts::new([format!("host-{}", self.ticks)]);
                self.policy.hosts = hosts;
            }
            // It has nothing in memory, and serves what the Secret has.
            Fault::ReplicaRestarted => self.replica = None,
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.secret.tick();
        self.configurations.tick();
        if self.ticks >= self.paused_until {
            self.lead();
        }
        let (stored, now) = (self.secret.ago(self.delays.replica), self.now());
        let usable = stored.current.as_ref().filter(|pair| stored.bundle.verifies(pair, now));
        if let Some(pair) = usable {
            self.replica = Some(pair.clone());
        }
    }

    /// One step of the leader. A write based on an outdated object is rejected, as by the API server.
    fn lead(&mut self) {
        let content = Rc::clone(self.secret.ago(self.delays.leader));
        let configurations = Rc::clone(self.configurations.ago(self.delays.leader));
        if let Some((secret, observed, until)) = &self.waiting
            && Rc::ptr_eq(secret, &content)
            && Rc::ptr_eq(observed, &configurations)
            && self.ticks < *until
        {
            return;
        }
        let now = self.now();
        let propagated_for = self.timer.update(
            &content.bundle,
            &configurations.injected,
            self.start.1 + TICK * self.ticks,
        );
        let step = next_step(&content, &configurations.injected, propagated_for, &self.policy, now);
        let secret_is_current = content == *self.secret.now();
        self.waiting = match &step {
            RotationStep::Wait(rest) => {
                let until = self.ticks + u32::try_from(rest.as_secs()).unwrap();
                Some((Rc::clone(&content), Rc::clone(&configurations), until))
            }
            RotationStep::WaitForSync
            | RotationStep::IssueFirst(_)
            | RotationStep::IssueNext(_)
            | RotationStep::UpdateSecret(_)
            | RotationStep::InjectBundle => None,
        };
        self.is_idle = matches!(step, RotationStep::Wait(_)) && content.next.is_none() && secret_is_current;
        let issued = || issue(&self.policy.hosts, VALIDITY, now).unwrap();
        let stored = match step {
            RotationStep::WaitForSync | RotationStep::Wait(_) => return,
            RotationStep::InjectBundle => {
                if configurations.injected == self.configurations.now().injected {
                    self.configurations.set(Configurations {
                        injected: with_bundle(&configurations.injected, &content.bundle),
                        by_hand: false,
                    });
                }
                return;
            }
            RotationStep::IssueFirst(keep) => SecretData::initial(issued(), keep),
            RotationStep::IssueNext(keep) => content.with_next(issued(), keep),
            RotationStep::UpdateSecret(content) => *content,
        };
        if secret_is_current {
            self.secret.set(stored);
        }
    }

    /// Whether the bundle verifies the certificate during its validity.
    fn verifies(&self, bundle: &[u8], pair: &ServingPair) -> bool {
        let key = (bundle.to_vec(), pair.certificate().to_vec());
        let verify = || CaBundle::parse(bundle).verifies(pair, pair.expires() - TICK);
        *self.verified.borrow_mut().entry(key).or_insert_with(verify)
    }

    /// Checks that every API server verifies every replica, and that no served certificate has expired.
    fn check(&self) -> Result<(), String> {
        let Some(pair) = &self.replica else { return Ok(()) };
        let now = self.now();
        if pair.expires() <= now && self.ticks >= self.paused_until {
            return Err(format!("expired at {now}: {pair:?}"));
        }
        for delay in 0..=self.delays.api_server {
            let configurations = self.configurations.ago(delay);
            if configurations.by_hand {
                continue;
            }
            for injected in &configurations.injected {
                let InjectedBundles::Present(bundles) = injected else {
                    continue;
                };
                if !bundles.iter().all(|bundle| self.verifies(bundle, pair)) {
                    return Err(format!("not verified after {} seconds: {pair:?}", self.ticks));
                }
            }
        }
        Ok(())
    }

    fn run(&mut self, ticks: u32) -> Result<(), String> {
        (0..ticks).try_for_each(|_| {
            self.tick();
            self.check()
        })
    }
}

fn with_bundle(injected: &[InjectedBundles; 2], bundle: &CaBundle) -> [InjectedBundles; 2] {
    injected.each_ref().map(|bundles| match bundles {
        InjectedBundles::Present(bundles) => InjectedBundles::Present(vec![bundle.to_pem(); bundles.len()]),
        InjectedBundles::Absent => InjectedBundles::Absent,
        InjectedBundles::Unknown => InjectedBundles::Unknown,
    })
}

fn faults() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::SecretDeleted),
        Just(Fault::PairDestroyed),
        Just(Fault::CasDestroyed),
        Just(Fault::BundlesEmptied),
        Just(Fault::ConfigurationsDeleted),
        Just(Fault::ConfigurationsCreated),
        Just(Fault::LeaderReplaced),
        (1..60_u32).prop_map(Fault::LeaderPaused),
        Just(Fault::HostsChanged),
        Just(Fault::ReplicaRestarted),
    ]
}

/// Each is below the propagation delay, which is six seconds here.
fn delays() -> impl Strategy<Value = Delays> {
    (0..4_usize, 0..5_usize, 0..6_usize).prop_map(|(leader, replica, api_server)| Delays {
        leader,
        replica,
        api_server,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn after_any_events_each_api_server_verifies_each_replica_and_the_leader_stops_writing(
        delays in delays(),
        events in vec((prop_oneof![0..20_u32, 0..300_u32], faults()), 0..8),
    ) {
        let mut simulation = Simulation::new(delays);
        simulation.run(RECOVERY).map_err(TestCaseError::fail)?;
        for (pause, fault) in events {
            simulation.apply_fault(fault);
            simulation.run(pause + fault.recovery()).map_err(|reason| TestCaseError::fail(format!("{reason} after {fault:?}")))?;
        }
        // A rotation may have just started.
        simulation.run(RECOVERY).map_err(TestCaseError::fail)?;
        let idle = simulation.is_idle || { simulation.run(RECOVERY).map_err(TestCaseError::fail)?; simulation.is_idle };
        prop_assert!(idle, "{:?}", simulation.secret.now());
        prop_assert!(simulation.replica.as_ref().is_some_and(|pair| pair.hosts() == &simulation.policy.hosts));
    }
}

const SLOW: Delays = Delays {
    leader: 1,
    replica: 0,
    api_server: 5,
};

#[test]
fn certificates_are_rotated_for_as_long_as_the_leader_runs() {
    let mut simulation = Simulation::new(SLOW);
    simulation.run(RECOVERY).unwrap();
    let mut ends = Vec::new();
    for _ in 0..3 {
        simulation.run(400).unwrap();
        ends.push(simulation.replica.as_ref().unwrap().expires());
    }
    assert!(ends.is_sorted_by(|one, other| one < other), "{ends:?}");
}

#[test]
fn a_rotation_without_propagation_delay_is_detected() {
    let mut simulation = Simulation::new(SLOW);
    simulation.run(RECOVERY).unwrap();
    simulation.policy.propagation_delay = Duration::ZERO;
    let reason = simulation.run(600).unwrap_err();
    assert!(reason.contains("not verified"), "{reason}");
}

#[test]
fn a_lost_secret_that_is_replaced_without_recovery_delay_is_detected() {
    let mut simulation = Simulation::new(SLOW);
    simulation.run(RECOVERY).unwrap();
    simulation.policy.recovery_delay = Duration::ZERO;
    simulation.apply_fault(Fault::SecretDeleted);
    let reason = simulation.run(RECOVERY).unwrap_err();
    assert!(reason.contains("not verified"), "{reason}");
}
