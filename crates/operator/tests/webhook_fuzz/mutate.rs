//! Questions that are not quite what the API server asks.

use std::sync::{Arc, LazyLock};

use fastrand::Rng;
use serde_json::{Value, json};

/// Stands for what a JSON value cannot hold. No question has it.
const MARK: &str = "\u{1}mark";
/// How deep something is nested that no reader should follow to its end.
const DEEP: usize = 10_000;
const TEXTS: [&str; 12] = [
    "",
    "\0",
    "\u{1f525}\u{200d}\u{1f525}",
    "a\u{301}\u{202e}b",
    "\u{fffd}\u{feff}",
    "../../etc",
    "null",
    "engine",
    "data",
    "POD_INDEX",
    "-1",
    "1e999",
];

/// Text of an odd kind, sometimes very long.
pub(crate) fn odd_text(rng: &mut Rng) -> String {
    let text = TEXTS[rng.usize(..TEXTS.len())];
    match rng.u8(..40) {
        0 => text.repeat(rng.usize(..2000)),
        1..5 => format!("{text}[{}].{text}", rng.u64(..)),
        _ => text.to_owned(),
    }
}

/// JSON that is in its place nowhere.
static ODD: LazyLock<Vec<String>> = LazyLock::new(|| {
    let nested = |open: &str, close: &str| format!("{}{}", open.repeat(DEEP), close.repeat(DEEP));
    let plain = [
        "null",
        "true",
        "-0",
        "1e999",
        "-1e-999",
        "18446744073709551616",
        "0.1",
        "{}",
        "[]",
        "[null]",
        "[[]]",
        r#"{"":null}"#,
        r#"[{"name":null}]"#,
        r#""x""#,
        r#""\ud800""#,
        "",
        "nul",
        "01",
        // The same key once more.
        r#"1,"uid":"again""#,
        r#"{"name":"a","name":"b"}"#,
    ];
    let mut values: Vec<String> = plain.into_iter().map(str::to_owned).collect();
    values.push(nested("[", "]"));
    values.push(nested(r#"{"a":"#, "}").replace("{\"a\":}", "{}"));
    values.push("[".repeat(DEEP));
    values.push(Value::String("\u{1f525}".repeat(20_000)).to_string());
    values.push("9".repeat(10_000));
    values
});

/// All places in a value, as JSON pointers.
fn places(value: &Value) -> Vec<String> {
    fn walk(value: &Value, place: &str, places: &mut Vec<String>) {
        places.push(place.to_owned());
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    walk(field, &format!("{place}/{key}"), places);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(item, &format!("{place}/{index}"), places);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut places = Vec::new();
    walk(value, "", &mut places);
    places
}

/// The question as text, with this in the given place.
fn with(question: &Value, place: &str, text: &str) -> String {
    let mut question = question.clone();
    if let Some(value) = question.pointer_mut(place) {
        *value = json!(MARK);
    }
    question.to_string().replace(&json!(MARK).to_string(), text)
}

/// The question with odd values in every place: all of them, or as many as come up.
pub(crate) fn everywhere(question: &Value, mut comes_up: impl FnMut() -> bool) -> impl Iterator<Item = String> {
    let each = places(question).into_iter().flat_map(|place| {
        let place = Arc::new(place);
        ODD.iter().map(move |text| (Arc::clone(&place), text))
    });
    each.filter(move |_| comes_up())
        .map(|(place, text)| with(question, &place, text))
}

/// The question after some mutations, or something else entirely.
pub(crate) fn mutated(rng: &mut Rng, question: &Value) -> Vec<u8> {
    if rng.u8(..32) == 0 {
        return noise(rng);
    }
    let mut question = question.clone();
    for _ in 0..rng.usize(..4) {
        reshape(rng, &mut question);
    }
    let mut bytes = if rng.bool() {
        let places = places(&question);
        let place = &places[rng.usize(..places.len())];
        with(&question, place, &ODD[rng.usize(..ODD.len())]).into_bytes()
    } else {
        question.to_string().into_bytes()
    };
    if rng.u8(..3) == 0 {
        damage(rng, &mut bytes);
    }
    bytes
}

/// Bytes of any kind, up to more than a question may have.
fn noise(rng: &mut Rng) -> Vec<u8> {
    let length = match rng.u8(..16) {
        0 => rng.usize(..9_000_000),
        1..6 => rng.usize(..100_000),
        _ => rng.usize(..200),
    };
    if rng.bool() {
        vec![b"[{\" \0"[rng.usize(..5)]; length]
    } else {
        (0..length).map(|_| rng.u8(..)).collect()
    }
}

/// Changes the question within what JSON can say.
fn reshape(rng: &mut Rng, question: &mut Value) {
    let all = places(question);
    let place = &all[rng.usize(..all.len())];
    let other = question
        .pointer(&all[rng.usize(..all.len())])
        .cloned()
        .unwrap_or_default();
    let text = odd_text(rng);
    let Some(value) = question.pointer_mut(place) else {
        return;
    };
    match (rng.u8(..6), value) {
        (0, Value::Object(fields)) => {
            let key = fields.keys().nth(rng.usize(..fields.len().max(1))).cloned();
            if let Some(field) = key.and_then(|key| fields.remove(&key)) {
                fields.insert(text, field);
            }
        }
        (1, Value::Object(fields)) => {
            fields.insert(text, other);
        }
        (0 | 1, Value::Array(items)) => {
            // Often the same twice, which no list of named things may have.
            let item = items.first().cloned().unwrap_or(other);
            items.extend(std::iter::repeat_n(item, rng.usize(..60)));
        }
        (2, value) => *value = json!(text),
        (3, value) => *value = json!(rng.i64(..)),
        (_, value) => *value = other,
    }
}

/// Changes bytes without regard to what they say.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.usize(..bytes.len());
    match rng.u8(..5) {
        0 => bytes.truncate(at),
        1 => {
            for _ in 0..rng.usize(1..8) {
                let at = rng.usize(..bytes.len());
                bytes[at] ^= 1 << rng.u8(..8);
            }
        }
        2 => {
            let end = (at + rng.usize(..200)).min(bytes.len());
            bytes.extend_from_within(at..end);
        }
        3 => {
            let end = (at + rng.usize(..20)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let insert: Vec<u8> = (0..rng.usize(1..9)).map(|_| rng.u8(..)).collect();
            bytes.splice(at..at, insert);
        }
    }
}
