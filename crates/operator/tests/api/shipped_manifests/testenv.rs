//! A namespace with two instances, their engines and the accounts of their gateways, in which the shipped policy is in
//! force.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use firebolt_api::FireboltInstance;
use firebolt_core::render::instance::{gateway_role, gateway_role_binding, gateway_service_account};
use firebolt_core::resolve::instance::resolve;
use localkube::Cluster;
use serde_json::{Value, json};
use testkit::wait::{SOON, eventually};

use crate::shipped_manifests::files::{POLICY, documents};
use crate::support::{namespace, prepare};

/// The instance of the engines [`FULL`] and [`BARE`].
pub(super) const MAIN: &str = "main";
/// An instance that is called like the account of the gateway of [`MAIN`].
pub(super) const NAMESAKE: &str = "main-gateway";
/// An engine with some of everything that metadata can hold.
pub(super) const FULL: &str = "full";
/// An engine with nothing of the kind.
pub(super) const BARE: &str = "bare";
/// The engine of [`NAMESAKE`].
pub(super) const FOREIGN: &str = "foreign";
/// The account of the gateway of [`MAIN`].
pub(super) const ACCOUNT: &str = "main-gateway";

/// All that can be done with engines.
const GENEROUS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: generous }
rules:
  - apiGroups: [compute.firebolt.io]
    resources: [fireboltengines, fireboltengines/status, fireboltengines/scale]
    verbs: ['*']
";

/// What a kubectl printed, or what it complained about.
pub(super) type KubectlResult = Result<String, String>;

pub(super) struct PolicyEnv {
    pub cluster: Cluster,
    /// The name of the namespace, and of the policy and the binding in force in it.
    pub namespace: String,
    /// The kubeconfig of the operator.
    pub operator: PathBuf,
    /// The kubeconfig of [`ACCOUNT`], with the rights that the operator gives it.
    pub gateway: PathBuf,
}

impl PolicyEnv {
    /// Sets everything up and waits until the policy is in force.
    pub(super) async fn start() -> Self {
        let cluster = Cluster::attach();
        let operator = prepare(&cluster).await;
        let mut env = Self {
            namespace: namespace(&cluster).await,
            gateway: PathBuf::new(),
            operator,
            cluster,
        };
        env.apply(&[instance(MAIN), instance(NAMESAKE)]);
        let full = json!({
            "labels": { "team": "sales" }, "annotations": { "note": "keep" }, "finalizers": ["example.com/hold"],
        });
        let mut objects = vec![
            engine(FULL, MAIN, full),
            engine(BARE, MAIN, json!({})),
            engine(FOREIGN, NAMESAKE, json!({})),
        ];
        objects.extend(env.gateway_account(MAIN));
        objects.extend(env.gateway_account(NAMESAKE));
        objects.extend(confined_policy(&env.namespace));
        env.apply(&objects);
        env.gateway = env.account(&env.namespace, ACCOUNT).await;
        env.wait_for_policy(true);
        env
    }

    /// The account of the gateway of a stored instance and its rights, as the operator makes them.
    fn gateway_account(&self, instance: &str) -> [Value; 3] {
        let stored: FireboltInstance = serde_json::from_value(self.get("fireboltinstance", instance)).unwrap();
        let instance = resolve(&stored, &testkit::defaults!(), false);
        [
            serde_json::to_value(gateway_service_account(&instance)),
            serde_json::to_value(gateway_role(&instance)),
            serde_json::to_value(gateway_role_binding(&instance)),
        ]
        .map(Result::unwrap)
    }

    /// The kubeconfig of a service account, with a token that the API server issued.
    pub(super) async fn account(&self, namespace: &str, name: &str) -> PathBuf {
        self.cluster.service_account_kubeconfig(namespace, name).await.unwrap()
    }

    /// Lets a user do everything with the engines here, named by flags of `kubectl create rolebinding`, and waits until
    /// the API server knows.
    pub(super) fn grant_everything(&self, whom: &[(&Path, &str)]) {
        self.as_admin(&["apply", "--server-side", "-f", "-"], GENEROUS).unwrap();
        let mut binding = vec!["create", "rolebinding", "generous", "--role=generous"];
        binding.extend(whom.iter().map(|(_, flag)| *flag));
        self.as_admin(&binding, "").unwrap();
        for (kubeconfig, _) in whom {
            self.wait_for_permission(kubeconfig, "delete");
        }
    }

