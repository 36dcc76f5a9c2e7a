//! Where the pinned tools live, and which of them answers to a name.
//!
//! The key of a tool is made here, from the pin files that are compiled in: the task that builds the tools and the code
//! that runs them cannot disagree, and a program finds its tools from any working folder.

mod pins;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use pins::{Binary, Tool};

/// Names the folder of the cache, in place of the one below the user's cache folder.
pub const TOOLS_DIR_VARIABLE: &str = "FIREBOLT_TOOLS_DIR";
/// Names a folder with a control plane; the binaries that it holds win over the cache.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";
/// Names the Envoy binary to use.
pub(crate) const ENVOY_VARIABLE: &str = "ENVOY_BIN";

/// Why a tool is not available.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The cache holds no build of the pinned version.
    #[error("{0} is not built: run `make tools`")]
    NotBuilt(&'static str),
    /// The path of an override does not exist. This is reported instead of falling back to the cache.
    #[error("find {name}: {variable} names {path}, which does not exist")]
    BadOverride {
        /// The binary that was wanted.
        name: &'static str,
        /// The environment variable that names the path.
        variable: &'static str,
        /// The path that is not there.
        path: PathBuf,
    },
    /// Neither a cache folder nor a home folder is set.
    #[error("find the cache of tools: none of {TOOLS_DIR_VARIABLE}, XDG_CACHE_HOME and HOME is set")]
    NoCacheFolder,
}

/// The tools of one machine: a cache folder, and what the environment overrides.
#[derive(Debug, Clone)]
pub struct Tools {
    cache: PathBuf,
    assets: Option<PathBuf>,
    envoy: Option<PathBuf>,
}

impl Tools {
    /// Reads the places from the environment of the process.
    pub fn from_env() -> Result<Self, ToolError> {
        Self::from_lookup(|name| env::var_os(name))
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, ToolError> {
        let path = |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = path(TOOLS_DIR_VARIABLE)
            .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join("firebolt-operator")))
            .or_else(|| path("HOME").map(|home| home.join(".cache/firebolt-operator")))
            .ok_or(ToolError::NoCacheFolder)?;
        // Tools are started from other working folders, so a relative path is fixed to this one now.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        Ok(Self {
            cache: absolute(cache),
            assets: path(ASSETS_VARIABLE).map(absolute),
            envoy: path(ENVOY_VARIABLE).map(absolute),
        })
    }

    /// The folder that holds every build of `tool`.
    #[must_use]
    pub fn tool_folder(&self, tool: Tool) -> PathBuf {
        self.cache.join(tool.name())
    }

    /// The folder of the pinned build of `tool`. A build is moved there only when it is complete and verified, so that
    /// its presence means "done".
    #[must_use]
    pub fn build_folder(&self, tool: Tool) -> PathBuf {
        self.tool_folder(tool).join(tool.key())
    }

    /// The folder that the Debian packages are unpacked into.
    #[must_use]
    pub fn debian(&self) -> PathBuf {
        self.build_folder(Tool::Debian).join("root")
    }

    /// Where the libraries of the Debian packages are: in a folder named after the machine's kind.
    #[must_use]
    pub(crate) fn debian_libraries(&self) -> PathBuf {
        let kind = format!("{}-linux-gnu", env::consts::ARCH);
        self.debian().join("usr/lib").join(kind)
    }

    /// The path of `binary`: an override if there is one, else the pinned build.
    pub fn binary(&self, binary: Binary) -> Result<PathBuf, ToolError> {
        let name = binary.name();
        if binary == Binary::Envoy
            && let Some(path) = &self.envoy
        {
            return existing(name, ENVOY_VARIABLE, path);
        }
        if let Some(folder) = self.assets.as_ref().filter(|_| binary.may_come_from_assets()) {
            existing(name, ASSETS_VARIABLE, folder)?;
            let path = folder.join(name);
            // The folder of assets usually holds three binaries; the rest comes from the cache.
            if path.exists() {
                return Ok(path);
            }
        }
        let path = self.build_folder(binary.tool()).join("bin").join(name);
        if path.exists() {
            Ok(path)
        } else {
            Err(ToolError::NotBuilt(name))
        }
    }

    /// Whether the environment provides every program of `tool`, so that it need not be built.
    #[must_use]
    pub fn is_overridden(&self, tool: Tool) -> bool {
        let mut binaries = Binary::ALL
            .into_iter()
            .filter(|binary| binary.tool() == tool)
            .peekable();
        binaries.peek().is_some()
            && binaries.all(|binary| match &self.assets {
                _ if binary == Binary::Envoy => self.envoy.is_some(),
                Some(folder) => binary.may_come_from_assets() && folder.join(binary.name()).exists(),
                None => false,
            })
    }
}

