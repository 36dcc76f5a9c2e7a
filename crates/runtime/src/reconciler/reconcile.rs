//! What a controller does for one object.

use super::backoff::Outcome;
use super::state::ObjectState;
use crate::informer::Watched;
use crate::key::ObjectKey;
use crate::reconcile_error::ReconcileError;

/// Brings the cluster closer to what an object of one kind specifies.
///
/// Reconciles are level-triggered: each reads everything it needs, whatever triggered it. At most one runs at a time per
/// object.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind that is reconciled.
    type Object: Watched;
    /// What the process keeps of an object from one reconcile to the next, beside what every kind has. All of it can be
    /// lost.
    type State: Default + Send + 'static;

    /// Reconciles an object. It is the newest version that this process knows: the cached one, or the one that our own last
    /// write returned.
    fn reconcile(
        &self,
        object: &Self::Object,
        state: &mut ObjectState<Self::Object, Self::State>,
    ) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send;

    /// A reconcile failed and will be retried. Reports what a user of the object has to know, as far as that is possible.
    fn failed(
        &self,
        _object: &Self::Object,
        _error: &ReconcileError,
        _state: &mut ObjectState<Self::Object, Self::State>,
    ) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// The object no longer exists.
    fn forget(&self, _key: &ObjectKey) {}

    /// The object cannot be read. It is not reconciled until it changes.
    fn unreadable(&self, _key: &ObjectKey) {}

    /// The kind, as users write it.
    #[must_use]
    fn kind() -> std::borrow::Cow<'static, str> {
        use kube::Resource;
        Self::Object::kind(&())
    }
}
