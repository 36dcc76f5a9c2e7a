//! The API server accepts the StatefulSet of every engine that the webhook admits, and the webhook denies an engine only
//! for a field that the engine or its class sets.

mod generate;
#[path = "../../../../core/src/admit/tests/path.rs"]
mod path;
#[path = "../../../../core/src/admit/tests/schema.rs"]
#[allow(dead_code, reason = "each crate uses its own part")]
mod schema;
mod testenv;

use std::ops::AddAssign;

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use firebolt_core::admit::{self, ClassLookup, EngineContext};
use firebolt_core::render::engine::stateful_set;
use firebolt_core::resolve::engine::{InstanceFacts, resolve};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use kube::api::PostParams;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::admitted_objects::generate::{Pair, pairs};
use crate::admitted_objects::path::leads_somewhere;
use crate::admitted_objects::testenv::{AdmissionAnswer, Cause, DryRuns, WebhookEnv};
use crate::support::unique;

/// How many pairs are tried, unless the variable of this name says otherwise.
const PAIRS: (&str, u64) = ("ADMITTED_PAIRS", 2000);
/// The variable with which a run is repeated.
const SEED: &str = "ADMITTED_SEED";
/// Pairs at a time.
const AT_ONCE: usize = 12;
/// How often the webhook is asked again: on a busy machine a dry run may time out.
const ASKED_AGAIN: usize = 5;
/// How many smaller pairs are tried when one shows a mistake.
const SMALLER: usize = 300;

/// What became of objects.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// The schema of the definition let them through.
    asked: usize,
    refused_by_rules: usize,
    rejected_by_dry_run: usize,
    accepted: usize,
    /// Accepted engines that have a class.
    with_class: usize,
    /// Refused without a field below `spec`.
    not_located: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.asked += other.asked;
        self.refused_by_rules += other.refused_by_rules;
        self.rejected_by_dry_run += other.rejected_by_dry_run;
        self.accepted += other.accepted;
        self.with_class += other.with_class;
        self.not_located += other.not_located;
    }
}

