//! The metadata stand-in as a program, on a real PostgreSQL.

mod database;
mod health;
mod proxy;
mod refusals;
mod rendered;
mod service;
