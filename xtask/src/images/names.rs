//! The names of images: those that the operator asks for by default, and some of our own.

use std::path::Path;
use std::process::Command;

use super::{Result, output};

/// The image of the operator, as in `deploy/operator.yaml`.
pub(crate) const OPERATOR: &str = concat!("ghcr.io/firebolt-db/firebolt-operator:", env!("CARGO_PKG_VERSION"));
/// What keeps the namespaces of a pod open. The configuration of the container runtime names it.
pub(crate) const PAUSE: &str = localkube::SANDBOX_IMAGE;
/// The tag of a second engine image, so that there is something to change an engine to.
const NEXT: &str = "next";
/// A tag of the web UI that does not move. Kubernetes asks the registry about one that does, and there is none.
const PINNED: &str = "stand-in";

/// The names under which images are imported.
#[derive(Debug, PartialEq)]
pub(super) struct ImageNames {
    pub(super) engine: String,
    pub(super) next_engine: String,
    pub(super) metadata: String,
    pub(super) ui: String,
    pub(super) pinned_ui: String,
    pub(super) postgres: String,
    pub(super) envoy: String,
    pub(super) wake_agent: String,
}

impl ImageNames {
    /// Asks the operator itself, so that a name cannot change there alone.
    pub(super) fn ask(operator: &Path) -> Result<Self> {
        Self::parse(&output(Command::new(operator).args(["run", "--help"]))?)
    }

    fn parse(help: &str) -> Result<Self> {
        let default = |flag| default(help, flag).map(str::to_owned);
        let (engine, ui) = (default("--engine-image")?, default("--ui-image")?);
        Ok(Self {
            next_engine: with_tag(&engine, NEXT),
            engine,
            metadata: default("--metadata-image")?,
            pinned_ui: with_tag(&ui, PINNED),
            ui,
            postgres: default("--postgres-image")?,
            envoy: default("--envoy-image")?,
            wake_agent: default("--wake-agent-image")?,
        })
    }
}

/// The default of a flag, according to the help text.
fn default<'help>(help: &'help str, flag: &str) -> Result<&'help str> {
    let of_flag = help
        .split("\n      --")
        .find_map(|part| part.strip_prefix(flag.trim_start_matches('-'))?.strip_prefix(' '));
    let default = of_flag.and_then(|text| text.split_once("[default: ")?.1.split_once(']'));
    default
        .map(|(default, _)| default)
        .ok_or_else(|| format!("find the default of {flag} in the help text of firebolt-operator").into())
}

/// The same name with another tag.
fn with_tag(image: &str, tag: &str) -> String {
    // A colon before the last slash belongs to the port of the registry.
    let place = image.rfind('/').map_or(0, |slash| slash + 1);
    let end = image[place..].find(':').map_or(image.len(), |colon| place + colon);
    format!("{}:{tag}", &image[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "
Images:
      --engine-image <IMAGE>
          Image of engines

          [env: A]
          [default: registry:5000/engine:1]

      --ui-image <IMAGE>
          Image of the UI

      --metadata-image <IMAGE>
          [default: metadata:2]
";

    #[test]
    fn names_are_read_from_the_help_text() {
        assert_eq!(
            default(HELP, "--engine-image").expect("a default"),
            "registry:5000/engine:1"
        );
        assert_eq!(default(HELP, "--metadata-image").expect("a default"), "metadata:2");
    }

    #[test]
    fn a_flag_without_default_does_not_take_that_of_the_next() {
        let error = ImageNames::parse(HELP).expect_err("no default");
        assert!(error.to_string().contains("--ui-image"), "{error}");
    }

    #[test]
    fn a_tag_is_replaced_and_a_port_is_not() {
        assert_eq!(with_tag("a/b:1", "2"), "a/b:2");
        assert_eq!(with_tag("a:5000/b", "2"), "a:5000/b:2");
        assert_eq!(with_tag("b", "2"), "b:2");
    }

    #[test]
    fn the_manifest_of_the_operator_names_its_image() {
        let manifest = include_str!("../../../deploy/operator.yaml");
        assert!(manifest.contains(&format!("image: {OPERATOR}\n")));
    }
}