/// What became of the classes, and of the engines.
type Tallies = [Tally; 2];

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_objects_can_be_created_and_rejections_name_existing_fields() {
    let env = WebhookEnv::start(DryRuns::Work).await;
    let seed = number(SEED).unwrap_or_else(|| fastrand::u64(..));
    let count = number(PAIRS.0).unwrap_or(PAIRS.1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let strategy = pairs();
    let mut trees: Vec<_> = (0..count).map(|_| strategy.new_tree(&mut runner).unwrap()).collect();
    let tried = trees.iter().map(ValueTree::current).enumerate();
    let env = &env;
    let mut tried = futures::stream::iter(tried)
        .map(|(index, pair)| async move { (index, check(env, &pair).await) })
        .buffer_unordered(AT_ONCE);
    let (mut tallies, mut mistaken) = (Tallies::default(), None);
    while let Some((index, result)) = tried.next().await {
        match result {
            Ok([classes, engines]) => {
                tallies[0] += classes;
                tallies[1] += engines;
            }
            Err(why) => {
                mistaken = Some((index, why));
                break;
            }
        }
    }
    drop(tried);
    if let Some((index, why)) = mistaken {
        let (pair, why) = Box::pin(smallest(env, &mut trees[index], why)).await;
        panic!(
            "{why}\nclass: {}\nengine: {}\nagain: {SEED}={seed}",
            pair.class, pair.engine
        );
    }
    let [classes, engines] = tallies;
    println!("{SEED}={seed}\nclasses of {count}: {classes:?}\nengines of {count}: {engines:?}");
    let count = usize::try_from(count).unwrap();
    for tally in tallies {
        assert!(
            tally.accepted >= count / 4,
            "too few are accepted to show anything: {tally:?}"
        );
        assert!(tally.refused_by_rules >= count / 20, "too few break a rule: {tally:?}");
        assert!(
            tally.rejected_by_dry_run >= count / 20,
            "too few break a rule of Kubernetes: {tally:?}"
        );
    }
    assert!(
        engines.with_class >= count / 10,
        "too few engines have a class: {engines:?}"
    );
}

/// The smallest pair that can be found that shows a mistake too.
async fn smallest<T: ValueTree<Value = Pair>>(env: &WebhookEnv, tree: &mut T, why: String) -> (Pair, String) {
    let mut smallest = (tree.current(), why);
    let mut goes_on = tree.simplify();
    for _ in 0..SMALLER {
        if !goes_on {
            break;
        }
        let pair = tree.current();
        goes_on = match check(env, &pair).await {
            Err(why) => {
                smallest = (pair, why);
                tree.simplify()
            }
            Ok(_) => tree.complicate(),
        };
    }
    smallest
}

/// Puts both objects to the webhook, the engine together with the class if there can be one. Fails with what is wrong
/// about an answer.
async fn check(env: &WebhookEnv, pair: &Pair) -> Result<Tallies, String> {
    let (mut classes, mut engines) = (Tally::default(), Tally::default());
    let name = unique("pair");
    let class = check_class(env, &name, &pair.class, &mut classes).await?;
    check_engine(env, &name, pair, class.as_ref(), &mut engines).await?;
    Ok([classes, engines])
}

/// The class, if it may be there.
async fn check_class(
    env: &WebhookEnv,
    name: &str,
    specification: &Value,
    tally: &mut Tally,
) -> Result<Option<FireboltEngineClass>, String> {
    let Some(stored) = env.store("FireboltEngineClass", name, specification, true).await else {
        return Ok(None);
    };
    tally.asked += 1;
    let class: FireboltEngineClass = parse(&stored);
    let by_rules = admit::engine_class(&class);
    // Rendered as for an engine that has nothing of its own, whose name is as long as any.
    let engine = json!({ "instanceRef": testenv::INSTANCE, "engineClassRef": name, "replicas": 1 });
    let engine = parse(
        &json!({ "apiVersion": "v", "kind": "FireboltEngine", "metadata": { "name": name, "namespace": env.namespace }, "spec": engine }),
    );
    let accepts = checked_answer(env, &stored, &by_rules, tally, (&engine, Some(&class)), None).await?;
    Ok(accepts.then_some(class))
}

async fn check_engine(
    env: &WebhookEnv,
    name: &str,
    pair: &Pair,
    class: Option<&FireboltEngineClass>,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut specification = pair.engine.clone();
    if class.is_some() {
        specification["engineClassRef"] = json!(name);
    }
    let Some(stored) = env.store("FireboltEngine", name, &specification, false).await else {
        return Ok(());
    };
    tally.asked += 1;
    let engine: FireboltEngine = parse(&stored);
    let around = EngineContext {
        class: class.map_or(ClassLookup::NotNamed, ClassLookup::Found),
        instance: Some(&env.instance),
        bounds: &env.settings.bounds,
    };
    let by_rules = admit::engine(&engine, &around);
    let accepts = checked_answer(env, &stored, &by_rules, tally, (&engine, class), class).await?;
    tally.with_class += usize::from(accepts && class.is_some());
    Ok(())
}

fn parse<K: DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("cannot read {object}: {error}"))
}

