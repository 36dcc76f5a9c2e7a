//! Image names and their registries.

/// The value parser of an image or a registry. Whether it exists is for the kubelet to find out; this only rejects invalid
/// names, most likely from a template with an empty value.
pub(crate) fn parse_image(text: &str) -> Result<String, String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "._-:/@".contains(c);
    if text.is_empty() || !text.chars().all(is_legal) || text.starts_with('/') || text.ends_with('/') {
        return Err(format!(
            "{text:?} is not the name of an image or registry: write it as in registry.example/team/name:1.2"
        ));
    }
    Ok(text.to_owned())
}

/// The same image from another registry. The first part of a name is a registry if it looks like a host.
pub(crate) fn from_registry(image: &str, registry: Option<&str>) -> String {
    let Some(registry) = registry else {
        return image.to_owned();
    };
    let path = match image.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
        Some(_) | None => image,
    };
    format!("{registry}/{path}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ghcr.io/firebolt-db/engine:1", "mirror.example/m/firebolt-db/engine:1")]
    #[case("localhost/engine:1", "mirror.example/m/engine:1")]
    #[case("registry:5000/engine:1", "mirror.example/m/engine:1")]
    #[case("firebolt-db/engine:1", "mirror.example/m/firebolt-db/engine:1")]
    #[case("engine", "mirror.example/m/engine")]
    fn the_registry_of_an_image_is_replaced_and_nothing_else(#[case] image: &str, #[case] expected: &str) {
        assert_eq!(from_registry(image, Some("mirror.example/m")), expected);
        assert_eq!(from_registry(image, None), image);
    }

    #[rstest]
    #[case("", false)]
    #[case("a b", false)]
    #[case("/engine", false)]
    #[case("mirror.example/", false)]
    #[case("mirror.example:5000/team/engine:1.2@sha256:0", true)]
    fn invalid_image_names_are_rejected(#[case] text: &str, #[case] accepted: bool) {
        assert_eq!(parse_image(text).is_ok(), accepted);
    }
}
