//! The `User-Agent` of all requests.

use std::env::consts::{ARCH, OS};

use hyper::header::HeaderValue;

/// The value of the `User-Agent` header, in the form that Kubernetes components use:
/// `firebolt-operator/0.1.0 (linux/amd64)`.
///
/// # Panics
///
/// If program or version are not visible ASCII.
#[must_use]
pub fn user_agent(program: &str, version: &str) -> HeaderValue {
    let value = format!("{program}/{version} ({}/{})", go_os(OS), go_arch(ARCH));
    HeaderValue::try_from(value).expect("program and version are visible ASCII")
}

/// Go's name of an operating system (`GOOS`).
fn go_os(os: &str) -> &str {
    match os {
        "macos" => "darwin",
        other => other,
    }
}

/// Go's name of a processor architecture (`GOARCH`). Audit logs compare it with the names of Kubernetes' own components.
fn go_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "loongarch64" => "loong64",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        "powerpc64" => "ppc64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_user_agent_names_program_version_and_platform() {
        let platform = format!("({}/{})", go_os(OS), go_arch(ARCH));
        assert_eq!(
            user_agent("firebolt-operator", "0.1.0"),
            format!("firebolt-operator/0.1.0 {platform}")
        );
    }

    #[rstest]
    #[case("x86_64", "amd64")]
    #[case("aarch64", "arm64")]
    #[case("riscv64", "riscv64")]
    #[case("s390x", "s390x")]
    fn architectures_have_the_names_of_go(#[case] rust: &str, #[case] go: &str) {
        assert_eq!(go_arch(rust), go);
    }
}
