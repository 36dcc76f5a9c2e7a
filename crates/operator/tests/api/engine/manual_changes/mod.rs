//! Users who edit and delete the objects that belong to an engine, or change their owner.

mod children;
mod ownership;
