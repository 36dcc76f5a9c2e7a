//! Requests of the operator as the API server recorded them in its audit log.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use localkube::Cluster;
use serde::Deserialize;

use crate::support::OPERATOR_NAMESPACE;

/// A moment from which on requests count.
#[derive(Debug)]
pub(crate) struct Mark {
    log: PathBuf,
    offset: u64,
    time: Timestamp,
    instant: Instant,
}

/// One attempt to write, whether it succeeded or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AuditedRequest {
    pub verb: String,
    /// With the subresource, as in `fireboltengines/status`.
    pub resource: String,
    /// Empty if the API server chose it.
    pub name: String,
    pub code: u16,
}

impl fmt::Display for AuditedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} -> {}", self.verb, self.resource, self.name, self.code)
    }
}

/// A line of the log, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    user: User,
    object_ref: Option<Reference>,
    response_status: Option<Status>,
    request_received_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Reference {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

impl Mark {
    /// This moment.
    pub(crate) fn now(cluster: &Cluster) -> Self {
        let log = cluster.audit_log();
        let offset = std::fs::metadata(&log).unwrap().len();
        Self {
            log,
            offset,
            time: Timestamp::now(),
            instant: Instant::now(),
        }
    }

    /// The time of the mark, on a clock that may have been set back since.
    fn time(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.instant.elapsed()).unwrap();
        self.time.min(Timestamp::now() - elapsed)
    }

    /// What the operator tried to write in the namespace since then, in the order in which it was answered.
    ///
    /// The API server records a request while it answers it, so the latest one may be missing.
    pub(crate) fn writes(&self, namespace: &str) -> Vec<AuditedRequest> {
        self.writes_by(&operator(), namespace)
    }

    /// As [`Mark::writes`], for another user.
    pub(crate) fn writes_by(&self, user: &str, namespace: &str) -> Vec<AuditedRequest> {
        self.select(user, namespace, is_write)
    }

    /// As [`Mark::writes`], but since the position of the mark in the log, whatever the times of the requests: none is
    /// lost if the clock is set while the test runs.
    ///
    /// For objects that only this test writes, and for writes that cannot be in flight at the mark: those are included.
    pub(crate) fn writes_logged_since(&self, namespace: &str) -> Vec<AuditedRequest> {
        let operator = operator();
        let writes = self.lines().filter(|line| is_write(&line.verb));
        writes.filter_map(|line| write_by(line, &operator, namespace)).collect()
    }

    fn select(&self, user: &str, namespace: &str, counts: impl Fn(&str) -> bool) -> Vec<AuditedRequest> {
        // A request that was in flight at the mark is logged after it.
        let time = self.time();
        let since = self.lines().filter(|line| line.request_received_timestamp >= time);
        let counted = since.filter(|line| counts(&line.verb));
        counted.filter_map(|line| write_by(line, user, namespace)).collect()
    }

    /// The lines after the position of the mark.
    fn lines(&self) -> impl Iterator<Item = Line> {
        let mut log = BufReader::new(File::open(&self.log).unwrap());
        log.seek(SeekFrom::Start(self.offset)).unwrap();
        let lines = log.lines().map(Result::unwrap);
        // The last line may be incomplete.
        lines.filter_map(|line| serde_json::from_str(&line).ok())
    }

    /// Everything that the operator asked of the API server in the namespace since then, watches aside.
    pub(crate) fn requests(&self, namespace: &str) -> Vec<AuditedRequest> {
        self.select(&operator(), namespace, |verb| verb != "watch")
    }

    /// As [`Mark::writes`], without events: they tell users what happened and change nothing.
    pub(crate) fn writes_but_events(&self, namespace: &str) -> Vec<AuditedRequest> {
        let mut writes = self.writes(namespace);
        writes.retain(|write| write.resource != "events");
        writes
    }
}

/// Who the operator is to the API server.
fn operator() -> String {
    format!("system:serviceaccount:{OPERATOR_NAMESPACE}:firebolt-operator")
}

fn is_write(verb: &str) -> bool {
    !matches!(verb, "get" | "list" | "watch")
}

/// How often each resource and name was written.
pub(crate) fn tally(writes: &[AuditedRequest]) -> BTreeMap<(&str, &str), usize> {
    let mut tally = BTreeMap::new();
    for write in writes {
        *tally.entry((write.resource.as_str(), write.name.as_str())).or_default() += 1;
    }
    tally
}

fn write_by(line: Line, user: &str, namespace: &str) -> Option<AuditedRequest> {
    let object = line.object_ref.unwrap_or_default();
    let resource = [object.resource, object.subresource];
    let resource = resource.iter().filter(|part| !part.is_empty());
    (line.user.username == user && object.namespace == namespace).then(|| AuditedRequest {
        verb: line.verb,
        resource: resource.cloned().collect::<Vec<_>>().join("/"),
        name: object.name,
        code: line.response_status.map_or(0, |status| status.code),
    })
}
