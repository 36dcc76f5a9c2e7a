//! The stand-in as a program: what it does with its command line, its environment and its signals.

mod load;
mod process;
mod server;
