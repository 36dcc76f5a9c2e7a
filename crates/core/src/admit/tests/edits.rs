//! Every single edit of a field of a pod template changes the pods, or is rejected. The edits are derived from the
//! schema, so a field that a new version of Kubernetes adds is covered without a change here.

use super::*;
use crate::canonical;

/// An object with a pod template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Engine,
    Class,
    Metadata,
    Gateway,
}

/// What becomes of an accepted template.
#[derive(Debug, PartialEq)]
struct Outcome {
    hash: String,
    pods: Value,
}

impl Owner {
    fn target(self) -> Target {
        match self {
            Self::Engine | Self::Class => Target::Engine,
            Self::Metadata => Target::Metadata,
            Self::Gateway => Target::Gateway,
        }
    }

    fn is_rejected(self, template: &Value) -> bool {
        let violations = match self {
            Self::Engine => engine_template(&fixture::engine(template), None),
            Self::Class => engine_class(&fixture::engine_class(template)),
            Self::Metadata => metadata_template(&Target::Metadata.instance(template)),
            Self::Gateway => gateway_template(&Target::Gateway.instance(template)),
        };
        !violations.is_empty()
    }

    fn outcome(self, template: &Value) -> Outcome {
        match self {
            Self::Engine => pair(template, &json!({})),
            Self::Class => pair(&json!({}), template),
            Self::Metadata | Self::Gateway => {
                let pods = rendered(self.target(), template);
                let hash = canonical::hash(&pods);
                Outcome { hash, pods }
            }
        }
    }
}

/// What becomes of an engine with its class.
fn pair(engine: &Value, class: &Value) -> Outcome {
    let facts = InstanceFacts {
        id: "id".to_owned(),
        metadata_endpoint: "metadata:7000".to_owned(),
    };
    let class = fixture::engine_class(class);
    let effective = resolve(&fixture::engine(engine), Some(&class), &facts, &Defaults::example());
    let pods = render_engine::stateful_set(&effective, 0)
        .spec
        .map(|spec| spec.template);
    Outcome {
        hash: render_engine::template_hash(&effective),
        pods: serde_json::to_value(pods).expect("pods are JSON"),
    }
}

/// A value at one place of an otherwise minimal template; none leaves the place out.
type Place<'a> = &'a dyn Fn(Option<Value>) -> Value;

/// Visits every place of a template, each with its path, its schema and whether it can be left out.
struct Walk<'a> {
    /// The name of the main container.
    own: &'static str,
    visit: &'a mut dyn FnMut(&str, &Value, bool, Place),
}

impl Walk<'_> {
    fn walk(&mut self, path: &str, schema: &Value, optional: bool, place: Place) {
        (self.visit)(path, schema, optional, place);
        if let Some(items) = schema.get("items") {
            let entry = |value: Option<Value>| place(Some(value.into_iter().collect()));
            self.walk(&format!("{path}[]"), items, true, &entry);
            if path == "spec.containers" {
                self.own_container(items, place);
            }
        } else if let Some(values) = entries_of(schema) {
            let entry = |value: Option<Value>| place(Some(value.map_or(json!({}), |value| json!({ KEY: value }))));
            self.walk(&format!("{path}{{}}"), values, true, &entry);
        } else {
            self.fields(path, schema, &|object| place(Some(object)), &[]);
        }
    }

    /// The same fields once more, in the container that is the component itself.
    fn own_container(&mut self, schema: &Value, place: Place) {
        let name = self.own;
        let named = |mut container: Value| {
            container["name"] = json!(name);
            place(Some(json!([container])))
        };
        self.fields(&format!("spec.containers[{name}]"), schema, &named, &["name"]);
    }

    fn fields(&mut self, path: &str, schema: &Value, place: &dyn Fn(Value) -> Value, except: &[&str]) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if except.contains(&name.as_str()) {
                continue;
            }
            let field = |value: Option<Value>| {
                let mut object = minimal(schema, "x");
                let fields = object.as_object_mut().expect("an object");
                fields.remove(name);
                fields.extend(value.map(|value| (name.clone(), value)));
                place(object)
            };
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            self.walk(&path, property, !is_required(schema, name), &field);
        }
    }
}

const KEY: &str = "example.com/key";

/// The schema of the values, if these are the entries of a map.
fn entries_of(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|values| values.is_object())
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|all| all.iter().any(|one| one == name))
}

/// The smallest value with these texts that is not empty.
fn minimal(schema: &Value, text: &str) -> Value {
    match schema["type"].as_str() {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let required = fields.filter(|(name, _)| is_required(schema, name));
            required
                .map(|(name, field)| (name.clone(), minimal(field, text)))
                .collect()
        }
        Some("array") => json!([]),
        Some("boolean") => json!(true),
        Some("integer") => json!(text.len()),
        Some(_) if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        Some(_) => json!(text),
        // Quantities and ports.
        None => json!(text.len().to_string()),
    }
}

