//! The status of the election, for the rest of the process.

use tokio::sync::watch;
use tokio::time::Instant;

/// The role of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Another process is the leader, or none is yet.
    Standby,
    /// This process is the leader.
    Leader,
}

/// The status of the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionStatus {
    /// The role of this process.
    pub role: Role,
    /// Whether this process can become the leader.
    pub access: Access,
    /// Until when this process is the leader if the lease is not renewed; none without a lease.
    pub until: Option<Instant>,
}

/// Whether this process can take part in the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Not known yet.
    Unknown,
    /// It cannot, for this reason, which names the remedy.
    Failed(String),
    /// It can: the lease was acquired, or was read and is held by another process. Later failures do not change this: a
    /// standby stays ready while the API server is down for a moment.
    Proven,
}

impl ElectionStatus {
    /// The status at the start of an election.
    pub const STANDBY: Self = Self {
        role: Role::Standby,
        access: Access::Unknown,
        until: None,
    };
    /// This process is the leader, without a lease.
    pub const LEADER: Self = Self {
        role: Role::Leader,
        access: Access::Proven,
        until: None,
    };

    /// This process is the leader until then.
    #[must_use]
    pub(crate) fn leader_until(end: Instant) -> Self {
        Self {
            until: Some(end),
            ..Self::LEADER
        }
    }

    /// Why this process is not ready to become the leader, in a line for `/readyz`.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        match &self.access {
            Access::Unknown => Some("waiting for the leader election: the lease has not been read yet".to_owned()),
            Access::Failed(reason) => Some(format!("waiting for the leader election: {reason}")),
            Access::Proven => None,
        }
    }
}

/// The right to write to the cluster, checked before each write.
///
/// A process that was suspended and goes on must not finish its reconciles: another one may be the leader by now. The clock
/// shows it here before any message does.
#[derive(Clone, Debug)]
pub struct Leadership {
    status: watch::Receiver<ElectionStatus>,
}

impl Leadership {
    /// The leadership that follows from the status of the election.
    #[must_use]
    pub fn new(status: watch::Receiver<ElectionStatus>) -> Self {
        Self { status }
    }

    /// Whether this process is the leader right now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let status = self.status.borrow();
        status.role == Role::Leader && status.until.is_none_or(|end| Instant::now() < end)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn leadership_ends_with_its_time_without_a_message() {
        let (sender, status) = watch::channel(ElectionStatus::STANDBY);
        let leadership = Leadership::new(status);
        assert!(!leadership.is_held());
        sender.send_replace(ElectionStatus::leader_until(Instant::now() + Duration::from_secs(10)));
        assert!(leadership.is_held());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!leadership.is_held());
        sender.send_replace(ElectionStatus::LEADER);
        assert!(leadership.is_held());
    }
}
