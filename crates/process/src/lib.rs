//! What every long-running binary of this project needs: logs, signals, error texts, bounded HTTP serving, and the name
//! under which it sends requests.
//!
//! No Firebolt type and no Kubernetes client is in here.

pub mod error;
pub mod http;
pub mod logs;
pub mod signals;
mod user_agent;

pub use self::user_agent::user_agent;
