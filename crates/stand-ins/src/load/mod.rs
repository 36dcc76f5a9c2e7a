//! Clients that query an engine through a gateway and keep account of every query.
//!
//! Each query is an `INSERT` with an identifier of its own, sent once: a client that tried again would hide what is
//! looked for. A query fails if no answer comes, or one of any other status than 200. In the end, [`Report::check`]
//! compares what was answered with the [`Ledger`] of what ran.
//!
//! ```no_run
//! # use stand_ins::load::{Ledger, Load, Settings};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // Engines are given `ledger.url()` as STAND_IN_LEDGER.
//! let ledger = Ledger::bind("10.245.0.1:0".parse()?).await?;
//! let load = Load::start("http://10.96.0.7:80".parse()?, "analytics", Settings::default());
//! load.answers(1000).await;
//! load.stop().await.check(&ledger)?;
//! # Ok(())
//! # }
//! ```

mod clients;
mod command;
mod report;
#[cfg(test)]
mod tests;

pub use crate::ledger::Ledger;
pub use clients::{Counts, Load, Settings};
pub use command::{Arguments, Error, run};
pub use report::{Failure, Faults, Latency, Report};
