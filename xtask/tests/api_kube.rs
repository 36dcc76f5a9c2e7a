//! `cargo xtask kube` from end to end, without nodes.

mod support;

use std::process::Stdio;

use localkube::processes_of;

use support::{Place, text};
use testkit::wait::{SOON, eventually};

/// How long the start took, from the first line that `up` prints.
fn seconds_to_ready(printed: &str) -> f64 {
    let number = printed
        .strip_prefix("ready in ")
        .and_then(|rest| rest.split(' ').next());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no time to ready in: {printed}"))
}

#[test]
fn up_is_idempotent_and_down_leaves_nothing() {
    let place = Place::new();
    let before = place.run("status");
    assert!(
        !before.status.success() && text(&before).contains("not running"),
        "{}",
        text(&before)
    );

    let up = place.run("up");
    assert!(up.status.success(), "{}", text(&up));
    let kubeconfig = place.dir().join("kubeconfig");
    let seconds = seconds_to_ready(&text(&up));
    println!("ready in {seconds} s");
    // A warm start takes less than 10 s on a machine that is idle; this one may be busy with other tests.
    assert!(seconds < 30.0, "a control plane took {seconds} s");
    assert!(
        text(&up).contains(&format!("export KUBECONFIG={}\n", kubeconfig.display())),
        "{}",
        text(&up)
    );
    assert!(kubeconfig.exists());
    let processes = processes_of(&place.dir());
    assert_eq!(processes.len(), 4);

    let again = place.run("up");
    assert!(
        again.status.success() && text(&again).starts_with("already running"),
        "{}",
        text(&again)
    );
    assert_eq!(processes_of(&place.dir()), processes, "the same processes go on");

    let status = place.run("status");
    assert!(status.status.success(), "{}", text(&status));
    for word in [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "v1.",
        "kubeconfig",
    ] {
        assert!(text(&status).contains(word), "{word} in {}", text(&status));
    }

    place.clear();
}

#[test]
fn down_after_a_killed_up_leaves_nothing() {
    let place = Place::new();
    for processes in 1..=4 {
        let mut up = place.kube("up").stdout(Stdio::null()).spawn().expect("start xtask");
        eventually(format!("{processes} processes start"), SOON, || {
            processes_of(&place.dir()).len() >= processes
        });
        up.kill().expect("kill it midway");
        up.wait().expect("reap it");
        assert!(!processes_of(&place.dir()).is_empty(), "there is something to clear");
        place.clear();
    }
}

#[test]
fn up_clears_what_a_killed_up_left() {
    let place = Place::new();
    let mut first = place.kube("up").stdout(Stdio::null()).spawn().expect("start xtask");
    eventually("a process starts", SOON, || !processes_of(&place.dir()).is_empty());
    first.kill().expect("kill it midway");
    first.wait().expect("reap it");
    let up = place.run("up");
    assert!(
        up.status.success() && text(&up).starts_with("ready in "),
        "{}",
        text(&up)
    );
    assert_eq!(processes_of(&place.dir()).len(), 4);
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let place = Place::new();
    let file = place.dir().join("thesis.txt");
    std::fs::create_dir(place.dir()).expect("create the folder");
    std::fs::write(&file, "years of work").expect("write the file");
    for verb in ["up", "down"] {
        let output = place.run(verb);
        assert!(!output.status.success() && text(&output).contains("holds files of something else"));
    }
    assert!(file.exists());
}
