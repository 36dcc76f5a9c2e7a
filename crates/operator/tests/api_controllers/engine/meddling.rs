//! B1: people change and delete what belongs to an engine, and take it away from it.

mod children;
mod ownership;