/// The smallest entry of a list, with the fields by which the API server tells entries apart.
fn entry(list: &Value, text: &str) -> Value {
    let mut entry = minimal(&list["items"], text);
    for key in list["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
        let key = key.as_str().expect("the name of a field");
        entry[key] = minimal(&list["items"]["properties"][key], text);
    }
    entry
}

/// The value with the defaults of the schema, as the API server stores it.
fn with_defaults(schema: &Value, mut value: Value) -> Value {
    match &mut value {
        Value::Array(items) => {
            for item in items {
                *item = with_defaults(&schema["items"], item.take());
            }
        }
        Value::Object(fields) => {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let field = fields.remove(name).or_else(|| property.get("default").cloned());
                fields.extend(field.map(|field| (name.clone(), with_defaults(property, field))));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

/// The values of a place between which a user may change: none, empty, one, and another one.
fn values(schema: &Value, optional: bool) -> Vec<Option<Value>> {
    let [one, other] = ["x", "yy"].map(|text| minimal(schema, text));
    let mut values = match schema["type"].as_str() {
        Some("object") if entries_of(schema).is_some() => {
            let entry = minimal(&schema["additionalProperties"], "x");
            vec![json!({}), json!({ KEY: entry })]
        }
        // None: quantities and ports.
        Some("object") | None => vec![one, other],
        Some("array") => {
            let [one, other] = ["x", "yy"].map(|text| entry(schema, text));
            vec![json!([]), json!([one]), json!([other]), json!([one, other])]
        }
        Some("boolean") => vec![json!(false), json!(true)],
        Some("integer") => vec![json!(0), one, other],
        Some(_) if schema["format"] == "date-time" => vec![one],
        Some(_) => vec![json!(""), one, other],
    };
    values.dedup();
    let none = optional.then_some(None);
    none.into_iter().chain(values.into_iter().map(Some)).collect()
}

/// A template as far as Kubernetes, or this operator on purpose, makes a difference. Two templates with the same result
/// must lead to the same pods, and two with different results to different ones.
fn meaning(owner: Owner, template: &Value) -> Value {
    let mut template = without_empty_collections(&SCHEMA, template).unwrap_or_default();
    for part in ["metadata", "spec"] {
        if template[part].is_null() {
            template[part] = json!({});
        }
    }
    let containers = template.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        if container["name"] == owner.target().container() {
            let fields = container.as_object_mut().expect("a container");
            // An empty text means that of the class, or the default. No process has a terminal by default.
            let terminal = ["stdin", "stdinOnce", "tty"];
            fields.retain(|field, value| *value != "" && (*value != false || !terminal.contains(&field.as_str())));
        }
    }
    if let Some(spec) = template["spec"].as_object_mut() {
        spec.retain(|field, value| !is_default_of_pod(owner, field, value));
    }
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.retain(|_, value| *value != "" && *value != 0);
    }
    template
}

/// Values that mean the same as none.
fn is_default_of_pod(owner: Owner, field: &str, value: &Value) -> bool {
    match (field, value) {
        // The main container exists in any case.
        ("containers", Value::Array(containers)) => {
            let own = json!([{ "name": owner.target().container() }]);
            *containers == own.as_array().cloned().unwrap_or_default()
        }
        // That of the class, or the default.
        (_, Value::String(text)) => text.is_empty(),
        // Pods do not share the namespaces of their nodes, and the operator turns off the variables for Services.
        ("hostNetwork" | "hostPID" | "hostIPC" | "enableServiceLinks", Value::Bool(false)) => true,
        // The operator turns it off where the ServiceAccount is not that of the user.
        ("automountServiceAccountToken", Value::Bool(false)) => matches!(owner, Owner::Metadata | Owner::Gateway),
        // The operator sets fields of it in any case.
        ("securityContext", Value::Object(context)) => {
            let enforced = json!({ "runAsNonRoot": true });
            let by_default = matches!(owner, Owner::Metadata | Owner::Gateway);
            context.is_empty() || (by_default && enforced.as_object() == Some(context))
        }
        (..) => false,
    }
}

/// The value without lists and maps that are empty, which Kubernetes does not store. Empty objects stay: an empty
/// selector, for example, selects everything. Those of resource requirements consist of such lists and maps only.
fn without_empty_collections(schema: &Value, value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            let part = |item| without_empty_collections(&schema["items"], item).unwrap_or_default();
            Some(items.iter().map(part).collect())
        }
        Value::Object(entries) if entries_of(schema).is_some() => (!entries.is_empty()).then(|| value.clone()),
        Value::Object(fields) => {
            let part = |(name, field): (&String, &Value)| {
                let found = without_empty_collections(&schema["properties"][name], field)?;
                let is_resources = name == "resources" && found == json!({});
                (!is_resources).then(|| (name.clone(), found))
            };
            Some(fields.iter().filter_map(part).collect())
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.clone()),
    }
}

