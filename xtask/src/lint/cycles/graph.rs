//! Which of some modules use which, and who of them form a cycle.

use std::collections::{BTreeMap, BTreeSet};

/// A directed graph of names, with what makes each edge.
pub(super) struct Graph<T> {
    edges: BTreeMap<(String, String), Vec<T>>,
}

impl<T> Default for Graph<T> {
    fn default() -> Self {
        Self { edges: BTreeMap::new() }
    }
}

impl<T: Clone> Graph<T> {
    pub(super) fn add(&mut self, from: String, to: String, reason: T) {
        self.edges.entry((from, to)).or_default().push(reason);
    }

    /// The strongly connected components of more than one name: each name in one reaches every other.
    pub(super) fn cycles(&self) -> Vec<Vec<String>> {
        let names: BTreeSet<&String> = self.edges.keys().flat_map(|(from, to)| [from, to]).collect();
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            names.iter().map(|name| (*name, self.reachable(name))).collect();
        let mut cycles: Vec<Vec<String>> = Vec::new();
        for name in names {
            if cycles.iter().flatten().any(|other| other == name) {
                continue;
            }
            let around = reached[name].iter().filter(|other| reached[*other].contains(name));
            let mut members: Vec<String> = around.map(|other| (*other).clone()).collect();
            members.sort();
            if members.len() > 1 {
                cycles.push(members);
            }
        }
        cycles
    }

    /// The edges between these names, those with the fewest reasons first: they are the easiest to cut.
    pub(super) fn within(&self, names: &[String]) -> Vec<(String, String, Vec<T>)> {
        let inside = self
            .edges
            .iter()
            .filter(|((from, to), _)| names.contains(from) && names.contains(to));
        let mut edges: Vec<_> = inside
            .map(|((from, to), reasons)| (from.clone(), to.clone(), reasons.clone()))
            .collect();
        edges.sort_by_key(|(_, _, reasons)| reasons.len());
        edges
    }

    fn reachable<'a>(&'a self, start: &'a String) -> BTreeSet<&'a String> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&String> = vec![start];
        while let Some(name) = open.pop() {
            let next = self.edges.keys().filter(|(from, _)| from == name).map(|(_, to)| to);
            open.extend(next.filter(|to| reached.insert(*to)));
        }
        reached
    }
}