    /// Waits until the API server knows that a user may do this with engines.
    pub(super) fn wait_for_permission(&self, kubeconfig: &Path, verb: &str) {
        let ask = ["auth", "can-i", verb, "fireboltengines"];
        eventually(format!("{} may {verb}", kubeconfig.display()), SOON, || {
            self.kubectl(kubeconfig, &ask, "").is_ok()
        });
    }

    /// Runs kubectl here as the bearer of a kubeconfig.
    pub(super) fn kubectl(&self, kubeconfig: &Path, arguments: &[&str], input: &str) -> KubectlResult {
        let mut command = self.cluster.kubectl_command(kubeconfig).unwrap();
        let mut child = command
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that has no use for it may end without reading.
        let _unread = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() {
            Ok(text(output.stdout))
        } else {
            Err(text(output.stderr))
        }
    }

    pub(super) fn as_admin(&self, arguments: &[&str], input: &str) -> KubectlResult {
        self.kubectl(&self.cluster.kubeconfig_admin(), arguments, input)
    }

    /// Changes an engine by a merge patch, as the bearer of a kubeconfig.
    pub(super) fn patch(&self, kubeconfig: &Path, engine: &str, patch: &Value) -> KubectlResult {
        let arguments = ["patch", "fireboltengine", engine, "--type=merge", "--patch"];
        self.kubectl(kubeconfig, &[arguments.as_slice(), &[&patch.to_string()]].concat(), "")
    }

    fn apply(&self, objects: &[Value]) {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        let apply = ["apply", "--server-side", "-f", "-"];
        self.as_admin(&apply, &list.to_string()).unwrap();
    }

    pub(super) fn get(&self, kind: &str, name: &str) -> Value {
        let stored = self.as_admin(&["get", kind, name, "--output=json"], "").unwrap();
        serde_json::from_str(&stored).unwrap()
    }

    pub(super) fn engine(&self, name: &str) -> Value {
        self.get("fireboltengine", name)
    }

    /// Waits until the policy is in force, or no longer is. Nothing is stored.
    pub(super) fn wait_for_policy(&self, in_force: bool) {
        let patch = r#"--patch={"spec":{"replicas":0}}"#;
        let ask = [
            "patch",
            "fireboltengine",
            BARE,
            "--type=merge",
            "--dry-run=server",
            patch,
        ];
        eventually(format!("the policy is in force: {in_force}"), SOON, || {
            match self.kubectl(&self.gateway, &ask, "") {
                Ok(_) => !in_force,
                Err(complaint) if complaint.contains("ValidatingAdmissionPolicy") => in_force,
                // The Role, too, takes a moment to be known.
                Err(_) => false,
            }
        });
    }
}

impl Drop for PolicyEnv {
    fn drop(&mut self) {
        let namespace = self.namespace.as_str();
        let release = r#"--patch={"metadata":{"finalizers":null}}"#;
        for arguments in [
            [
                "delete",
                "validatingadmissionpolicybinding",
                namespace,
                "--ignore-not-found",
            ],
            ["delete", "validatingadmissionpolicy", namespace, "--ignore-not-found"],
            ["patch", "fireboltengine/full", "--type=merge", release],
            ["delete", "namespace", namespace, "--wait=false"],
        ] {
            let _best_effort = self.as_admin(&arguments, "");
        }
    }
}

/// It is stored in earnest: what an instance owns that does not exist is collected as garbage.
fn instance(name: &str) -> Value {
    json!({
        "apiVersion": "compute.firebolt.io/v1alpha1", "kind": "FireboltInstance", "metadata": { "name": name },
        "spec": { "id": "01J00000000000000000000000", "metadata": {}, "gateway": {} },
    })
}

fn engine(name: &str, instance: &str, mut metadata: Value) -> Value {
    metadata["name"] = json!(name);
    json!({
        "apiVersion": "compute.firebolt.io/v1alpha1", "kind": "FireboltEngine", "metadata": metadata,
        "spec": { "instanceRef": instance, "replicas": 1 },
    })
}

/// The shipped policy and its binding under another name and for one namespace only, so that a test can take them away
/// while others rely on theirs.
fn confined_policy(namespace: &str) -> [Value; 2] {
    let [mut policy, mut binding] = documents(POLICY);
    policy["metadata"]["name"] = json!(namespace);
    binding["metadata"]["name"] = json!(namespace);
    binding["spec"]["policyName"] = json!(namespace);
    let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
    binding["spec"]["matchResources"] = json!({ "namespaceSelector": here });
    [policy, binding]
}
