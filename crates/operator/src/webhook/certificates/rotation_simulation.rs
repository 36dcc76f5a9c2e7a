//! Plays leader, replicas and API servers against each other, with delays and faults in any order.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::mint::mint;
use super::*;

const VALIDITY: Duration = Duration::from_mins(10);
/// Certificates count in seconds, and so does everything here.
const TICK: Duration = Duration::from_secs(1);
/// Damage comes once at a time: this long after the last, everybody has learned what follows from it.
const RECOVERY: u32 = 40;

/// What can happen from outside.
#[derive(Clone, Copy, Debug)]
enum Fault {
    SecretDeleted,
    PairDestroyed,
    AuthoritiesDestroyed,
    TrustEmptied,
    ConfigurationsDeleted,
    ConfigurationsCreated,
    LeaderReplaced,
    LeaderPaused(u32),
    HostsChanged,
    ReplicaRestarted,
}

impl Fault {
    /// How long there is no other afterwards. What damages nothing may be followed by anything.
    fn recovery(self) -> u32 {
        match self {
            Self::LeaderReplaced | Self::HostsChanged | Self::ReplicaRestarted => 0,
            Self::LeaderPaused(ticks) => RECOVERY + ticks,
            Self::SecretDeleted
            | Self::PairDestroyed
            | Self::AuthoritiesDestroyed
            | Self::TrustEmptied
            | Self::ConfigurationsDeleted
            | Self::ConfigurationsCreated => RECOVERY,
        }
    }
}

/// What was ever in a place, so that whoever looks from afar sees it late.
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
struct Trust {
    seen: [Seen; 2],
    /// Set up by somebody else: what API servers do with it is none of our doing.
    by_hand: bool,
}

/// A bundle and a certificate.
type Question = (Vec<u8>, Vec<u8>);

#[derive(Clone, Copy, Debug)]
struct Delays {
    leader: usize,
    replica: usize,
    api_server: usize,
}

struct World {
    start: (Timestamp, Instant),
    ticks: u32,
    secret: History<Content>,
    trust: History<Trust>,
    replica: Option<Pair>,
    wanted: Wanted,
    holding: Holding,
    paused_until: u32,
    delays: Delays,
    is_at_rest: bool,
    /// What the leader saw when it last decided to rest, and until when.
    resting: Option<(Rc<Content>, Rc<Trust>, u32)>,
    /// Whether a bundle vouches for a pair, as far as it was asked: signatures take their time.
    vouched: RefCell<HashMap<Question, bool>>,
}

fn fresh() -> [Seen; 2] {
    [Seen::Present(vec![vec![], vec![]]), Seen::Present(vec![vec![]])]
}

impl World {
    fn new(delays: Delays) -> Self {
        let start: Timestamp = "2026-05-04T03:02:01Z".parse().unwrap();
        Self {
            start: (start, Instant::now()),
            ticks: 0,
            secret: History::new(Content::default()),
            trust: History::new(Trust {
                seen: fresh(),
                by_hand: true,
            }),
            replica: None,
            wanted: Wanted::new(Hosts::new(["a.host"]), VALIDITY),
            holding: Holding::default(),
            paused_until: 0,
            delays,
            is_at_rest: false,
            resting: None,
            vouched: RefCell::default(),
        }
    }

    fn now(&self) -> Timestamp {
        self.start.0 + TICK * self.ticks
    }

