//! A second, independent implementation of the selection rules, to compare with.

use std::fmt;

use firebolt_api::name::MAX_ENGINE_NAME;

/// The expected outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selection {
    /// It is forwarded to this engine, with this path and these parameters.
    Forward { engine: String, target: Vec<u8> },
    /// It is refused for this reason.
    Refuse(Reason),
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    Missing,
    Repeated,
    Conflict,
    Malformed,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match self {
            Self::Missing => "engine_missing",
            Self::Repeated => "engine_repeated",
            Self::Conflict => "engine_conflict",
            Self::Malformed => "engine_malformed",
        })
    }
}

/// Applies the rules to a request with this target and these values of the header.
pub(super) fn select(target: &[u8], headers: &[Vec<u8>]) -> Selection {
    match selected(target, headers) {
        Ok((engine, target)) => Selection::Forward { engine, target },
        Err(reason) => Selection::Refuse(reason),
    }
}

fn selected(target: &[u8], headers: &[Vec<u8>]) -> Result<(String, Vec<u8>), Reason> {
    let (path, query) = split_once(target, b'?');
    let parts: Vec<&[u8]> = query.map_or(Vec::new(), |query| query.split(|byte| *byte == b'&').collect());
    let (ours, others): (Vec<&[u8]>, Vec<&[u8]>) = parts
        .into_iter()
        .partition(|part| decode(split_once(part, b'=').0).is_some_and(|key| key == b"engine"));
    // In the order of the parameters: an invalid one counts before a later one is parsed.
    let mut by_parameter = None;
    for part in &ours {
        if by_parameter.is_some() {
            return Err(Reason::Repeated);
        }
        let value = decode(split_once(part, b'=').1.unwrap_or_default());
        by_parameter = Some(value.ok_or(Reason::Malformed)?);
    }
    let by_header = match headers {
        [] => None,
        [value] => Some(value.clone()),
        _ => return Err(Reason::Repeated),
    };
    if by_header.as_ref().is_some_and(|value| !is_name(value)) {
        return Err(Reason::Malformed);
    }
    let engine = match (by_header, by_parameter) {
        (Some(header), Some(parameter)) if header != parameter => return Err(Reason::Conflict),
        (Some(engine), _) | (None, Some(engine)) => engine,
        (None, None) => return Err(Reason::Missing),
    };
    if !is_name(&engine) {
        return Err(Reason::Malformed);
    }
    let engine = String::from_utf8(engine).expect("a name is text");
    if ours.is_empty() {
        return Ok((engine, target.to_vec()));
    }
    let rest = others.join(&b'&');
    let forwarded = if rest.is_empty() {
        path.to_vec()
    } else {
        [path, b"?", &rest].concat()
    };
    Ok((engine, forwarded))
}

fn is_name(text: &[u8]) -> bool {
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| inner(byte) && *byte != b'-');
    text.len() <= MAX_ENGINE_NAME && text.iter().all(inner) && edge(text.first()) && edge(text.last())
}

/// Decodes percent-encoding. None if an escape is invalid.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [*bytes.next()?, *bytes.next()?];
                let digits = std::str::from_utf8(&digits)
                    .ok()
                    .filter(|digits| !digits.contains('+'))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => *byte,
        });
    }
    Some(plain)
}

fn split_once(text: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == at) {
        Some(index) => (&text[..index], Some(&text[index + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/?engine=one&b=2", &[], Ok(("one", "/?b=2")))]
    #[case("/a?b=2&%65ngine=o%6Ee&c", &[], Ok(("one", "/a?b=2&c")))]
    #[case("/", &["one"], Ok(("one", "/")))]
    #[case("/?a=%zz", &["one"], Ok(("one", "/?a=%zz")))]
    #[case("/?engine=one", &["one"], Ok(("one", "/")))]
    #[case("/?engine=one", &["two"], Err(Reason::Conflict))]
    #[case("/?engine=one&engine=one", &[], Err(Reason::Repeated))]
    #[case("/?engine=%zz&engine=one", &[], Err(Reason::Malformed))]
    #[case("/?engine=%+1", &[], Err(Reason::Malformed))]
    #[case("/", &["one", "one"], Err(Reason::Repeated))]
    #[case("/", &[], Err(Reason::Missing))]
    #[case("/?engine", &[], Err(Reason::Malformed))]
    fn the_reference_follows_the_rules(
        #[case] target: &str,
        #[case] headers: &[&str],
        #[case] expected: Result<(&str, &str), Reason>,
    ) {
        let headers: Vec<Vec<u8>> = headers.iter().map(|value| value.as_bytes().to_vec()).collect();
        let expected = match expected {
            Ok((engine, target)) => Selection::Forward {
                engine: engine.to_owned(),
                target: target.as_bytes().to_vec(),
            },
            Err(reason) => Selection::Refuse(reason),
        };
        assert_eq!(select(target.as_bytes(), &headers), expected);
    }
}
