//! The custom resources against the real API server: accepted and rejected values of every rule, and what users do with
//! `kubectl`.

#![expect(clippy::disallowed_methods, reason = "tests write to the cluster as users do")]

mod engine;
mod engine_class;
mod examples;
mod formats;
mod instance;
mod kubectl;
mod support;
mod template;
