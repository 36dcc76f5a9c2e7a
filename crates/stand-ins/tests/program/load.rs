//! The load as a program.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;
use stand_ins::loopback::free_address;

use crate::process::{Launch, kill, program};

#[test]
fn the_load_reports_progress_and_a_final_result() {
    let ledger = free_address().expect("an address").to_string();
    let mut engine = Launch::with("STAND_IN_LEDGER", &format!("http://{ledger}")).start();
    engine.until("takes queries");
    let gateway = format!("http://{}", engine.queries());
    let mut load = program()
        .args(["load", "--gateway", &gateway, "--engine", "analytics"])
        .args(["--clients", "2", "--rate", "200", "--ledger", &ledger])
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let lines = BufReader::new(load.stdout.take().expect("a pipe")).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.expect("text")).expect("JSON"));
    let going = lines
        .find(|line| line["answered"].as_u64() >= Some(10))
        .expect("answers");
    assert_eq!(going["failed"], 0);
    assert!(going["sent"].is_u64() && going["in_flight"].is_u64());
    kill(&load, Signal::TERM);
    let last = lines.last().expect("a last line");
    assert!(load.wait().expect("wait").success(), "{last}");
    assert_eq!(
        (&last["sent"], &last["in_flight"]),
        (&last["answered"], &Value::from(0))
    );
    let report = &last["report"];
    assert_eq!(
        (&report["ran_twice"], &report["lost"]),
        (&Value::from(0), &Value::from(0))
    );
    assert!(report["p50_ms"].as_f64() <= report["max_ms"].as_f64());
}
