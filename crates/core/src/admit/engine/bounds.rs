//! Resource bounds: maxima that the administrator sets for the engine container.

use std::str::FromStr;

use firebolt_api::quantity::{Amount, ParseError, Quantity};
use firebolt_api::{FireboltEngine, FireboltEngineClass};
use k8s_openapi::api::core::v1::{PodTemplateSpec, ResourceRequirements};

use crate::admit::template::ENGINE;
use crate::admit::template::containers;
use crate::admit::violation::{Violation, ViolationKind};
use crate::resolve::engine::has_resources;

/// Maxima for the requests and limits of the engine container. Other resources, and other containers, are not bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// For `cpu`.
    pub cpu: Maximum,
    /// For `memory`.
    pub memory: Maximum,
    /// For `ephemeral-storage`.
    pub ephemeral_storage: Maximum,
}

/// Maximum of one resource, parsed from a quantity. An empty text and zero mean no maximum, which is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maximum(Option<Limit>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    amount: Amount,
    /// The original text, for messages.
    text: String,
}

impl FromStr for Maximum {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let amount: Amount = text.parse()?;
        let text = text.to_owned();
        Ok(Self((amount > "0".parse()?).then_some(Limit { amount, text })))
    }
}

/// The resources of the engine container as they are rendered, and the class if they come from there.
struct Subject<'a> {
    resources: &'a ResourceRequirements,
    class: Option<&'a FireboltEngineClass>,
}

/// Violations if the engine requests more than the bounds, itself or through its class. The paths are those of the
/// engine, because the engine is rejected.
#[must_use]
pub fn bounds(engine: &FireboltEngine, class: Option<&FireboltEngineClass>, bounds: &Bounds) -> Vec<Violation> {
    let Some(subject) = subject(engine, class) else {
        return Vec::new();
    };
    let lists = [
        ("requests", &subject.resources.requests),
        ("limits", &subject.resources.limits),
    ];
    let mut violations = Vec::new();
    for (list, quantities) in lists {
        for (name, Maximum(limit)) in named(bounds) {
            let quantity = quantities.as_ref().and_then(|quantities| quantities.get(name));
            let (Some(quantity), Some(limit)) = (quantity, limit) else {
                continue;
            };
            if let Some(fault) = fault(name, quantity, limit) {
                let path = format!(
                    "{}.{}.resources.{list}.{name}",
                    ENGINE.path,
                    containers::path(ENGINE.container)
                );
                violations.push(Violation::new(path, ViolationKind::Invalid, fault + &subject.origin()));
            }
        }
    }
    violations
}

