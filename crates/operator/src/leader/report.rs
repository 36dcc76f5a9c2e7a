//! What the rest of the process knows of the election.

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
    };
    /// This process leads, which proves that it can.
    pub const LEADING: Self = Self {
        role: Role::Leading,
        access: Access::Proven,
    };

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