fn existing(name: &'static str, variable: &'static str, path: &Path) -> Result<PathBuf, ToolError> {
    if path.exists() {
        Ok(path.to_owned())
    } else {
        Err(ToolError::BadOverride {
            name,
            variable,
            path: path.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tools(variables: &[(&str, &Path)]) -> Tools {
        Tools::from_lookup(|name| {
            variables
                .iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, path)| path.as_os_str().to_owned())
        })
        .expect("a cache folder is set")
    }

    fn put(path: &Path) {
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("create the folder");
        fs::write(path, "").expect("write the file");
    }

    #[test]
    fn the_cache_folder_falls_back_from_own_variable_to_xdg_to_home() {
        let (own, xdg, home) = (Path::new("/own"), Path::new("/xdg"), Path::new("/home/me"));
        let all = [(TOOLS_DIR_VARIABLE, own), ("XDG_CACHE_HOME", xdg), ("HOME", home)];
        assert_eq!(tools(&all).cache, own);
        assert_eq!(tools(&all[1..]).cache, Path::new("/xdg/firebolt-operator"));
        assert_eq!(tools(&all[2..]).cache, Path::new("/home/me/.cache/firebolt-operator"));
        assert!(matches!(Tools::from_lookup(|_| None), Err(ToolError::NoCacheFolder)));
    }

    #[test]
    fn a_missing_tool_says_how_to_build_it() {
        let tools = tools(&[(TOOLS_DIR_VARIABLE, Path::new("/nowhere"))]);
        let error = tools.binary(Binary::Etcd).expect_err("nothing is built there");
        assert_eq!(error.to_string(), "etcd is not built: run `make tools`");
    }

    #[test]
    fn assets_win_and_the_cache_fills_the_gaps() {
        let folder = tempfile::tempdir().expect("create a folder");
        let (cache, assets) = (folder.path().join("cache"), folder.path().join("assets"));
        let tools = tools(&[(TOOLS_DIR_VARIABLE, &cache), (ASSETS_VARIABLE, &assets)]);
        let built = |binary: Binary| tools.build_folder(binary.tool()).join("bin").join(binary.name());
        for binary in [Binary::Etcd, Binary::KubeScheduler, Binary::Envoy] {
            put(&built(binary));
        }
        put(&assets.join("etcd"));
        put(&assets.join("envoy"));
        assert!(tools.is_overridden(Tool::Etcd));
        assert!(!tools.is_overridden(Tool::Kubernetes) && !tools.is_overridden(Tool::Debian));
        assert_eq!(tools.binary(Binary::Etcd).expect("found"), assets.join("etcd"));
        assert_eq!(
            tools.binary(Binary::KubeScheduler).expect("found"),
            built(Binary::KubeScheduler)
        );
        assert_eq!(tools.binary(Binary::Envoy).expect("found"), built(Binary::Envoy));
    }

    #[test]
    fn an_override_that_points_nowhere_is_an_error() {
        let cache = (TOOLS_DIR_VARIABLE, Path::new("/nowhere"));
        let envoy = tools(&[cache, (ENVOY_VARIABLE, Path::new("/no/envoy"))]).binary(Binary::Envoy);
        assert_eq!(
            envoy.expect_err("no such file").to_string(),
            "find envoy: ENVOY_BIN names /no/envoy, which does not exist"
        );
        let etcd = tools(&[cache, (ASSETS_VARIABLE, Path::new("/no/assets"))]).binary(Binary::Etcd);
        assert!(matches!(
            etcd,
            Err(ToolError::BadOverride {
                variable: ASSETS_VARIABLE,
                ..
            })
        ));
    }
}
