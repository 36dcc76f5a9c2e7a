//! B2, B3 and B4: people change their minds, and what an engine refers to changes under it.

mod impossible;
mod mind;
mod references;
mod removed;
