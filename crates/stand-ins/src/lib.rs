//! Development only: an engine and a metadata service that keep the contract of the closed-source images.
//!
//! They are the only imitations in this repository. Everything else that tests touch is the real program.
