//! Long random histories with several engines, many requests, and seconds or minutes between two events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use firebolt_api::AutoStopReason;
use firebolt_wake_agent::hold::{Engine, Event, List, Now, Patch, PatchOutcome, Probe, Settings};
use jiff::Timestamp;
use proptest::prelude::*;

use crate::checker::{Checked, Checker, Requested};

/// Engines that may be there, one of another instance, and one that never is.
const NAMES: [&str; 4] = ["a", "b", "other", "made-up"];

#[derive(Clone, Copy, Debug)]
enum Action {
    /// For an engine, with the size of the body.
    Request(usize, u64),
    Leave(prop::sample::Index),
    Listed(bool),
    Probed(prop::sample::Index, bool),
    Patched(prop::sample::Index, PatchOutcome),
    /// An engine is gone, stopped (for good or not), starting or ready.
    Becomes(usize, u8),
    Passes(Duration),
    /// A tick at any time.
    Tick,
}

fn action() -> impl Strategy<Value = Action> {
    let outcome = prop_oneof![
        3 => Just(PatchOutcome::Stored),
        1 => Just(PatchOutcome::Failed),
        1 => Just(PatchOutcome::Refused),
    ];
    let bytes = prop_oneof![Just(0), 0..300_000_u64, 0..3_000_000_u64];
    prop_oneof![
        6 => (0..NAMES.len(), bytes).prop_map(|(at, bytes)| Action::Request(at, bytes)),
        2 => any::<prop::sample::Index>().prop_map(Action::Leave),
        4 => prop::bool::weighted(0.8).prop_map(Action::Listed),
        3 => (any::<prop::sample::Index>(), prop::bool::weighted(0.3)).prop_map(|(at, reached)| Action::Probed(at, reached)),
        3 => (any::<prop::sample::Index>(), outcome).prop_map(|(at, outcome)| Action::Patched(at, outcome)),
        2 => (0..NAMES.len() - 1, 0..5_u8).prop_map(|(at, state)| Action::Becomes(at, state)),
        5 => prop_oneof![0..1_000_u64, 0..20_000_u64].prop_map(|time| Action::Passes(Duration::from_millis(time))),
        1 => Just(Action::Tick),
    ]
}

struct World {
    now: Now,
    checker: Checker,
    states: [u8; 3],
    annotations: BTreeMap<String, Timestamp>,
    lists: Vec<List>,
    probes: Vec<Probe>,
    patches: Vec<Patch>,
}

impl World {
    fn new(memory: u64, hold_timeout: Duration) -> Self {
        let settings = Settings {
            instance: "main".to_owned(),
            memory,
            hold_timeout,
        };
        let now = Now {
            monotonic: Instant::now(),
            wall: "2026-06-01T12:00:00Z".parse().expect("a time"),
        };
        Self {
            now,
            checker: Checker::new(settings, None),
            states: [1; 3],
            annotations: BTreeMap::new(),
            lists: Vec::new(),
            probes: Vec::new(),
            patches: Vec::new(),
        }
    }

    fn engines(&self) -> Vec<Engine> {
        let named = NAMES.iter().zip(self.states).filter(|(_, state)| *state > 0);
        let engine = |(name, state): (&&str, u8)| Engine {
            name: (*name).to_owned(),
            instance: if *name == "other" { "other" } else { "main" }.to_owned(),
            replicas: i32::from(state >= 3),
            ready: state == 4,
            auto_stop: (state != 1).then_some(if state == 2 {
                AutoStopReason::Disabled
            } else {
                AutoStopReason::Stopped
            }),
            wake_requested: self.annotations.get(*name).copied(),
        };
        named.map(engine).collect()
    }

    fn take(&mut self, requested: Requested) {
        self.lists.extend(requested.lists);
        self.probes.extend(requested.probes);
        self.patches.extend(requested.patches);
    }

    fn report(&mut self, event: Event) -> Checked<()> {
        let requested = self.checker.handle(self.now, event)?;
        self.take(requested);
        Ok(())
    }

    fn perform(&mut self, action: Action) -> Checked<()> {
        match action {
            Action::Request(at, bytes) => {
                let (_, requested) = self.checker.arrive(self.now, NAMES[at], bytes)?;
                self.take(requested);
                Ok(())
            }
            Action::Leave(at) => {
                let waiters: Vec<_> = self.checker.waiters().cloned().collect();
                if waiters.is_empty() {
                    return Ok(());
                }
                self.report(Event::Left(at.get(&waiters).clone()))
            }
            Action::Listed(succeeds) => match self.lists.pop() {
                Some(list) => self.report(Event::Listed(list, succeeds.then(|| self.engines()))),
                None => Ok(()),
            },
            Action::Probed(at, reached) => {
                if self.probes.is_empty() {
                    return Ok(());
                }
                let probe = self.probes.swap_remove(at.index(self.probes.len()));
                self.report(Event::Probed(probe, reached))
            }
            Action::Patched(at, outcome) => {
                if self.patches.is_empty() {
                    return Ok(());
                }
                let patch = self.patches.swap_remove(at.index(self.patches.len()));
                if outcome == PatchOutcome::Stored {
                    self.annotations.insert(patch.engine.to_string(), patch.at);
                }
                self.report(Event::Patched(patch, outcome))
            }
            Action::Becomes(at, state) => {
                self.states[at] = state;
                Ok(())
            }
            Action::Passes(time) => self.pass(time),
            Action::Tick => self.report(Event::Tick),
        }
    }

    /// Time passes, with a tick whenever a timer expires.
    fn pass(&mut self, time: Duration) -> Checked<()> {
        let end = self.now.monotonic + time;
        while let Some(due) = self.checker.state.wake_at().filter(|due| *due <= end) {
            self.jump(due);
            self.report(Event::Tick)?;
            let next = self.checker.state.wake_at();
            assert!(
                next.is_some_and(|next| next > self.now.monotonic),
                "a timer is still due after its tick"
            );
        }
        self.jump(end);
        Ok(())
    }

    fn jump(&mut self, to: Instant) {
        let passed = to.saturating_duration_since(self.now.monotonic);
        self.now.monotonic += passed;
        self.now.wall += passed;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_guarantee_holds_in_long_random_histories(
        memory in prop_oneof![0..1_000_000_u64, 0..10_000_000_u64],
        hold_timeout in 300..150_000_u64,
        actions in prop::collection::vec(action(), 1..200),
    ) {
        let hold_timeout = Duration::from_millis(hold_timeout);
        let mut world = World::new(memory, hold_timeout);
        let run = || -> Checked<()> {
            world.report(Event::Tick)?;
            for action in actions {
                world.perform(action)?;
            }
            // No result arrives any more, and still every deadline holds.
            world.pass(hold_timeout)
        };
        let outcome = run();
        prop_assert!(outcome.is_ok(), "{:?}", outcome);
        prop_assert_eq!(world.checker.state.occupancy().waiting, 0);
    }
}
