//! The kubectl plugin: `kubectl firebolt`.
