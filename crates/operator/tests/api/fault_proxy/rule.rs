//! Rules: which requests get which fault.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::call::{Call, Verb};
use super::watches::Disturbance;

/// What happens to a request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The proxy responds with this status and does not forward it.
    Answer { code: u16, retry_after: Option<u64> },
    /// It is forwarded and processed, and the connection ends without a response.
    LoseResponse,
    /// The connection ends, and it is not forwarded.
    CutBefore,
    /// It is forwarded when the rule is released; until then it is pending.
    Hold,
    /// It is forwarded and processed, and the response is sent when the rule is released. A test may kill the operator
    /// before.
    HoldResponse,
    /// It is a watch, and this becomes of it.
    Watch(Disturbance),
}

/// Refused, with nothing said about when to try again.
pub(crate) fn answer(code: u16) -> Fault {
    Fault::Answer {
        code,
        retry_after: None,
    }
}

/// A description of requests, as in `writes().of("services").nth(2)`.
#[derive(Clone, Debug)]
pub(crate) struct Match {
    verb: Option<Verb>,
    resource: Option<String>,
    subresource: Option<String>,
    name: Option<String>,
    text: Option<String>,
    which: Which,
}

/// Which of those that the rest describes.
#[derive(Clone, Copy, Debug)]
enum Which {
    All,
    /// This many, after the first ones have passed.
    Some {
        passed: usize,
        count: usize,
    },
    /// Of each object, after having let so many pass: so many in a row, then one passes, and so on.
    InARow {
        passed: usize,
        count: usize,
    },
}

/// Every write but those of leases and events.
pub(crate) fn writes() -> Match {
    Match {
        verb: None,
        resource: None,
        subresource: None,
        name: None,
        text: None,
        which: Which::All,
    }
}

/// Every request of one kind.
pub(crate) fn every(verb: Verb, resource: &str) -> Match {
    Match {
        verb: Some(verb),
        ..writes().of(resource)
    }
}

impl Match {
    /// Only of this kind, by its plural.
    pub(crate) fn of(self, resource: &str) -> Self {
        Self {
            resource: Some(resource.to_owned()),
            ..self
        }
    }

    /// Only of the status subresource.
    pub(crate) fn status(self) -> Self {
        Self {
            subresource: Some("status".to_owned()),
            ..self
        }
    }

    /// Only of the object of this name.
    pub(crate) fn named(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }

    /// Only the nth, counted from one.
    pub(crate) fn nth(self, n: usize) -> Self {
        let which = Which::Some {
            passed: n - 1,
            count: 1,
        };
        Self { which, ..self }
    }

    /// Only the next few.
    pub(crate) fn next(self, count: usize) -> Self {
        let which = Which::Some { passed: 0, count };
        Self { which, ..self }
    }

    /// Only if the body contains this text.
    pub(crate) fn saying(self, text: &str) -> Self {
        Self {
            text: Some(text.to_owned()),
            ..self
        }
    }

    /// So many in a row of each object and verb, after which one passes, and so on; so many pass at first.
    pub(crate) fn in_a_row(self, count: usize, passed: usize) -> Self {
        let which = Which::InARow { passed, count };
        Self { which, ..self }
    }

    fn describes(&self, call: &Call, body: &[u8]) -> bool {
        let verb = self.verb.map_or_else(|| call.is_write(), |verb| verb == call.verb);
        let resource = self.resource.as_ref().is_none_or(|resource| *resource == call.resource);
        let name = self.name.is_none() || self.name == call.name;
        let subresource = self.subresource.is_none() || self.subresource == call.subresource;
        let body = String::from_utf8_lossy(body);
        let text = self.text.as_ref().is_none_or(|text| body.contains(text));
        verb && resource && name && subresource && text
    }
}

/// A rule in force, and the handle by which a test follows and ends it.
#[derive(Clone, Debug)]
pub(crate) struct Rule(Arc<State>);

#[derive(Debug)]
struct State {
    matcher: Match,
    fault: Fault,
    counts: Mutex<Counts>,
    struck: watch::Sender<usize>,
    released: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Counts {
    removed: bool,
    seen: usize,
    seen_of: HashMap<Call, usize>,
}

impl Rule {
    pub(super) fn new(matcher: Match, fault: Fault) -> Self {
        Self(Arc::new(State {
            matcher,
            fault,
            counts: Mutex::default(),
            struck: watch::Sender::new(0),
            released: watch::Sender::new(false),
        }))
    }

