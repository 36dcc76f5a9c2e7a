//! What all controllers have in common: from what the watches have seen of a kind to the looks at its objects.

use tokio_util::sync::CancellationToken;

use crate::key::ObjectKey;
use crate::queue::{self, Again, Inbox, Lane, WorkMetrics};
use crate::watches::{Store, Watched};

/// A kind whose objects are looked after.
pub struct Kind<'a, K> {
    /// Where the watches put objects that something was seen of.
    pub inbox: &'a Inbox<ObjectKey>,
    /// The objects that are there.
    pub objects: &'a Store<K>,
    /// Where the work is measured.
    pub work: &'a WorkMetrics,
    /// How many are looked at at the same time.
    pub workers: usize,
}

/// Looks after all objects of a kind until `stop`, then lets passes under way come to their end. What goes on `beside`
/// outlives the passes, whose last words it still has to tell; it gets a token of its own.
pub async fn run<K: Watched, Looked, Beside>(
    kind: Kind<'_, K>,
    stop: CancellationToken,
    beside: impl FnOnce(CancellationToken) -> Beside,
    look: impl FnMut(ObjectKey) -> Looked,
) where
    Looked: Future<Output = Again> + Send + 'static,
    Beside: Future<Output = ()>,
{
    kind.inbox.open();
    for object in kind.objects.all() {
        kind.inbox.add(ObjectKey::of(&*object), Lane::Ordinary);
    }
    let side_work = CancellationToken::new();
    let passes = async {
        let measure = |waiting, scheduled| kind.work.queued(waiting, scheduled);
        queue::work(kind.inbox, kind.workers, stop, measure, look).await;
        side_work.cancel();
    };
    tokio::join!(passes, beside(side_work.clone()));
}