fn named(bounds: &Bounds) -> [(&'static str, &Maximum); 3] {
    let Bounds {
        cpu,
        memory,
        ephemeral_storage,
    } = bounds;
    [
        ("cpu", cpu),
        ("memory", memory),
        ("ephemeral-storage", ephemeral_storage),
    ]
}

/// Resources are taken as a whole from the first layer that sets any, as in the merge.
fn subject<'a>(engine: &'a FireboltEngine, class: Option<&'a FireboltEngineClass>) -> Option<Subject<'a>> {
    let own = engine.spec.template.as_ref().and_then(resources);
    if let Some(resources) = own {
        return Some(Subject { resources, class: None });
    }
    let resources = resources(&class?.spec.template)?;
    Some(Subject { resources, class })
}

fn resources(template: &PodTemplateSpec) -> Option<&ResourceRequirements> {
    let resources = containers::own(template, ENGINE.container)?.resources.as_ref();
    resources.filter(|resources| has_resources(resources))
}

fn fault(name: &str, quantity: &Quantity, limit: &Limit) -> Option<String> {
    match Amount::try_from(quantity) {
        Ok(amount) if amount <= limit.amount => None,
        Ok(_) => Some(format!(
            "{} is more than {}, the maximum {name} of the engine container in this cluster. Request less.",
            quantity.0, limit.text
        )),
        Err(error) => Some(format!("{error}.")),
    }
}

impl Subject<'_> {
    fn origin(&self) -> String {
        let Some(class) = self.class else {
            return String::new();
        };
        let class = class.metadata.name.as_deref().unwrap_or_default();
        format!(
            " The value comes from the FireboltEngineClass {class}: change it there, or set resources in the template \
             of this engine."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::fixture;
    use crate::resolve::Defaults;
    use crate::resolve::engine::{InstanceFacts, resolve};
    use rstest::rstest;
    use serde_json::{Value, json};

    fn maximum(text: &str) -> Maximum {
        text.parse().expect("a maximum")
    }

    fn all() -> Bounds {
        Bounds {
            cpu: maximum("4"),
            memory: maximum("8Gi"),
            ephemeral_storage: maximum("1Ti"),
        }
    }

    fn template(resources: &Value) -> Value {
        json!({ "spec": { "containers": [{ "name": "proxy" }, { "name": "engine", "resources": resources }] } })
    }

    fn engine(resources: &Value) -> FireboltEngine {
        fixture::engine(&template(resources))
    }

    fn class(resources: &Value) -> FireboltEngineClass {
        fixture::engine_class(&template(resources))
    }

    #[rstest]
    #[case::cpu("cpu", "4", "4001m")]
    #[case::memory("memory", "8192Mi", "8193Mi")]
    #[case::ephemeral_storage("ephemeral-storage", "1024Gi", "1.1Ti")]
    fn the_maximum_itself_is_allowed_and_more_is_not(
        #[case] name: &str,
        #[case] most: &str,
        #[case] more: &str,
        #[values("requests", "limits")] list: &str,
    ) {
        let resources = |quantity: &str| json!({ list: { name: quantity } });
        assert_eq!(bounds(&engine(&resources(most)), None, &all()), []);
        let violations = bounds(&engine(&resources(more)), None, &all());
        assert_eq!(violations.len(), 1);
        let path = format!("spec.template.spec.containers[engine].resources.{list}.{name}");
        assert_eq!(
            (violations[0].path.as_str(), violations[0].kind),
            (path.as_str(), ViolationKind::Invalid)
        );
        let maxima = [("cpu", "4"), ("memory", "8Gi"), ("ephemeral-storage", "1Ti")];
        let (_, written) = maxima.iter().find(|(other, _)| *other == name).expect("a maximum");
        let start = format!("{more} is more than {written}, the maximum {name}");
        assert!(violations[0].message.starts_with(&start), "{}", violations[0]);
    }

    #[test]
    fn everything_is_reported_requests_first() {
        let lots = json!({ "cpu": 99, "memory": "99Gi", "ephemeral-storage": "99Ti" });
        let violations = bounds(&engine(&json!({ "limits": lots, "requests": lots })), None, &all());
        let paths: Vec<&str> = violations
            .iter()
            .filter_map(|violation| violation.path.split_once(".resources."))
            .map(|(_, path)| path)
            .collect();
        assert_eq!(
            paths,
            [
                "requests.cpu",
                "requests.memory",
                "requests.ephemeral-storage",
                "limits.cpu",
                "limits.memory",
                "limits.ephemeral-storage",
            ]
        );
    }

    #[rstest]
    #[case::no_bounds(Bounds::default())]
    #[case::another_resource(Bounds { memory: maximum("1"), ..Bounds::default() })]
    #[case::zero(Bounds { cpu: maximum("0"), ..Bounds::default() })]
    #[case::empty(Bounds { cpu: maximum(""), ..Bounds::default() })]
    fn a_resource_without_a_maximum_is_free(#[case] unbounded: Bounds) {
        let greedy = json!({ "limits": { "cpu": "9999", "example.com/gpu": "9999" } });
        assert_eq!(bounds(&engine(&greedy), None, &unbounded), []);
        assert_eq!(bounds(&engine(&greedy), None, &all()).len(), 1);
    }

    #[rstest]
    fn what_is_no_quantity_is_refused(#[values("a lot", "-1", "", "1e1.5")] text: &str) {
        let violations = bounds(&engine(&json!({ "limits": { "cpu": text } })), None, &all());
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].kind, ViolationKind::Invalid);
        assert!(violations[0].message.contains("is not a quantity"), "{}", violations[0]);
    }

    #[rstest]
    #[case("many")]
    #[case("-1")]
    fn a_maximum_that_cannot_be_read_is_an_error(#[case] text: &str) {
        assert!(text.parse::<Maximum>().is_err());
    }

    #[test]
    fn an_engine_is_refused_for_what_it_inherits_with_the_name_of_the_class() {
        let (bare, class) = (engine(&json!({})), class(&json!({ "limits": { "cpu": "5" } })));
        let violations = bounds(&bare, Some(&class), &all());
        assert_eq!(violations.len(), 1);
        assert_eq!(
            violations[0].path,
            "spec.template.spec.containers[engine].resources.limits.cpu"
        );
        let named = format!("FireboltEngineClass {}:", fixture::CLASS);
        assert!(violations[0].message.contains(&named), "{}", violations[0]);
        let own = bounds(&engine(&json!({ "limits": { "cpu": "5" } })), Some(&class), &all());
        assert!(!own[0].message.contains(fixture::CLASS), "{}", own[0]);
    }

    #[test]
    fn sidecars_are_not_bounded() {
        let greedy = json!({ "limits": { "cpu": "9999" } });
        let engine = fixture::engine(&json!({ "spec": {
            "containers": [{ "name": "proxy", "resources": greedy }, { "name": "engine" }],
            "initContainers": [{ "name": "warm", "resources": greedy }],
        } }));
        assert_eq!(bounds(&engine, None, &all()), []);
    }

    /// Whether the rendered engine container requests more than four CPUs.
    fn renders_too_much(engine: &FireboltEngine, class: Option<&FireboltEngineClass>) -> bool {
        let instance = InstanceFacts {
            id: "id".to_owned(),
            metadata_endpoint: "metadata:7000".to_owned(),
        };
        let effective = resolve(engine, class, &instance, &Defaults::example());
        let spec = effective.template.spec.expect("a spec");
        let resources = spec.containers[0].resources.clone().unwrap_or_default();
        let quantities = [resources.requests, resources.limits].into_iter().flatten().flatten();
        let four: Amount = "4".parse().expect("an amount");
        quantities
            .into_iter()
            .any(|(_, quantity)| Amount::try_from(&quantity).expect("an amount") > four)
    }

    #[test]
    fn what_is_bounded_is_what_is_rendered() {
        let layers = [
            json!({}),
            json!({ "limits": {}, "requests": {} }),
            json!({ "claims": [{ "name": "gpu" }] }),
            json!({ "limits": { "cpu": "1" } }),
            json!({ "limits": { "cpu": "9" } }),
            json!({ "requests": { "cpu": "9" }, "limits": { "cpu": "1" } }),
        ];
        for own in &layers {
            let engine = engine(own);
            assert_eq!(
                !bounds(&engine, None, &all()).is_empty(),
                renders_too_much(&engine, None),
                "{own}"
            );
            for inherited in &layers {
                let class = class(inherited);
                assert_eq!(
                    !bounds(&engine, Some(&class), &all()).is_empty(),
                    renders_too_much(&engine, Some(&class)),
                    "{own} over {inherited}"
                );
            }
        }
    }
}