    /// Counts the request if it matches, and returns the fault if the rule applies to it.
    pub(super) fn meet(&self, call: &Call, body: &[u8]) -> Option<Fault> {
        let state = &self.0;
        let mut counts = state.counts.lock().unwrap();
        if counts.removed || !state.matcher.describes(call, body) {
            return None;
        }
        let before = counts.seen;
        counts.seen += 1;
        let of_it = counts.seen_of.entry(call.clone()).or_default();
        let before_of_it = *of_it;
        *of_it += 1;
        let meant = match state.matcher.which {
            Which::All => true,
            Which::Some { passed, count } => (passed..passed + count).contains(&before),
            Which::InARow { passed, count } => before_of_it >= passed && (before_of_it - passed) % (count + 1) < count,
        };
        meant.then(|| state.fault.clone())
    }

    /// The fault has happened to a request.
    pub(super) fn strike(&self) {
        self.0.struck.send_modify(|struck| *struck += 1);
    }

    pub(super) async fn released(&self) {
        let mut released = self.0.released.subscribe();
        if released.wait_for(|released| *released).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// How many requests it has happened to.
    pub(crate) fn struck(&self) -> usize {
        *self.0.struck.borrow()
    }

    /// Waits until it has happened to a request. With [`Fault::HoldResponse`] that has been carried out by then.
    pub(crate) async fn happened(&self) {
        let mut struck = self.0.struck.subscribe();
        let happened = struck.wait_for(|struck| *struck > 0).await;
        happened.expect("the sender is part of this rule");
    }

    /// Lets go of what is held, and of what would be.
    pub(crate) fn release(&self) {
        self.0.released.send_replace(true);
    }

    /// Strikes no more. What is held stays held.
    pub(crate) fn remove(&self) {
        self.0.counts.lock().unwrap().removed = true;
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;

    fn call(method: &str, path: &str) -> Call {
        let method: Method = method.parse().unwrap();
        Call::of(&method, &format!("/api/v1/namespaces/n/{path}").parse().unwrap(), b"").unwrap()
    }

    fn met(matcher: Match, calls: &[Call]) -> Vec<bool> {
        let rule = Rule::new(matcher, Fault::CutBefore);
        calls.iter().map(|call| rule.meet(call, b"a body").is_some()).collect()
    }

    #[test]
    fn leases_events_and_reads_are_no_writes() {
        let calls = [
            call("PUT", "leases/l"),
            call("POST", "events"),
            call("GET", "services/s"),
            call("PATCH", "services/s"),
        ];
        assert_eq!(met(writes(), &calls), [false, false, false, true]);
        assert_eq!(met(every(Verb::Create, "events"), &calls), [false, true, false, false]);
    }

    #[test]
    fn the_nth_is_counted_among_those_described() {
        let calls = [
            call("PATCH", "services/a"),
            call("PATCH", "configmaps/a"),
            call("PATCH", "services/b"),
            call("PATCH", "services/b/status"),
        ];
        assert_eq!(met(writes().nth(2), &calls), [false, true, false, false]);
        assert_eq!(met(writes().of("services").nth(2), &calls), [false, false, true, false]);
        assert_eq!(met(writes().next(2), &calls), [true, true, false, false]);
        assert_eq!(met(writes().status(), &calls), [false, false, false, true]);
        assert_eq!(met(writes().named("a"), &calls), [true, true, false, false]);
        assert_eq!(met(writes().saying("body").nth(3), &calls), [false, false, true, false]);
        assert_eq!(met(writes().saying("other"), &calls), [false; 4]);
    }

    #[test]
    fn in_a_row_counts_each_object_by_itself() {
        let (a, b) = (call("PATCH", "services/a"), call("PATCH", "services/b"));
        let calls = [a.clone(), a.clone(), b.clone(), a.clone(), a, b];
        assert_eq!(
            met(writes().in_a_row(2, 0), &calls),
            [true, true, true, false, true, true]
        );
        assert_eq!(
            met(writes().in_a_row(1, 1), &calls),
            [false, true, false, false, true, true]
        );
    }

    #[test]
    fn a_removed_rule_no_longer_applies() {
        let rule = Rule::new(writes(), Fault::CutBefore);
        rule.remove();
        assert!(rule.meet(&call("PATCH", "services/a"), b"").is_none());
    }
}
