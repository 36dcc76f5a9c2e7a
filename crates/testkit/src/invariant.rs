//! What must hold of an engine at any time. The model check of `crates/core` and the tests of the running operator check
//! the same invariants.

/// An invariant of engines and their rollouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// The routing Service never selects a generation without ready pods while another generation has all pods ready.
    RouteHasReadyPods,
    /// A generation that the status or the routing Service names is not deleted.
    NamedGenerationKept,
    /// In a terminal phase the current generation is the active one, none is draining, and its StatefulSet exists.
    TerminalIsConsistent,
    /// A generation drains only while the phase is `draining` or `cleaning`, and is older than the current one.
    DrainingIsOlder,
    /// `currentGeneration` never decreases, no generation starts while another one retires, and at most two have pods.
    GenerationsAdvance,
    /// A generation with running queries is not deleted, unless its engine does not wait for them.
    BusyGenerationKept,
    /// An unchanged desired state starts no generation.
    NoRolloutWithoutCause,
    /// Without changes from outside, the operator stops writing.
    WritesEnd,
    /// The same specification leads to the same objects after any history, apart from the number of the generation.
    ConvergesToSameObjects,
    /// With a valid specification, a terminal phase is reached from every state.
    ReachesTerminal,
    /// Replicas grow only after a fresh wake request or in an open window, and shrink only after an observed idle timeout.
    ScalesForAReason,
    /// The operator changes no field of the user but `spec.replicas` under auto-stop, and `spec.id` once.
    UserFieldsUntouched,
    /// Pods that are wanted again while an engine stops are reachable without waiting for its running queries.
    StopCanBeCancelled,
    /// Serving pods lose the route for a stop only after the stop was visible for the notice.
    StopIsAnnounced,
    /// An object that the engine does not own is neither changed nor deleted.
    ForeignObjectsUntouched,
}
