use super::{Counterexample, Model, Progress, Report, Step, search};

/// A graph: edges with the violations on them, and where fair runs go.
#[derive(Default)]
struct Graph {
    edges: Vec<(u8, u8)>,
    /// Taking these edges is a violation.
    forbidden: Vec<(u8, u8)>,
    /// The edges that fair runs take. A state without one is terminal.
    fair: Vec<(u8, u8)>,
    /// Terminal states in which something is wrong.
    wrong: Vec<u8>,
    /// Only the remainder by this number matters.
    modulus: Option<u8>,
}

impl Model for Graph {
    type State = u8;
    type FairRun = u8;
    type Violation = String;

    const FAIR_STEPS: usize = 10;

    fn normalize(&self, state: u8) -> u8 {
        self.modulus.map_or(state, |modulus| state % modulus)
    }

    fn steps(&self, state: &u8) -> Vec<Step<u8, String>> {
        let edges = self.edges.iter().filter(|(from, _)| from == state);
        let step = |&(from, to): &(u8, u8)| Step {
            event: format!("{from} -> {to}"),
            next: if self.forbidden.contains(&(from, to)) {
                Err(format!("{from} -> {to} is forbidden"))
            } else {
                Ok(to)
            },
            labels: vec![if to > from { "up" } else { "down" }],
        };
        edges.map(step).collect()
    }

    fn fair_run(&self, state: &u8) -> u8 {
        *state
    }

    fn advance(&self, run: &mut u8) -> Result<Progress, String> {
        if let Some((_, to)) = self.fair.iter().find(|(from, _)| from == run) {
            *run = *to;
            return Ok(Progress::Continues);
        }
        if self.wrong.contains(run) {
            return Err(format!("{run} is a wrong end"));
        }
        Ok(Progress::Terminal)
    }

    fn never_ends(&self, _: &u8) -> String {
        "goes round".to_owned()
    }
}

fn report(graph: &Graph, limit: usize) -> Report {
    search(graph, [0], limit).expect("no violation")
}

fn counterexample(graph: &Graph) -> Counterexample<String> {
    *search(graph, [0], usize::MAX).expect_err("a violation")
}

#[test]
fn every_state_and_transition_is_counted_once() {
    let edges = vec![(0, 1), (0, 2), (1, 3), (2, 3), (3, 0), (9, 8)];
    let report = report(
        &Graph {
            edges,
            ..Graph::default()
        },
        usize::MAX,
    );
    assert_eq!((report.states, report.transitions, report.depth), (4, 5, 2));
    assert!(report.exhausted);
    assert_eq!(report.labels, [("down", 1), ("up", 4)].into());
}

#[test]
fn equal_initial_states_are_one() {
    let report = search(&Graph::default(), [0, 1, 0], usize::MAX).expect("no violation");
    assert_eq!(report.states, 2);
}

#[test]
fn states_with_the_same_normal_form_are_one() {
    let graph = Graph {
        edges: vec![(0, 1), (1, 2), (2, 3)],
        modulus: Some(3),
        ..Graph::default()
    };
    assert_eq!(report(&graph, usize::MAX).states, 3);
}

#[test]
fn a_search_that_reaches_its_limit_says_so() {
    let graph = Graph {
        edges: vec![(0, 1), (1, 2), (2, 3), (3, 4)],
        ..Graph::default()
    };
    let limited = report(&graph, 3);
    assert!(!limited.exhausted);
    assert_eq!(limited.states, 3);
    assert!(limited.to_string().contains("stopped at the limit"));
    assert!(report(&graph, 6).exhausted);
}

#[test]
fn the_shortest_counterexample_is_found() {
    let graph = Graph {
        edges: vec![(0, 1), (1, 2), (2, 7), (0, 3), (3, 7), (7, 8)],
        forbidden: vec![(7, 8)],
        ..Graph::default()
    };
    let found = counterexample(&graph);
    assert_eq!(found.trace, ["0 -> 3", "3 -> 7", "7 -> 8"]);
    assert_eq!(found.state, "7");
    assert_eq!(
        found.to_string(),
        "7 -> 8 is forbidden\n- 0 -> 3\n- 3 -> 7\n- 7 -> 8\nbefore the last event: 7"
    );
}

#[test]
fn a_fair_run_that_goes_round_is_a_violation() {
    // Every path of the search ends, and a terminal state can be reached from 0 by way of 3; but not from 1 and 2.
    let graph = Graph {
        edges: vec![(0, 1), (0, 3)],
        fair: vec![(0, 3), (1, 2), (2, 1)],
        ..Graph::default()
    };
    let found = counterexample(&graph);
    assert_eq!(found.violation, "goes round");
    assert_eq!(found.trace, ["0 -> 1", super::search::FAIR]);
}

#[test]
fn a_fair_run_to_a_wrong_end_is_a_violation() {
    let graph = Graph {
        edges: vec![(0, 1)],
        fair: vec![(1, 2)],
        wrong: vec![2],
        ..Graph::default()
    };
    assert_eq!(counterexample(&graph).violation, "2 is a wrong end");
}

#[test]
fn a_fair_run_ends_where_another_one_went_on_to_a_terminal_state() {
    // From 9 to 0 is one step less than the limit of ten, so the runs from above end only if they are joined.
    let chain = |from: u8| (1..=from).map(|state| (state, state - 1)).collect::<Vec<_>>();
    let graph = |from: u8| Graph {
        edges: (0..from).map(|state| (state, state + 1)).collect(),
        fair: chain(from),
        ..Graph::default()
    };
    assert_eq!(report(&graph(30), usize::MAX).states, 31);
    assert!(search(&graph(30), [30], usize::MAX).is_err());
}
