//! Errors of requests to the API server, and what to do about them.

use std::time::Duration;

use firebolt_api::GROUP;
use firebolt_process::error::{chain, shortened};

use crate::hold::PatchOutcome;

/// The maximum number of characters of a message of the API server that are logged.
const LOGGED: usize = 500;
/// The resource that is listed and patched.
const RESOURCE: &str = "fireboltengines";

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApiError {
    /// There is no configuration for a client.
    Config(String),
    /// The API server responded with this status and message.
    Status(u16, String),
    /// There is no response, or it cannot be parsed.
    Transport(String),
    /// The request timed out.
    Timeout(Duration),
}

/// Errors of the same kind are logged once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ErrorKind {
    /// See [`ApiError::Config`].
    Config,
    /// See [`ApiError::Status`].
    Status(u16),
    /// See [`ApiError::Transport`].
    Transport,
    /// See [`ApiError::Timeout`].
    Timeout,
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::status(status.code, &status.message),
            kube::Error::Service(source) => Self::Transport(shortened(&chain(source.as_ref()), LOGGED)),
            other => Self::Transport(shortened(&chain(&other), LOGGED)),
        }
    }
}

impl ApiError {
    /// The API server responded with an error.
    pub(super) fn status(code: u16, message: &str) -> Self {
        Self::Status(code, shortened(message.trim_end_matches(['.', ' ', '\n']), LOGGED))
    }

    /// The kind of the error.
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::Config(_) => ErrorKind::Config,
            Self::Status(code, _) => ErrorKind::Status(*code),
            Self::Transport(_) => ErrorKind::Transport,
            Self::Timeout(_) => ErrorKind::Timeout,
        }
    }

    /// Whether credentials and certificate authority should be read again: the token is not accepted, or the API server
    /// cannot be reached, as after a rotation of its certificate authority.
    pub(super) fn needs_new_client(&self) -> bool {
        match self {
            Self::Status(code, _) => *code == 401,
            Self::Transport(_) | Self::Timeout(_) | Self::Config(_) => true,
        }
    }

    /// The outcome of a patch with this error. Admission may refuse with any 4xx status. An object that is gone, a
    /// conflict and throttling are retried, and so is a token that is not accepted, as during a rotation of keys.
    pub(super) fn outcome(&self) -> PatchOutcome {
        match self {
            Self::Status(401 | 404 | 408 | 409 | 429, _) => PatchOutcome::Failed,
            Self::Status(400..500, _) => PatchOutcome::Refused,
            Self::Status(_, _) | Self::Config(_) | Self::Transport(_) | Self::Timeout(_) => PatchOutcome::Failed,
        }
    }

    /// What went wrong, and what to do next.
    pub(super) fn explain(&self, verb: &str, namespace: &str, role: &str) -> String {
        let problem = format!("cannot {verb} {RESOURCE}.{GROUP} in namespace {namespace}");
        match self {
            Self::Config(cause) => format!(
                "{problem}: no client configuration: {cause}. Mount the token of a service account, or set KUBECONFIG."
            ),
            Self::Status(401, message) => format!(
                "{problem}: the API server does not accept the token: {message} (401). \
                 Check the volume with the token of the service account, and the clock of the node."
            ),
            Self::Status(403, message) => format!(
                "{problem}: {message} (403). \
                 Grant the service account get, list and patch on {RESOURCE}.{GROUP}, as in the Role {role}."
            ),
            Self::Status(code @ 400..500, message) => format!("{problem}: {message} ({code})."),
            Self::Status(code, message) => format!("{problem}: the API server failed: {message} ({code})."),
            Self::Transport(cause) => format!(
                "{problem}: the API server cannot be reached: {cause}. Check network policies from gateway pods to it."
            ),
            Self::Timeout(limit) => format!("{problem}: timed out after {limit:?}."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn status(code: u16) -> ApiError {
        ApiError::Status(code, "message of the API server".to_owned())
    }

    #[rstest]
    #[case(status(400), PatchOutcome::Refused)]
    #[case(status(401), PatchOutcome::Failed)]
    #[case(status(403), PatchOutcome::Refused)]
    #[case(status(404), PatchOutcome::Failed)]
    #[case(status(409), PatchOutcome::Failed)]
    #[case(status(422), PatchOutcome::Refused)]
    #[case(status(429), PatchOutcome::Failed)]
    #[case(status(500), PatchOutcome::Failed)]
    #[case(status(503), PatchOutcome::Failed)]
    #[case(ApiError::Timeout(Duration::from_secs(1)), PatchOutcome::Failed)]
    #[case(ApiError::Transport(String::new()), PatchOutcome::Failed)]
    #[case(ApiError::Config(String::new()), PatchOutcome::Failed)]
    fn only_errors_that_a_retry_does_not_fix_count_as_refused(#[case] error: ApiError, #[case] outcome: PatchOutcome) {
        assert_eq!(error.outcome(), outcome);
    }

    #[test]
    fn a_missing_permission_is_reported_with_the_role_that_grants_it() {
        let text = status(403).explain("patch", "sales", "main-gateway-wake");
        for part in [
            "cannot patch fireboltengines",
            "namespace sales",
            "message of the API server",
            "Role main-gateway-wake",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[rstest]
    #[case(ApiError::Config("no file".to_owned()), "no file. Mount the token")]
    #[case(status(401), "Check the volume with the token")]
    #[case(status(422), "message of the API server (422).")]
    #[case(status(500), "the API server failed: message of the API server (500).")]
    #[case(ApiError::Transport("refused".to_owned()), "cannot be reached: refused. Check network policies")]
    #[case(ApiError::Timeout(Duration::from_secs(1)), "timed out after 1s.")]
    fn every_error_names_verb_and_resource(#[case] error: ApiError, #[case] part: &str) {
        let text = error.explain("list", "sales", "role");
        assert!(text.starts_with("cannot list fireboltengines"), "{text}");
        assert!(text.contains(part), "{text}");
    }
}
