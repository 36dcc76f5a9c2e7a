//! An engine as the program of a pod.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use rstest::rstest;
use rustix::process::Signal;
use stand_ins::engine::{HEALTH_PORT, METRICS_SWITCH_PATH};

use testkit::wait::{SOON, eventually};

use crate::process::{CONFIGURATION, Launch, ask};

const READY: &str = "takes queries";
const STATEMENT: &str = "INSERT INTO t VALUES ('one')";

#[test]
fn an_engine_serves_all_of_its_ports() {
    let mut engine = Launch::new(CONFIGURATION).start();
    engine.until(READY);
    let health = SocketAddr::new(engine.queries().ip(), HEALTH_PORT);
    let status = |address, target| ask(address, "GET", target, "").expect("an answer").0;
    assert_eq!(status(health, "/health/live"), 200);
    assert_eq!(status(health, "/health/ready"), 200);
    assert_eq!(status(engine.queries(), "/health/ready"), 200);
    assert_eq!(status(engine.metrics(), "/metrics"), 200);
    let (_, table) = ask(engine.queries(), "POST", "/", "SELECT 42").expect("an answer");
    assert!(table.contains("\"data\":[[42]]"), "{table}");
    ask(engine.metrics(), "POST", METRICS_SWITCH_PATH, "broken").expect("an answer");
    assert_eq!(status(engine.metrics(), "/metrics"), 500);
    engine.signal(Signal::TERM);
    assert!(engine.wait().success());
}

#[rstest]
#[case(
    "schema_version: \"1.0\"",
    "schema_version: \"9\"",
    "schema_version is \"9\", which is not 1.0"
)]
#[case(
    "analytics-g0-0.",
    "analytics-g0-1.",
    "which is not a host in this pod, analytics-g0-0"
)]
fn a_bad_configuration_ends_the_engine_with_one_clear_line(
    #[case] good: &str,
    #[case] bad: &str,
    #[case] reason: &str,
) {
    let (status, line) = Launch::new(&CONFIGURATION.replace(good, bad)).end();
    assert_eq!(status.code(), Some(1));
    assert!(line.starts_with("error: ") && line.contains(reason), "{line}");
}

#[test]
fn a_folder_that_cannot_be_written_to_ends_the_engine() {
    let mut launch = Launch::new(CONFIGURATION);
    // Permissions do not stop the superuser, who may run this test; a folder in the place of the file does.
    std::fs::create_dir(launch.folder.path().join(".analytics-g0-0-can-write")).expect("a folder");
    let (status, line) = launch.end();
    assert_eq!(status.code(), Some(1));
    assert!(line.starts_with("error: write to the data folder "), "{line}");
}

#[test]
fn an_engine_ends_with_the_code_that_is_asked_for() {
    let (status, _) = Launch::with("STAND_IN_EXIT_CODE", "42").end();
    assert_eq!(status.code(), Some(42));
}

#[test]
fn an_engine_that_starts_slowly_is_not_reached_and_can_be_ended() {
    let mut engine = Launch::with("STAND_IN_START_DELAY", "1h").start();
    engine.until("starting in 1h");
    assert!(TcpStream::connect(engine.queries()).is_err());
    engine.signal(Signal::TERM);
    assert!(engine.wait().success());
}

#[test]
fn an_engine_starts_after_its_delay() {
    let engine = Launch::with("STAND_IN_START_DELAY", "10ms").start();
    engine.until(READY);
    assert!(TcpStream::connect(engine.queries()).is_ok());
}

/// A ledger that holds a report, and so the execution of a query, until it is let go.
struct Held(TcpStream);

impl Held {
    fn accept(ledger: &TcpListener) -> Self {
        let (socket, _) = ledger.accept().expect("a report");
        let mut report = BufReader::new(socket.try_clone().expect("a second handle")).lines();
        assert_eq!(
            report.next().expect("a line").expect("text"),
            "POST /executions HTTP/1.1"
        );
        Self(socket)
    }

    fn let_go(mut self) {
        self.0.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("answer");
    }
}

/// An engine whose reports go to a ledger.
fn reporting() -> (TcpListener, Launch) {
    let ledger = TcpListener::bind(("127.0.0.1", 0)).expect("listen");
    let url = format!("http://{}", ledger.local_addr().expect("an address"));
    (ledger, Launch::with("STAND_IN_LEDGER", &url))
}

#[test]
fn sigterm_lets_the_running_query_finish() {
    let (ledger, launch) = reporting();
    let mut engine = launch.start();
    engine.until(READY);
    let address = engine.queries();
    let query = thread::spawn(move || ask(address, "POST", "/", STATEMENT));
    let held = Held::accept(&ledger);
    engine.signal(Signal::TERM);
    let status = || ask(address, "GET", "/health/ready", "").expect("an answer").0;
    eventually("the engine is not ready", SOON, || status() == 503);
    assert_eq!(ask(address, "POST", "/", STATEMENT).expect("an answer").0, 503);
    held.let_go();
    assert_eq!(query.join().expect("no panic").expect("an answer").0, 200);
    assert!(engine.wait().success());
}

#[test]
fn an_engine_can_end_at_once_on_sigterm() {
    let (ledger, mut launch) = reporting();
    launch.command.env("STAND_IN_ON_SIGTERM", "exit");
    let mut engine = launch.start();
    engine.until(READY);
    let address = engine.queries();
    let query = thread::spawn(move || ask(address, "POST", "/", STATEMENT));
    let _held = Held::accept(&ledger);
    engine.signal(Signal::TERM);
    assert!(engine.wait().success());
    assert_eq!(query.join().expect("no panic"), None, "the query is cut off");
}

#[test]
fn an_engine_can_ignore_sigterm() {
    let engine = Launch::with("STAND_IN_ON_SIGTERM", "ignore").start();
    engine.until(READY);
    engine.signal(Signal::TERM);
    engine.until("SIGTERM is ignored");
    let status = |method, target, body| ask(engine.queries(), method, target, body).expect("an answer").0;
    assert_eq!(status("GET", "/health/ready", ""), 200);
    assert_eq!(status("POST", "/", STATEMENT), 200);
}
