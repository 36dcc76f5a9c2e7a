//! Where the state that a plan is made from is read.

/// Where everything is read that one plan is made from.
///
/// A plan from caches is made first. If it contains a step that a cache which lags behind must not set off, more is read
/// live and the plan is made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reads {
    /// All of it in watch caches.
    #[default]
    Cached,
    /// The children live, and what refers to the object or is referred to by it in caches.
    LiveChildren,
    /// All of it live.
    Live,
}
