//! Long random histories with several engines, many requests, and seconds or minutes between two events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use firebolt_api::AutoStopReason;
use firebolt_wake_agent::table::{Engine, Event, List, Now, Patch, PatchOutcome, Probe, Settings};
use jiff::Timestamp;
use proptest::prelude::*;

use crate::witness::{Asked, Checked, Witness};

/// Engines that may be there, one of another instance, and one that never is.
const NAMES: [&str; 4] = ["a", "b", "other", "made-up"];

#[derive(Clone, Copy, Debug)]
enum Happening {
    /// For an engine, with a body.
    Request(usize, u64),
    Leave(prop::sample::Index),
    Listed(bool),
    Probed(prop::sample::Index, bool),
    Patched(prop::sample::Index, PatchOutcome),
    /// An engine is gone, stopped (for good or not), starting or ready.
    Becomes(usize, u8),
    Passes(Duration),
    /// A tick that nobody asked for.
    Tick,
}

fn happening() -> impl Strategy<Value = Happening> {
    let outcome = prop_oneof![
        3 => Just(PatchOutcome::Stored),
        1 => Just(PatchOutcome::Failed),
        1 => Just(PatchOutcome::Refused),
    ];
    let bytes = prop_oneof![Just(0), 0..300_000_u64, 0..3_000_000_u64];
    prop_oneof![
        6 => (0..NAMES.len(), bytes).prop_map(|(at, bytes)| Happening::Request(at, bytes)),
        2 => any::<prop::sample::Index>().prop_map(Happening::Leave),
        4 => prop::bool::weighted(0.8).prop_map(Happening::Listed),
        3 => (any::<prop::sample::Index>(), prop::bool::weighted(0.3)).prop_map(|(at, reached)| Happening::Probed(at, reached)),
        3 => (any::<prop::sample::Index>(), outcome).prop_map(|(at, outcome)| Happening::Patched(at, outcome)),
        2 => (0..NAMES.len() - 1, 0..5_u8).prop_map(|(at, state)| Happening::Becomes(at, state)),
        5 => prop_oneof![0..1_000_u64, 0..20_000_u64].prop_map(|time| Happening::Passes(Duration::from_millis(time))),
        1 => Just(Happening::Tick),
    ]
}

struct World {
    now: Now,
    witness: Witness,
    states: [u8; 3],
    stamps: BTreeMap<String, Timestamp>,
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
            witness: Witness::new(settings, None),
            states: [1; 3],
            stamps: BTreeMap::new(),
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
            wake_requested: self.stamps.get(*name).copied(),
        };
        named.map(engine).collect()
    }

    fn take(&mut self, asked: Asked) {
        self.lists.extend(asked.lists);
        self.probes.extend(asked.probes);
        self.patches.extend(asked.patches);
    }

    fn tell(&mut self, event: Event) -> Checked<()> {
        let asked = self.witness.handle(self.now, event)?;
        self.take(asked);
        Ok(())
    }

    fn happen(&mut self, happening: Happening) -> Checked<()> {
        match happening {
            Happening::Request(at, bytes) => {
                let (_, asked) = self.witness.arrive(self.now, NAMES[at], bytes)?;
                self.take(asked);
                Ok(())
            }
            Happening::Leave(at) => {
                let waiters: Vec<_> = self.witness.waiters().cloned().collect();
                if waiters.is_empty() {
                    return Ok(());
                }
                self.tell(Event::Left(at.get(&waiters).clone()))
            }
            Happening::Listed(succeeds) => match self.lists.pop() {
                Some(list) => self.tell(Event::Listed(list, succeeds.then(|| self.engines()))),
                None => Ok(()),
            },
            Happening::Probed(at, reached) => {
                if self.probes.is_empty() {
                    return Ok(());
                }
                let probe = self.probes.swap_remove(at.index(self.probes.len()));
                self.tell(Event::Probed(probe, reached))
            }
            Happening::Patched(at, outcome) => {
                if self.patches.is_empty() {
                    return Ok(());
                }
                let patch = self.patches.swap_remove(at.index(self.patches.len()));
                if outcome == PatchOutcome::Stored {
                    self.stamps.insert(patch.engine.to_string(), patch.at);
                }
                self.tell(Event::Patched(patch, outcome))
            }
            Happening::Becomes(at, state) => {
                self.states[at] = state;
                Ok(())
            }
            Happening::Passes(time) => self.pass(time),
            Happening::Tick => self.tell(Event::Tick),
        }
    }

    /// Time passes, with a tick whenever the table wants one.
    fn pass(&mut self, time: Duration) -> Checked<()> {
        let end = self.now.monotonic + time;
        while let Some(due) = self.witness.table.wake_at().filter(|due| *due <= end) {
            self.jump(due);
            self.tell(Event::Tick)?;
            let next = self.witness.table.wake_at();
            assert!(
                next.is_some_and(|next| next > self.now.monotonic),
                "a tick leaves something undone"
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
        happenings in prop::collection::vec(happening(), 1..200),
    ) {
        let hold_timeout = Duration::from_millis(hold_timeout);
        let mut world = World::new(memory, hold_timeout);
        let run = || -> Checked<()> {
            world.tell(Event::Tick)?;
            for happening in happenings {
                world.happen(happening)?;
            }
            // Nothing comes back any more, and still nobody waits for longer than agreed.
            world.pass(hold_timeout)
        };
        let outcome = run();
        prop_assert!(outcome.is_ok(), "{:?}", outcome);
        prop_assert_eq!(world.witness.table.waiting(), 0);
    }
}
