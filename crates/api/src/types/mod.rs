//! The custom resources, one file per kind, and the types that they share.

pub(crate) mod engine;
pub(crate) mod engine_class;
pub(crate) mod instance;
pub(crate) mod storage;
