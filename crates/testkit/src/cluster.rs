//! What tests need in a cluster: the CRDs, and namespaces of their own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};

use crate::wait::{SOON, eventually_async};

/// The label that makes a namespace reject pods that do not pass the Pod Security Standard `restricted`.
pub const RESTRICTED: (&str, &str) = ("pod-security.kubernetes.io/enforce", "restricted");

/// Installs the CRDs, and waits until the API server serves them.
#[expect(clippy::disallowed_methods, reason = "tests write to the cluster")]
pub async fn install_crds(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in firebolt_api::crds() {
        let apply = PatchParams::apply("tests").force();
        let applied = crds.patch(&crd.name_any(), &apply, &Patch::Apply(&crd)).await;
        applied.expect("apply a CRD");
    }
    wait_for_crds(client).await;
}

/// Waits until the API server serves all three kinds.
pub async fn wait_for_crds(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in firebolt_api::crds() {
        let name = crd.name_any();
        let established = async || {
            let found = crds.get_opt(&name).await.expect("get a CRD")?;
            let conditions = found.status?.conditions?;
            let is_established = conditions
                .iter()
                .any(|condition| condition.type_ == "Established" && condition.status == "True");
            is_established.then_some(())
        };
        eventually_async(format!("{name} is established"), SOON, established).await;
    }
    wait_for_discovery(client).await;
}

/// Waits until clients find the kinds, and their descriptions. The API server publishes both some time after it serves the
/// kinds.
async fn wait_for_discovery(client: &Client) {
    let crds = firebolt_api::crds();
    let discovered = async || {
        let groups = client.list_api_groups_aggregated().await.ok()?.items.into_iter();
        let resources = groups
            .flat_map(|group| group.versions)
            .flat_map(|version| version.resources);
        let found: Vec<String> = resources.filter_map(|resource| resource.resource).collect();
        let all = crds.iter().all(|crd| found.contains(&crd.spec.names.plural));
        all.then_some(())
    };
    eventually_async("the API server lists the kinds", SOON, discovered).await;
    let described = async || {
        let request = http::Request::get("/openapi/v3/apis/compute.firebolt.io/v1alpha1");
        let text = client.request_text(request.body(Vec::new()).ok()?).await.ok()?;
        let all = crds
            .iter()
            .all(|crd| text.contains(&format!("\"kind\":\"{}\"", crd.spec.names.kind)));
        all.then_some(())
    };
    eventually_async("the API server describes the kinds", SOON, described).await;
}

/// Creates a namespace for a test. The API server generates the name, because a long-lived cluster has many test runs.
pub async fn namespace(client: &Client, prefix: &str) -> String {
    namespace_with(client, prefix, &[]).await
}

/// Creates a namespace with labels for a test.
#[expect(clippy::disallowed_methods, reason = "tests write to the cluster")]
pub async fn namespace_with(client: &Client, prefix: &str, labels: &[(&str, &str)]) -> String {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let namespace = Namespace {
        metadata: ObjectMeta {
            generate_name: Some(format!("{prefix}-")),
            labels: Some(labels.collect::<BTreeMap<_, _>>()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let created = Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await;
    created.expect("create a namespace").name_any()
}
