//! What can go wrong between the agent and the API server, and what to do about it.

use std::time::Duration;

use firebolt_api::GROUP;

use crate::error::{chain, shortened};
use crate::table::PatchOutcome;

/// How much of what the API server says goes into the log.
const MESSAGE: usize = 500;
/// What is listed and patched.
const RESOURCE: &str = "fireboltengines";

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing says where the cluster is.
    NoCluster(String),
    /// The API server said no, with a status and a text.
    Answered(u16, String),
    /// There is no answer, or none that can be read.
    Unreachable(String),
    /// There is no answer in time.
    Silent(Duration),
}

/// What faults have in common that are told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// See [`Fault::NoCluster`].
    NoCluster,
    /// See [`Fault::Answered`].
    Answered(u16),
    /// See [`Fault::Unreachable`].
    Unreachable,
    /// See [`Fault::Silent`].
    Silent,
}

impl From<kube::Error> for Fault {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::answered(status.code, &status.message),
            kube::Error::Service(source) => Self::Unreachable(shortened(&chain(source.as_ref()), MESSAGE)),
            other => Self::Unreachable(shortened(&chain(&other), MESSAGE)),
        }
    }
}

impl Fault {
    /// The API server said no.
    pub fn answered(code: u16, message: &str) -> Self {
        Self::Answered(code, shortened(message.trim_end_matches(['.', ' ', '\n']), MESSAGE))
    }

    /// Of what kind it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoCluster(_) => Kind::NoCluster,
            Self::Answered(code, _) => Kind::Answered(*code),
            Self::Unreachable(_) => Kind::Unreachable,
            Self::Silent(_) => Kind::Silent,
        }
    }

    /// Whether it may help to read again who we are and whom to trust: the API server does not know us, or we do not reach
    /// it, as after a change of its certificate authority.
    pub fn may_be_outdated(&self) -> bool {
        match self {
            Self::Answered(code, _) => *code == 401,
            Self::Unreachable(_) | Self::Silent(_) | Self::NoCluster(_) => true,
        }
    }

    /// What the table is told of a patch that ended so. Admission may refuse with any status of the client's fault; what
    /// is gone, in conflict, or too much for now may do better in a moment, and so may an account that is not known while
    /// keys are changed.
    pub fn outcome(&self) -> PatchOutcome {
        match self {
            Self::Answered(401 | 404 | 408 | 409 | 429, _) => PatchOutcome::Failed,
            Self::Answered(400..500, _) => PatchOutcome::Refused,
            Self::Answered(_, _) | Self::NoCluster(_) | Self::Unreachable(_) | Self::Silent(_) => PatchOutcome::Failed,
        }
    }

    /// What went wrong and what to do next, in a sentence each.
    pub fn explain(&self, verb: &str, namespace: &str, role: &str) -> String {
        let problem = format!("cannot {verb} {RESOURCE}.{GROUP} in namespace {namespace}");
        match self {
            Self::NoCluster(cause) => format!(
                "{problem}: there is no way to the cluster: {cause}. Mount the token of a service account, or set KUBECONFIG."
            ),
            Self::Answered(401, message) => format!(
                "{problem}: the API server does not accept the token: {message} (401). \
                 Check the volume with the token of the service account, and the clock of the node."
            ),
            Self::Answered(403, message) => format!(
                "{problem}: {message} (403). \
                 Let the account get, list and patch {RESOURCE}.{GROUP}, as the Role {role} does that the operator keeps for \
                 its own account."
            ),
            Self::Answered(code @ 400..500, message) => format!("{problem}: {message} ({code})."),
            Self::Answered(code, message) => format!("{problem}: the API server fails: {message} ({code})."),
            Self::Unreachable(cause) => format!(
                "{problem}: the API server does not answer: {cause}. Check network policies from gateway pods to it."
            ),
            Self::Silent(limit) => format!("{problem}: no answer within {limit:?}."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn answered(code: u16) -> Fault {
        Fault::Answered(code, "words of the API server".to_owned())
    }

    #[rstest]
    #[case(answered(400), PatchOutcome::Refused)]
    #[case(answered(401), PatchOutcome::Failed)]
    #[case(answered(403), PatchOutcome::Refused)]
    #[case(answered(404), PatchOutcome::Failed)]
    #[case(answered(409), PatchOutcome::Failed)]
    #[case(answered(422), PatchOutcome::Refused)]
    #[case(answered(429), PatchOutcome::Failed)]
    #[case(answered(500), PatchOutcome::Failed)]
    #[case(answered(503), PatchOutcome::Failed)]
    #[case(Fault::Silent(Duration::from_secs(1)), PatchOutcome::Failed)]
    #[case(Fault::Unreachable(String::new()), PatchOutcome::Failed)]
    #[case(Fault::NoCluster(String::new()), PatchOutcome::Failed)]
    fn only_what_would_fare_no_better_counts_as_refused(#[case] fault: Fault, #[case] outcome: PatchOutcome) {
        assert_eq!(fault.outcome(), outcome);
    }

    #[test]
    fn a_missing_permission_is_told_with_the_role_that_gives_it() {
        let text = answered(403).explain("patch", "sales", "main-gateway-wake");
        for part in [
            "cannot patch fireboltengines",
            "namespace sales",
            "words of the API server",
            "Role main-gateway-wake",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[rstest]
    #[case(Fault::NoCluster("no file".to_owned()), "no file. Mount the token")]
    #[case(answered(401), "Check the volume with the token")]
    #[case(answered(422), "words of the API server (422).")]
    #[case(answered(500), "the API server fails: words of the API server (500).")]
    #[case(Fault::Unreachable("refused".to_owned()), "does not answer: refused. Check network policies")]
    #[case(Fault::Silent(Duration::from_secs(1)), "no answer within 1s.")]
    fn every_fault_says_what_was_not_done(#[case] fault: Fault, #[case] part: &str) {
        let text = fault.explain("list", "sales", "role");
        assert!(text.starts_with("cannot list fireboltengines"), "{text}");
        assert!(text.contains(part), "{text}");
    }
}
