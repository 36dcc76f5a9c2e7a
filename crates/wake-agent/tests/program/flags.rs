//! Help, versions, exit codes and messages.

use std::net::TcpListener;

use rstest::rstest;

use crate::agent::{GATEWAY, run, text};

#[test]
fn help_tells_how_to_use_it() {
    let output = run(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(text(&output.stdout));
}

#[test]
fn version_is_one_line() {
    assert_eq!(
        text(&run(&["--version"]).stdout),
        format!("firebolt-wake-agent {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[rstest]
#[case::missing(&[], "--namespace <NAME>")]
#[case::unknown(&["--kubeconfig=x"], "--kubeconfig")]
#[case::of_another_kind(&["--hold-memory=128Mi"], "'--hold-memory <BYTES>': \"128Mi\" is not a number of bytes: write digits")]
#[case::open_to_others(&["--listen=0.0.0.0:9902"], "'--listen <ADDRESS>': \"0.0.0.0:9902\" can be reached from outside")]
fn a_bad_flag_ends_with_code_2_and_its_name(#[case] flags: &[&str], #[case] expected: &str) {
    let rest = if flags.is_empty() { &[] } else { &GATEWAY[..] };
    let output = run(&[rest, flags].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
}

#[test]
fn an_address_that_is_taken_ends_with_code_1_and_the_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    let output = run(&[&GATEWAY[..], &[&listen]].concat());
    assert_eq!(output.status.code(), Some(1));
    let log = text(&output.stderr);
    assert!(log.contains("cannot listen on 127.0.0.1:"), "{log}");
    assert!(log.contains("Choose a free port"), "{log}");
}
