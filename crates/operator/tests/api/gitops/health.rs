//! What GitOps tools make of an object, according to their own libraries and with the text of the handbook.

use std::io::Write as _;
use std::process::{Command, Stdio};

use localkube::tools::{Binary, Tools};
use serde_json::{Value, json};

use crate::testenv::{Namespaced, TestEnv};

const HANDBOOK: &str = include_str!("../../../../../docs/operations/gitops.md");

/// The health of an object: of kstatus (Flux and Helm), of Flux with our expressions, and of Argo CD with our script.
pub(crate) type Health = [&'static str; 3];

pub(crate) const HEALTHY: Health = ["Current", "Current", "Healthy"];
pub(crate) const IN_PROGRESS: Health = ["InProgress", "InProgress", "Progressing"];
pub(crate) const FAILED: Health = ["Failed", "Failed", "Degraded"];

/// The code block of the handbook in this language that contains the text.
fn block(language: &str, text: &str) -> &'static str {
    let mut blocks = HANDBOOK.split("\n```").skip(1).step_by(2);
    let found = blocks.find_map(|block| block.strip_prefix(language).filter(|block| block.contains(text)));
    found.unwrap_or_else(|| panic!("the handbook has a block in {language} with {text}"))
}

fn ask(arguments: &[&str], object: &Value) -> String {
    let program = Tools::from_env().and_then(|tools| tools.binary(Binary::GitopsHealth));
    let mut child = Command::new(program.unwrap())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .expect("it is piped")
        .write_all(object.to_string().as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(crate) fn health<K: Namespaced>(object: &K) -> [String; 3] {
    let mut object = serde_json::to_value(object).unwrap();
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    [
        ask(&["kstatus"], &object),
        ask(&["flux", block("yaml", "healthCheckExprs")], &object),
        ask(&["argocd", block("lua", "obj.status")], &object),
    ]
}

impl TestEnv {
    /// Waits as the tools do, until they find the object in this state.
    pub(crate) async fn wait_for_health<K: Namespaced>(&self, name: &str, expected: Health) -> K {
        let what = format!("{} {name} is {expected:?}", K::kind(&()));
        let found = async || {
            let object = self.the::<K>(name).await;
            (health(&object) == expected).then_some(object)
        };
        self.eventually(&what, found).await
    }

    /// Waits with `kubectl wait`.
    pub(crate) fn kubectl_wait(&self, object: &str, condition: &str) {
        let arguments = ["wait", object, &format!("--for={condition}"), "--timeout=60s"];
        tokio::task::block_in_place(|| self.kubectl(&arguments)).unwrap();
    }

    /// Asserts that `kubectl wait` would go on waiting.
    pub(crate) fn kubectl_would_wait(&self, object: &str, condition: &str) {
        let arguments = ["wait", object, &format!("--for={condition}"), "--timeout=0s"];
        let error = tokio::task::block_in_place(|| self.kubectl(&arguments)).unwrap_err();
        assert!(error.to_string().contains("condition not met"), "{error}");
    }
}
