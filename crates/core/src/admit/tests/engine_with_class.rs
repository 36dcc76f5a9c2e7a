//! Properties of an engine and its class together.

use std::collections::BTreeSet;

use super::*;

/// The pods of an engine with its class.
fn pods(engine: &Value, class: &Value) -> Value {
    let facts = InstanceFacts {
        id: "id".to_owned(),
        metadata_endpoint: "metadata:7000".to_owned(),
    };
    let class = fixture::engine_class(class);
    let effective = resolve(&fixture::engine(engine), Some(&class), &facts, &Defaults::example());
    let pods = render_engine::stateful_set(&effective, 0)
        .spec
        .map(|spec| spec.template.spec);
    serde_json::to_value(pods).expect("pods are JSON")
}

fn validate(engine: &Value, class: &Value) -> Vec<Violation> {
    let (class, bounds) = (fixture::engine_class(class), Bounds::default());
    let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": "x" } });
    let instance = fixture::instance(&json!({ "postgres": postgres }), &json!({}));
    let around = EngineContext {
        class: ClassLookup::Found(&class),
        instance: Some(&instance),
        bounds: &bounds,
    };
    super::super::engine(&fixture::engine(engine), &around)
}

fn entries<'a>(object: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    object[list].as_array().into_iter().flatten()
}

/// Duplicates in the pods that Kubernetes rejects.
fn repeated(pods: &Value) -> Vec<String> {
    let mut repeated = Vec::new();
    let mut check = |what: &str, keys: Vec<String>| {
        let mut seen = BTreeSet::new();
        let twice = keys.into_iter().filter(|key| !seen.insert(key.clone()));
        repeated.extend(twice.map(|key| format!("{what} {key}")));
    };
    let texts = |entries: Vec<&Value>, keys: &[&str]| -> Vec<String> {
        let text = |entry: &Value| keys.iter().map(|key| entry[key].to_string()).collect();
        entries.into_iter().map(text).collect()
    };
    let containers: Vec<&Value> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| entries(pods, list))
        .collect();
    let own = containers[0];
    check("container", texts(containers, &["name"]));
    for list in ["volumes", "resourceClaims", "schedulingGates"] {
        check(list, texts(entries(pods, list).collect(), &["name"]));
    }
    let spread = entries(pods, "topologySpreadConstraints").collect();
    check("spread", texts(spread, &["topologyKey", "whenUnsatisfiable"]));
    check(
        "resize policy",
        texts(entries(own, "resizePolicy").collect(), &["resourceName"]),
    );
    let mounts = texts(entries(own, "volumeMounts").collect(), &["mountPath"]);
    let devices = texts(entries(own, "volumeDevices").collect(), &["devicePath"]);
    check("place", [mounts, devices].concat());
    check("device", texts(entries(own, "volumeDevices").collect(), &["name"]));
    repeated
}

/// Volumes that a container references and that do not exist in the pods.
fn unknown(pods: &Value) -> Vec<String> {
    let volumes: BTreeSet<&str> = entries(pods, "volumes")
        .filter_map(|volume| volume["name"].as_str())
        .collect();
    let lists = ["containers", "initContainers"].into_iter();
    let containers = lists.flat_map(|list| entries(pods, list));
    let uses = containers.flat_map(|container| {
        let lists = ["volumeMounts", "volumeDevices"].into_iter();
        lists.flat_map(move |list| entries(container, list))
    });
    let names = uses.filter_map(|one| one["name"].as_str());
    names
        .filter(|name| !volumes.contains(name))
        .map(str::to_owned)
        .collect()
}

#[test]
fn what_is_there_twice_and_what_is_not_there_is_found() {
    let volume = json!({ "name": "v" });
    let engine = json!({ "name": "engine", "volumeMounts": [{ "name": "w", "mountPath": "/m" }] });
    let pods = json!({ "volumes": [volume, volume], "containers": [engine], "initContainers": [{ "name": "engine" }] });
    assert_eq!(repeated(&pods), ["container \"engine\"", "volumes \"v\""]);
    assert_eq!(unknown(&pods), ["w"]);
}

#[test]
fn some_pairs_are_accepted() {
    let class = json!({ "spec": { "volumes": [{ "name": "cache", "emptyDir": {} }] } });
    let engine = json!({ "spec": { "containers": [
        { "name": "engine", "volumeMounts": [{ "name": "cache", "mountPath": "/cache" }] },
        { "name": "proxy", "volumeMounts": [{ "name": "data", "mountPath": "/data" }] },
    ] } });
    assert_eq!(validate(&engine, &class), []);
    let pods = pods(&engine, &class);
    assert_eq!((repeated(&pods), unknown(&pods)), (Vec::new(), Vec::new()));
}

proptest! {
    #[test]
    fn an_engine_and_its_class_are_refused_at_a_field_of_the_engine_or_fit_together(
        engine in any_template(),
        class in any_template(),
    ) {
        let written = json!({ "spec": { "engineClassRef": fixture::CLASS, "template": engine } });
        let refused = validate(&engine, &class);
        for violation in &refused {
            prop_assert!(leads_somewhere(&written, &format!(".{}", violation.path)), "{}", violation);
        }
        if refused.is_empty() && super::super::engine_class(&fixture::engine_class(&class)).is_empty() {
            let pods = pods(&engine, &class);
            prop_assert_eq!(repeated(&pods), Vec::<String>::new());
            prop_assert_eq!(unknown(&pods), Vec::<String>::new());
            let own = without_volumes_of_the_operator(engine);
            prop_assert!(is_forwarded(&own["spec"], &pods), "{}", own);
        }
    }
}