    fn strike(&mut self, fault: Fault) {
        let content = Content::clone(self.secret.now());
        self.resting = None;
        match fault {
            Fault::SecretDeleted => self.secret.set(Content::default()),
            Fault::PairDestroyed => self.secret.set(Content {
                current: None,
                ..content
            }),
            Fault::AuthoritiesDestroyed => self.secret.set(Content {
                bundle: Bundle::default(),
                ..content
            }),
            Fault::TrustEmptied | Fault::ConfigurationsCreated => self.trust.set(Trust {
                seen: fresh(),
                by_hand: true,
            }),
            Fault::ConfigurationsDeleted => self.trust.set(Trust {
                seen: [Seen::Absent, Seen::Absent],
                by_hand: true,
            }),
            Fault::LeaderReplaced => self.holding = Holding::default(),
            Fault::LeaderPaused(ticks) => self.paused_until = self.ticks + ticks,
            Fault::HostsChanged => {
                let hosts = Hosts::new([format!("host-{}", self.ticks)]);
                self.wanted.hosts = hosts;
            }
            // It has nothing in memory, and takes what it finds.
            Fault::ReplicaRestarted => self.replica = None,
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.secret.tick();
        self.trust.tick();
        if self.ticks >= self.paused_until {
            self.lead();
        }
        let (stored, now) = (self.secret.ago(self.delays.replica), self.now());
        let usable = stored
            .current
            .as_ref()
            .filter(|pair| stored.bundle.vouches_for(pair, now));
        if let Some(pair) = usable {
            self.replica = Some(pair.clone());
        }
    }

    /// One step of the leader. A write on an outdated view is refused, as the API server would.
    fn lead(&mut self) {
        let content = Rc::clone(self.secret.ago(self.delays.leader));
        let trust = Rc::clone(self.trust.ago(self.delays.leader));
        if let Some((rested_on, trusted, until)) = &self.resting
            && Rc::ptr_eq(rested_on, &content)
            && Rc::ptr_eq(trusted, &trust)
            && self.ticks < *until
        {
            return;
        }
        let now = self.now();
        let held_for = self
            .holding
            .update(&content.bundle, &trust.seen, self.start.1 + TICK * self.ticks);
        let step = decide(&content, &trust.seen, held_for, &self.wanted, now);
        let secret_is_current = content == *self.secret.now();
        self.resting = match &step {
            Step::Rest(rest) => {
                let until = self.ticks + u32::try_from(rest.as_secs()).unwrap();
                Some((Rc::clone(&content), Rc::clone(&trust), until))
            }
            Step::Look | Step::Begin(_) | Step::Stage(_) | Step::Store(_) | Step::Trust => None,
        };
        self.is_at_rest = matches!(step, Step::Rest(_)) && content.next.is_none() && secret_is_current;
        let minted = || mint(&self.wanted.hosts, VALIDITY, now).unwrap();
        let stored = match step {
            Step::Look | Step::Rest(_) => return,
            Step::Trust => {
                if trust.seen == self.trust.now().seen {
                    self.trust.set(Trust {
                        seen: trusting(&trust.seen, &content.bundle),
                        by_hand: false,
                    });
                }
                return;
            }
            Step::Begin(keep) => Content::begin(minted(), keep),
            Step::Stage(keep) => content.stage(minted(), keep),
            Step::Store(content) => *content,
        };
        if secret_is_current {
            self.secret.set(stored);
        }
    }

    /// Whether the bundle vouches for the pair while that is in date.
    fn vouches(&self, bundle: &[u8], pair: &Pair) -> bool {
        let question = (bundle.to_vec(), pair.certificate().to_vec());
        let verify = || Bundle::read(bundle).vouches_for(pair, pair.ends() - TICK);
        *self.vouched.borrow_mut().entry(question).or_insert_with(verify)
    }

    /// What every API server would say to every replica, and whether what they serve is in date.
    fn check(&self) -> Result<(), String> {
        let Some(pair) = &self.replica else { return Ok(()) };
        let now = self.now();
        if pair.ends() <= now && self.ticks >= self.paused_until {
            return Err(format!("expired at {now}: {pair:?}"));
        }
        for delay in 0..=self.delays.api_server {
            let trust = self.trust.ago(delay);
            if trust.by_hand {
                continue;
            }
            for seen in &trust.seen {
                let Seen::Present(bundles) = seen else { continue };
                if !bundles.iter().all(|bundle| self.vouches(bundle, pair)) {
                    return Err(format!("not trusted after {} seconds: {pair:?}", self.ticks));
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

fn trusting(seen: &[Seen; 2], bundle: &Bundle) -> [Seen; 2] {
    seen.each_ref().map(|seen| match seen {
        Seen::Present(bundles) => Seen::Present(vec![bundle.render(); bundles.len()]),
        Seen::Absent => Seen::Absent,
        Seen::Unknown => Seen::Unknown,
    })
}

fn faults() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::SecretDeleted),
        Just(Fault::PairDestroyed),
        Just(Fault::AuthoritiesDestroyed),
        Just(Fault::TrustEmptied),
        Just(Fault::ConfigurationsDeleted),
        Just(Fault::ConfigurationsCreated),
        Just(Fault::LeaderReplaced),
        (1..60_u32).prop_map(Fault::LeaderPaused),
        Just(Fault::HostsChanged),
        Just(Fault::ReplicaRestarted),
    ]
}

/// Each below the settling time, which is six seconds here.
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
    fn whatever_happens_each_api_server_trusts_each_replica_and_it_comes_to_rest(
        delays in delays(),
        events in vec((prop_oneof![0..20_u32, 0..300_u32], faults()), 0..8),
    ) {
        let mut world = World::new(delays);
        world.run(RECOVERY).map_err(TestCaseError::fail)?;
        for (pause, fault) in events {
            world.strike(fault);
            world.run(pause + fault.recovery()).map_err(|reason| TestCaseError::fail(format!("{reason} after {fault:?}")))?;
        }
        // A rotation may have begun just now.
        world.run(RECOVERY).map_err(TestCaseError::fail)?;
        let rested = world.is_at_rest || { world.run(RECOVERY).map_err(TestCaseError::fail)?; world.is_at_rest };
        prop_assert!(rested, "{:?}", world.secret.now());
        prop_assert!(world.replica.as_ref().is_some_and(|pair| pair.hosts() == &world.wanted.hosts));
    }
}

const SLOW: Delays = Delays {
    leader: 1,
    replica: 0,
    api_server: 5,
};

#[test]
fn certificates_are_rotated_for_as_long_as_the_leader_runs() {
    let mut world = World::new(SLOW);
    world.run(RECOVERY).unwrap();
    let mut ends = Vec::new();
    for _ in 0..3 {
        world.run(400).unwrap();
        ends.push(world.replica.as_ref().unwrap().ends());
    }
    assert!(ends.is_sorted_by(|one, other| one < other), "{ends:?}");
}

#[test]
fn a_rotation_that_does_not_wait_is_found_out() {
    let mut world = World::new(SLOW);
    world.run(RECOVERY).unwrap();
    world.wanted.settling = Duration::ZERO;
    let reason = world.run(600).unwrap_err();
    assert!(reason.contains("not trusted"), "{reason}");
}

#[test]
fn a_lost_secret_that_is_replaced_without_waiting_is_found_out() {
    let mut world = World::new(SLOW);
    world.run(RECOVERY).unwrap();
    world.wanted.settling_when_lost = Duration::ZERO;
    world.strike(Fault::SecretDeleted);
    let reason = world.run(RECOVERY).unwrap_err();
    assert!(reason.contains("not trusted"), "{reason}");
}