/// The places at which, and below which, nothing can be changed, without the places below them.
fn fixed(places: &[(String, bool)]) -> Vec<&str> {
    let is_at_or_below = |path: &str, other: &str| {
        let rest = path.strip_prefix(other);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
    };
    let mut fixed: Vec<&str> = Vec::new();
    for (place, _) in places {
        let can_change = places
            .iter()
            .any(|(other, changes)| *changes && is_at_or_below(other, place));
        if !can_change && !fixed.iter().any(|above| is_at_or_below(place, above)) {
            fixed.push(place);
        }
    }
    fixed
}

/// Tries every pair of values at every place. The snapshot lists the fields that users cannot set.
#[rstest]
#[case::engine(Owner::Engine)]
#[case::class(Owner::Class)]
#[case::metadata(Owner::Metadata)]
#[case::gateway(Owner::Gateway)]
fn a_single_edit_changes_the_pods_or_is_rejected(#[case] owner: Owner) {
    let (mut places, mut wrong) = (Vec::new(), Vec::new());
    let mut visit = |path: &str, schema: &Value, optional: bool, place: Place| {
        let templates = values(schema, optional)
            .into_iter()
            .map(|value| with_defaults(&SCHEMA, place(value)));
        let accepted: Vec<(Value, Value, Outcome)> = templates
            .filter(|template| !owner.is_rejected(template))
            .map(|template| (template.clone(), meaning(owner, &template), owner.outcome(&template)))
            .collect();
        let changes = accepted.iter().any(|(_, meaning, _)| *meaning != accepted[0].1);
        places.push((path.to_owned(), changes));
        for (index, (one, meaning, outcome)) in accepted.iter().enumerate() {
            for (other, other_meaning, other_outcome) in &accepted[index + 1..] {
                let alike = meaning == other_meaning;
                let (hash, pods) = (outcome.hash == other_outcome.hash, outcome.pods == other_outcome.pods);
                if (hash, pods) != (alike, alike) {
                    wrong.push(format!(
                        "{path}: alike {alike}, same hash {hash}, same pods {pods}: {one} {other}"
                    ));
                }
            }
        }
    };
    let mut walk = Walk {
        own: owner.target().container(),
        visit: &mut visit,
    };
    walk.fields("", &SCHEMA, &|template| template, &[]);
    assert!(places.len() > 1_000, "{}", places.len());
    assert!(wrong.is_empty(), "{} edits:\n{}", wrong.len(), wrong.join("\n"));
    insta::assert_snapshot!(
        format!("cannot_be_set_{owner:?}").to_lowercase(),
        fixed(&places).join("\n")
    );
}

/// An empty text in an engine means that of its class, and an empty text in a class the default of the operator.
#[test]
fn an_empty_text_is_no_text() {
    let pod = &SCHEMA["properties"]["spec"];
    let container = &pod["properties"]["containers"]["items"];
    let in_pod: fn(&str, &str) -> Value = |field, text| json!({ "spec": { field: text } });
    let in_container: fn(&str, &str) -> Value =
        |field, text| json!({ "spec": { "containers": [{ "name": "engine", field: text }] } });
    let parts = [(pod, in_pod), (container, in_container)];
    let mut tried = Vec::new();
    for (schema, template) in parts {
        let fields = schema["properties"].as_object().expect("fields");
        let texts = fields.iter().filter(|(_, field)| field["type"] == "string");
        for (field, _) in texts.filter(|(field, _)| *field != "name") {
            if Owner::Engine.is_rejected(&template(field, "x")) {
                continue;
            }
            let [none, empty, text] = [json!({}), template(field, ""), template(field, "x")];
            assert_eq!(pair(&empty, &text), pair(&none, &text), "{field}");
            assert_ne!(pair(&empty, &text), pair(&none, &none), "{field}");
            assert_eq!(pair(&none, &empty), pair(&none, &none), "{field}");
            assert_eq!(pair(&text, &empty), pair(&text, &none), "{field}");
            tried.push(field.as_str());
        }
    }
    let expected = [
        "dnsPolicy",
        "nodeName",
        "preemptionPolicy",
        "priorityClassName",
        "runtimeClassName",
        "schedulerName",
        "serviceAccountName",
        "image",
        "imagePullPolicy",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "workingDir",
    ];
    assert_eq!(tried, expected);
}