/// Whether the webhook accepts what would be stored. Either way its answer is looked into.
async fn checked_answer(
    env: &WebhookEnv,
    stored: &Value,
    by_rules: &[admit::Violation],
    tally: &mut Tally,
    rendered: (&FireboltEngine, Option<&FireboltEngineClass>),
    class: Option<&FireboltEngineClass>,
) -> Result<bool, String> {
    let kind = stored["kind"].as_str().unwrap();
    let mut answer = env.ask(kind, stored).await;
    if answer == AdmissionAnswer::Accepted
        && let Err(error) = create(env, rendered.0, rendered.1).await
        // Engines can add the volumes that a class mounts.
        && !(kind == "FireboltEngineClass" && only_lacks_something(&error))
    {
        for _ in 0..ASKED_AGAIN {
            answer = env.ask(kind, stored).await;
            if answer != AdmissionAnswer::Accepted {
                break;
            }
        }
        if answer == AdmissionAnswer::Accepted {
            return Err(format!("{kind} is accepted, but its pods are not: {error}"));
        }
    }
    match answer {
        AdmissionAnswer::Accepted if by_rules.is_empty() => tally.accepted += 1,
        AdmissionAnswer::Accepted => return Err(format!("{kind} is accepted against the rules: {by_rules:?}")),
        AdmissionAnswer::Refused(causes) => {
            let class = class.map(|class| serde_json::to_value(class).unwrap());
            tally.not_located += check_refusal(stored, class.as_ref(), &causes)?;
            if by_rules.is_empty() {
                tally.rejected_by_dry_run += 1;
            } else {
                tally.refused_by_rules += 1;
            }
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lets the API server try the StatefulSet that the controller creates.
async fn create(
    env: &WebhookEnv,
    engine: &FireboltEngine,
    class: Option<&FireboltEngineClass>,
) -> Result<(), kube::Error> {
    let facts = InstanceFacts {
        id: env.instance.spec.id.clone().unwrap_or_default(),
        metadata_endpoint: format!("{}-metadata.{}.svc:7000", testenv::INSTANCE, env.namespace),
    };
    let mut effective = resolve(engine, class, &facts, &env.settings.defaults);
    // The API server gives one to what it stores, but the class was tried without an engine.
    "8f3a54c1-6a0e-4d5e-9a3c-0d5b3f0c7e11".clone_into(&mut effective.uid);
    let rendered = stateful_set(&effective, 1);
    let api: Api<StatefulSet> = Api::namespaced(env.client.clone(), &env.namespace);
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    api.create(&parameters, &rendered).await.map(drop)
}

/// Whether the pods refer to something that they do not have, and nothing else is wrong with them.
fn only_lacks_something(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    !causes.is_empty() && causes.iter().all(|cause| cause.reason == "FieldValueNotFound")
}

/// Fails if a refusal names something that is not there. Counts the reasons that name no more than the whole.
fn check_refusal(object: &Value, class: Option<&Value>, causes: &[Cause]) -> Result<usize, String> {
    if causes.is_empty() {
        return Err("refused without a reason".to_owned());
    }
    let mut not_located = 0;
    for Cause { field, message } in causes {
        let leads = |object: &Value, path: &str| leads_somewhere(object, &format!(".{path}"));
        // Limits apply to the resolved engine, whether engine or class sets the value.
        let comes_from = |class: &Value| message.contains("comes from the FireboltEngineClass") && leads(class, field);
        if !leads(object, field) && !class.is_some_and(comes_from) {
            return Err(format!("refused for what is not there, {field}: {message}\n{object}"));
        }
        not_located += usize::from(field == "spec");
        if field == "spec.engineClassRef" {
            let (Some(class), Some(path)) = (class, path_in_class(message)) else {
                return Err(format!("refused for a class without saying where: {message}"));
            };
            if !leads(class, path) {
                return Err(format!(
                    "refused for what is not in the class, {path}: {message}\n{class}"
                ));
            }
        }
    }
    Ok(not_located)
}

/// Where in the class a message sees the reason.
fn path_in_class(message: &str) -> Option<&str> {
    let start = message.find(" spec.")? + 1;
    message[start..].split(": ").next()
}

fn broken() -> Pair {
    let template = json!({ "spec": { "containers": [{ "name": "proxy" }] } });
    let engine = json!({ "instanceRef": testenv::INSTANCE, "replicas": 1, "template": template });
    Pair {
        class: json!({ "template": {} }),
        engine,
    }
}

#[tokio::test]
async fn without_dry_runs_the_check_fails() {
    let env = WebhookEnv::start(DryRuns::Fail).await;
    let why = check(&env, &broken()).await.unwrap_err();
    assert!(
        why.contains("FireboltEngine is accepted") && why.contains("image: Required value"),
        "{why}"
    );
}

#[tokio::test]
async fn with_dry_runs_the_same_engine_is_rejected() {
    let env = WebhookEnv::start(DryRuns::Work).await;
    let [classes, engines] = check(&env, &broken()).await.unwrap();
    assert_eq!((classes.accepted, engines.rejected_by_dry_run), (1, 1));
}

#[test]
fn a_rejection_of_a_missing_field_is_detected() {
    let object = json!({ "spec": { "engineClassRef": "c", "template": { "spec": { "volumes": [] } } } });
    let class = json!({ "spec": { "template": { "spec": { "hostname": "h" } } } });
    let refused = |field: &str, message: &str| {
        let (field, message) = (field.to_owned(), message.to_owned());
        check_refusal(&object, Some(&class), &[Cause { field, message }])
    };
    refused("spec.template.spec.volumes", "").unwrap();
    refused("spec.template.spec.containers", "").unwrap_err();
    refused("spec.template.spec.hostname", "").unwrap_err();
    refused(
        "spec.template.spec.hostname",
        "It comes from the FireboltEngineClass c.",
    )
    .unwrap();
    refused(
        "spec.template.spec.subdomain",
        "It comes from the FireboltEngineClass c.",
    )
    .unwrap_err();
    refused(
        "spec.engineClassRef",
        "In FireboltEngineClass c, spec.template.spec.hostname: no",
    )
    .unwrap();
    refused(
        "spec.engineClassRef",
        "In FireboltEngineClass c, spec.template.spec.subdomain: no",
    )
    .unwrap_err();
    refused("spec.engineClassRef", "no").unwrap_err();
    check_refusal(&object, Some(&class), &[]).unwrap_err();
}
