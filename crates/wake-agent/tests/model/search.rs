//! Breadth-first search through everything that can happen.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::witness::Broken;
use crate::world::{World, fingerprint, kind};

pub struct Search {
    pub limit: usize,
}

pub struct Report {
    pub states: usize,
    pub transitions: usize,
    pub exhausted: bool,
    pub took: Duration,
    /// How often each answer was given.
    pub answers: BTreeMap<&'static str, usize>,
}

/// A rule that was broken, and how it came about.
pub struct Failure {
    pub broken: Broken,
    pub story: String,
}

struct Visited {
    parent: Option<usize>,
    event: Box<str>,
}

impl Search {
    pub fn run(&self, start: Vec<World>) -> Result<Report, Failure> {
        let began = Instant::now();
        let mut known: HashSet<u64> = HashSet::new();
        let mut visited: Vec<Visited> = Vec::new();
        let mut level: Vec<(usize, World)> = Vec::new();
        let mut answers = BTreeMap::new();
        let mut calm = HashSet::new();
        let mut transitions = 0;
        for world in start {
            known.insert(fingerprint(&world));
            let event = "start".into();
            visited.push(Visited { parent: None, event });
            level.push((visited.len() - 1, world));
        }
        while !level.is_empty() && visited.len() < self.limit {
            let mut next_level = Vec::new();
            for (at, world) in level {
                world
                    .comes_to_rest(&mut calm)
                    .map_err(|broken| fail(broken, &visited, at, "everything is at its best", &world))?;
                for step in world.steps() {
                    transitions += 1;
                    for answer in &step.answers {
                        *answers.entry(kind(answer)).or_default() += 1;
                    }
                    let next = step
                        .next
                        .map_err(|broken| fail(broken, &visited, at, &step.event, &world))?;
                    if known.insert(fingerprint(&next)) {
                        let event = step.event.into();
                        visited.push(Visited {
                            parent: Some(at),
                            event,
                        });
                        next_level.push((visited.len() - 1, next));
                    }
                }
            }
            level = next_level;
        }
        Ok(Report {
            states: visited.len(),
            transitions,
            exhausted: level.is_empty(),
            took: began.elapsed(),
            answers,
        })
    }
}

fn fail(broken: Broken, visited: &[Visited], at: usize, last: &str, world: &World) -> Failure {
    let mut steps = Vec::new();
    let mut index = Some(at);
    while let Some(step) = index {
        steps.push(step);
        index = visited[step].parent;
    }
    let mut story = String::new();
    for &step in steps.iter().rev() {
        let _ = writeln!(story, "{}", visited[step].event);
    }
    let _ = writeln!(story, "{last}\nin {world:?}");
    Failure { broken, story }
}
