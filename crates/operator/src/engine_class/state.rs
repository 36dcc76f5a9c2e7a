//! What the process keeps of a class from one reconcile to the next.

use firebolt_api::FireboltEngineClass;
use firebolt_runtime::reconciler::ObjectState;

/// The state of one class. Classes add nothing to what every kind has.
pub(super) type State = ObjectState<FireboltEngineClass, ()>;
