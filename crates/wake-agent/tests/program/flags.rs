//! Help, versions, exit codes and messages.

use std::net::TcpListener;

use rstest::rstest;

use crate::agent::{GATEWAY, run, text};

#[test]
fn help_text() {
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
#[case::invalid(&["--hold-memory=128Mi"], "'--hold-memory <BYTES>': \"128Mi\" is not a number of bytes: use digits only")]
#[case::not_loopback(&["--listen=0.0.0.0:9902"], "'--listen <ADDRESS>': \"0.0.0.0:9902\" can be reached from outside")]
fn an_invalid_flag_exits_with_code_2_and_its_name(#[case] flags: &[&str], #[case] expected: &str) {
    let rest = if flags.is_empty() { &[] } else { &GATEWAY[..] };
    let output = run(&[rest, flags].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
}

#[test]
fn an_address_that_is_in_use_exits_with_code_1_and_the_remedy() {
    let in_use = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", in_use.local_addr().unwrap());
    let output = run(&[&GATEWAY[..], &[&listen]].concat());
    assert_eq!(output.status.code(), Some(1));
    let log = text(&output.stderr);
    assert!(log.contains("cannot listen on 127.0.0.1:"), "{log}");
    assert!(log.contains("Choose a free port"), "{log}");
}
