//! What the rest of the process knows of the election.

use tokio::sync::watch;
use tokio::time::Instant;

/// Whether this process leads right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Another process leads, or none does yet.
    Standby,
    /// This process leads.
    Leading,
}

/// How things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether this process leads.
    pub role: Role,
    /// Whether it could.
    pub access: Access,
    /// Until when it leads if the lease is not renewed; none if there is no lease to lose.
    pub until: Option<Instant>,
}

/// Whether this process can take part in the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Not known yet.
    Unknown,
    /// It cannot, for this reason, told with its remedy.
    HeldUp(String),
    /// It can: the lease was taken, or was read and is another's. Later failures do not take this back, since a standby
    /// has nothing to do with an API server that is down for a moment.
    Proven,
}

impl Report {
    /// How an election begins.
    pub const STANDBY: Self = Self {
        role: Role::Standby,
        access: Access::Unknown,
        until: None,
    };
    /// This process leads, and no other can.
    pub const LEADING: Self = Self {
        role: Role::Leading,
        access: Access::Proven,
        until: None,
    };

    /// This process leads until then, which proves that it can.
    #[must_use]
    pub fn leading_until(end: Instant) -> Self {
        Self {
            until: Some(end),
            ..Self::LEADING
        }
    }

    /// What is still missing before this process can take part, in a line for `/readyz`.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        match &self.access {
            Access::Unknown => Some("waiting for the leader election: the lease has not been read yet".to_owned()),
            Access::HeldUp(reason) => Some(format!("waiting for the leader election: {reason}")),
            Access::Proven => None,
        }
    }
}

/// The right to write to the cluster, asked for before each write.
///
/// A process that was stopped for a while and goes on must not finish what it was doing: another one may lead by now. It
/// finds out here, by the clock, before anything has told it so.
#[derive(Clone, Debug)]
pub struct Term {
    reports: watch::Receiver<Report>,
}

impl Term {
    /// The term that the election reports.
    #[must_use]
    pub fn new(reports: watch::Receiver<Report>) -> Self {
        Self { reports }
    }

    /// Whether this process leads at this moment.
    #[must_use]
    pub fn holds(&self) -> bool {
        let report = self.reports.borrow();
        report.role == Role::Leading && report.until.is_none_or(|end| Instant::now() < end)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_with_its_time_even_if_nobody_says_so() {
        let (report, reports) = watch::channel(Report::STANDBY);
        let term = Term::new(reports);
        assert!(!term.holds());
        report.send_replace(Report::leading_until(Instant::now() + Duration::from_secs(10)));
        assert!(term.holds());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!term.holds());
        report.send_replace(Report::LEADING);
        assert!(term.holds());
    }
}
