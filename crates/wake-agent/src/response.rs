//! The HTTP responses to Envoy.

use std::fmt::Write as _;
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::json;

use crate::hold::{Answer, Refusal, Stages};

/// The header with the decision. A response without it does not come from the agent.
pub(crate) const DECISION: HeaderName = HeaderName::from_static("x-firebolt-wake");
/// The header with the duration of each stage of a wake.
pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// What Envoy does.
    pub(crate) answer: Answer,
    /// How long the request was held, if it was.
    pub(crate) waited: Option<Duration>,
}

/// The response to `/hold`.
pub(crate) fn respond(reply: &Reply) -> Response<String> {
    let mut response = match &reply.answer {
        Answer::Route(_) => Response::default(),
        Answer::Refuse(refusal) => refuse(refusal),
    };
    let headers = response.headers_mut();
    headers.insert(DECISION, HeaderValue::from_static(decision(&reply.answer)));
    let timing = match (reply.answer.stages(), reply.waited) {
        (Some(stages), _) => Some(server_timing(stages)),
        (None, Some(waited)) => Some(format!("wake;dur={}", milliseconds(waited))),
        (None, None) => None,
    };
    if let Some(timing) = timing.and_then(|timing| HeaderValue::try_from(timing).ok()) {
        headers.insert(SERVER_TIMING, timing);
    }
    response
}

fn refuse(refusal: &Refusal) -> Response<String> {
    let body = json!({ "error": { "code": refusal.code(), "message": refusal.message() } });
    let mut response = Response::new(format!("{body}\n"));
    *response.status_mut() = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(wait) = refusal.retry_after() {
        headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
    }
    response
}

/// Rounded up: a client that retries too early is refused again.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// The value of the header with the decision. Envoy acts on `ready` and `refused`; the others are for its log.
fn decision(answer: &Answer) -> &'static str {
    match answer {
        Answer::Route(_) => answer.name(),
        Answer::Refuse(_) => "refused",
    }
}

/// The duration of each stage since the one before, and the sum. The duration of a stage that was never observed counts
/// towards the next one.
pub(crate) fn server_timing(stages: &Stages) -> String {
    let seen = [
        ("detected", Some(stages.detected)),
        ("scaled", stages.scaled),
        ("ready", stages.ready),
        ("released", Some(stages.released)),
    ];
    let mut text = String::new();
    let mut before = Duration::ZERO;
    for (name, at) in seen {
        let Some(at) = at else { continue };
        let took = milliseconds(at.saturating_sub(before));
        let _ = write!(text, "{name};dur={took}, ");
        before = before.max(at);
    }
    let _ = write!(text, "wake;dur={}", milliseconds(stages.released));
    text
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::Route;
    use rstest::rstest;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn render(answer: Answer, waited: Option<Duration>) -> Response<String> {
        respond(&Reply { answer, waited })
    }

    fn header<'a>(response: &'a Response<String>, name: &str) -> Option<&'a str> {
        response.headers().get(name).map(|value| value.to_str().unwrap())
    }

    const STAGES: Stages = Stages {
        detected: Duration::from_micros(400),
        scaled: Some(Duration::from_micros(812_500)),
        ready: Some(Duration::from_millis(9_212)),
        released: Duration::from_millis(9_333),
    };

    #[test]
    fn a_routed_request_gets_an_empty_response_with_the_decision() {
        let response = render(Answer::Route(Route::Ready), None);
        assert_eq!(response.status(), 200);
        assert_eq!(header(&response, "x-firebolt-wake"), Some("ready"));
        assert_eq!(header(&response, "server-timing"), None);
        assert_eq!(response.body(), "");
    }

    #[test]
    fn a_held_request_gets_the_duration_of_each_stage() {
        let response = render(Answer::Route(Route::Released(STAGES)), Some(ms(9_334)));
        assert_eq!(header(&response, "x-firebolt-wake"), Some("released"));
        assert_eq!(
            header(&response, "server-timing"),
            Some("detected;dur=0.4, scaled;dur=812.1, ready;dur=8399.5, released;dur=121.0, wake;dur=9333.0")
        );
        let response = render(Answer::Refuse(Refusal::NotFound), Some(ms(250)));
        assert_eq!(header(&response, "server-timing"), Some("wake;dur=250.0"));
    }

    #[rstest]
    #[case::never_ready(
        Some(10),
        None,
        50,
        "detected;dur=5.0, scaled;dur=5.0, released;dur=40.0, wake;dur=50.0"
    )]
    #[case::never_scaled(None, None, 50, "detected;dur=5.0, released;dur=45.0, wake;dur=50.0")]
    #[case::before_it_arrived(
        Some(0),
        Some(0),
        50,
        "detected;dur=5.0, scaled;dur=0.0, ready;dur=0.0, released;dur=45.0, wake;dur=50.0"
    )]
    fn stages_add_up(
        #[case] scaled: Option<u64>,
        #[case] ready: Option<u64>,
        #[case] released: u64,
        #[case] expected: &str,
    ) {
        let stages = Stages {
            detected: ms(5),
            scaled: scaled.map(ms),
            ready: ready.map(ms),
            released: ms(released),
        };
        assert_eq!(server_timing(&stages), expected);
    }

    #[test]
    fn a_refusal_says_what_is_wrong_and_when_to_retry() {
        let response = render(Answer::Refuse(Refusal::NotAllowed(ms(7_001))), None);
        assert_eq!(response.status(), 503);
        assert_eq!(header(&response, "x-firebolt-wake"), Some("refused"));
        assert_eq!(header(&response, "retry-after"), Some("8"));
        assert_eq!(header(&response, "content-type"), Some("application/json"));
        let body: serde_json::Value = serde_json::from_str(response.body()).unwrap();
        assert_eq!(body["error"]["code"], "engine_wake_refused");
        assert!(response.body().ends_with("}\n"));
        let response = render(Answer::Refuse(Refusal::NotFound), None);
        assert_eq!(response.status(), 404);
        assert_eq!(header(&response, "retry-after"), None);
    }
}
