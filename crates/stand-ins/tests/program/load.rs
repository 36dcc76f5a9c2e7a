//! The load as a program.

use rustix::process::Signal;
use serde_json::Value;
use stand_ins::loopback::free_address;
use testkit::program::Program;
use testkit::wait::{SOON, eventually};

use crate::process::{Launch, program};

#[test]
fn the_load_reports_progress_and_a_final_result() {
    let ledger = free_address().expect("an address").to_string();
    let engine = Launch::with("STAND_IN_LEDGER", &format!("http://{ledger}")).start();
    engine.until("takes queries");
    let gateway = format!("http://{}", engine.queries());
    let mut command = program();
    command
        .args(["load", "--gateway", &gateway, "--engine", "analytics"])
        .args(["--clients", "2", "--rate", "200", "--ledger", &ledger]);
    let mut load = Program::start("load", &mut command);
    let reports = |load: &Program| -> Vec<Value> {
        let output = load.output();
        // The last line may be incomplete.
        let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    let mut going = Value::Null;
    eventually("queries are answered", SOON, || {
        let mut reports = reports(&load).into_iter();
        let found = reports.find(|line| line["answered"].as_u64() >= Some(10));
        going = found.unwrap_or_default();
        !going.is_null()
    });
    assert_eq!(going["failed"], 0);
    assert!(going["sent"].is_u64() && going["in_flight"].is_u64());
    load.signal(Signal::TERM);
    let ended = load.wait();
    let last = reports(&load).pop().expect("a last line");
    assert!(ended.success(), "{last}");
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
