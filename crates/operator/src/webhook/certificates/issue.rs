//! Issues a serving certificate, signed by a new CA. The key of the CA is discarded, so it cannot sign another.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use time::OffsetDateTime;

use super::certificate::{CaBundle, CaCertificate, Hosts, ServingPair};

/// Tolerated clock skew of API servers.
const CLOCK_SKEW: Duration = Duration::from_hours(1);

/// A serving certificate and its CA.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    /// The serving certificate with its key.
    pub pair: ServingPair,
    /// The CA certificate that verifies it.
    pub ca: CaCertificate,
}

/// Why no certificate could be issued.
#[derive(Debug, thiserror::Error)]
pub(super) enum IssueError {
    /// The library rejects the parameters, most likely a host.
    #[error("issue a certificate for {hosts:?}: {source}")]
    Rejected {
        /// The hosts of the certificate.
        hosts: String,
        /// The cause.
        source: rcgen::Error,
    },
    /// The issued certificate does not have the requested hosts or validity.
    #[error("issue a certificate for {hosts:?}: the result is not usable")]
    Unusable {
        /// The hosts of the certificate.
        hosts: String,
    },
}

/// How far in the past `notBefore` is set.
#[must_use]
pub(super) fn backdate(validity: Duration) -> Duration {
    CLOCK_SKEW.min(validity / 10)
}

/// Issues a CA and a serving certificate that are valid from a little before `now` until `validity` after it.
pub(super) fn issue(hosts: &Hosts, validity: Duration, now: Timestamp) -> Result<Issued, IssueError> {
    let names = || hosts.iter().collect::<Vec<_>>().join(", ");
    let (key, certificate, ca) =
        sign(hosts, validity, now).map_err(|source| IssueError::Rejected { hosts: names(), source })?;
    let pair = ServingPair::parse(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).ok();
    let ca = CaCertificate::new(ca.der().clone());
    pair.zip(ca)
        // A certificate that differs from the policy would be replaced again and again.
        .filter(|(pair, ca)| pair.hosts() == hosts && CaBundle::from(ca.clone()).verifies(pair, now))
        .map(|(pair, ca)| Issued { pair, ca })
        .ok_or_else(|| IssueError::Unusable { hosts: names() })
}

fn sign(
    hosts: &Hosts,
    validity: Duration,
    now: Timestamp,
) -> Result<(KeyPair, Certificate, Certificate), rcgen::Error> {
    let mut ca = parameters(
        CertificateParams::default(),
        "firebolt-operator webhook authority",
        validity,
        now,
    );
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let ca_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let ca_certificate = ca.self_signed(&ca_key)?;

    let names: Vec<String> = hosts.iter().map(str::to_owned).collect();
    let mut serving = parameters(
        CertificateParams::new(names)?,
        "firebolt-operator webhook",
        validity,
        now,
    );
    serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // All CAs have the same name; the key identifier tells clients which one signed.
    serving.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = serving.signed_by(&key, &Issuer::new(ca, ca_key))?;
    Ok((key, certificate, ca_certificate))
}

fn parameters(mut params: CertificateParams, name: &str, validity: Duration, now: Timestamp) -> CertificateParams {
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = offset_date_time(now - backdate(validity));
    params.not_after = offset_date_time(now + validity);
    params
}

fn offset_date_time(time: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(time.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use x509_parser::parse_x509_certificate;
    use x509_parser::prelude::ParsedExtension;

    use super::super::certificate::KeyPairError;
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn hosts() -> Hosts {
        Hosts::new(["operator.firebolt-system.svc", "127.0.0.1", "::1"])
    }

    fn now() -> Timestamp {
        "2026-05-04T03:02:01Z".parse().unwrap()
    }

    #[test]
    fn the_certificate_has_the_requested_hosts_and_validity() {
        let issued = issue(&hosts(), 30 * DAY, now()).unwrap();
        assert_eq!(issued.pair.hosts(), &hosts());
        assert_eq!(issued.pair.expires(), now() + 30 * DAY);
        let bundle = CaBundle::from(issued.ca.clone());
        assert!(bundle.verifies(&issued.pair, now()));
        assert!(
            bundle.verifies(&issued.pair, now() - Duration::from_mins(59)),
            "a clock that is behind"
        );
        assert!(!bundle.verifies(&issued.pair, now() - Duration::from_mins(61)));
        assert!(!bundle.verifies(&issued.pair, now() + 30 * DAY + Duration::from_secs(1)));
        let other = issue(&hosts(), 30 * DAY, now()).unwrap();
        assert!(
            !bundle.verifies(&other.pair, now()),
            "issued by another CA with the same name"
        );
    }

    #[test]
    fn the_ca_may_only_sign_and_the_certificate_may_only_serve() {
        let issued = issue(&hosts(), DAY, now()).unwrap();
        let rendered = pem::parse(CaBundle::from(issued.ca).to_pem()).unwrap();
        let (_, ca) = parse_x509_certificate(rendered.contents()).unwrap();
        let constraints = ca.basic_constraints().unwrap().unwrap().value;
        assert!(constraints.ca);
        assert_eq!(constraints.path_len_constraint, Some(0));
        let usage = ca.key_usage().unwrap().unwrap().value;
        assert!(usage.key_cert_sign() && !usage.digital_signature());

        let leaf = pem::parse(issued.pair.certificate()).unwrap();
        let (_, leaf) = parse_x509_certificate(leaf.contents()).unwrap();
        let purposes = leaf.extended_key_usage().unwrap().unwrap().value;
        assert!(purposes.server_auth && !purposes.client_auth && !leaf.is_ca());
        let names_its_issuer =
            |extension: &ParsedExtension| matches!(extension, ParsedExtension::AuthorityKeyIdentifier(_));
        assert!(
            leaf.extensions()
                .iter()
                .any(|extension| names_its_issuer(extension.parsed_extension()))
        );
    }

    #[rstest]
    #[case::no_hosts(&[], DAY)]
    #[case::invalid_host(&["größe"], DAY)]
    #[case::no_validity(&["a.b"], Duration::ZERO)]
    fn an_unusable_certificate_is_not_issued(#[case] hosts: &[&str], #[case] validity: Duration) {
        assert!(issue(&Hosts::new(hosts), validity, now()).is_err());
    }

    #[rstest]
    #[case(b"", b"", KeyPairError::NoCertificate)]
    #[case(b"garbage", b"", KeyPairError::NoCertificate)]
    #[case(
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        b"",
        KeyPairError::Certificate
    )]
    fn parsing_an_incomplete_pair_reports_what_is_wrong(
        #[case] certificate: &[u8],
        #[case] key: &[u8],
        #[case] error: KeyPairError,
    ) {
        assert_eq!(ServingPair::parse(certificate, key).unwrap_err(), error);
    }

    #[test]
    fn a_key_of_another_certificate_is_rejected() {
        let [one, other] = [(); 2].map(|()| issue(&hosts(), DAY, now()).unwrap().pair);
        assert_eq!(
            ServingPair::parse(one.certificate(), other.key()).unwrap_err(),
            KeyPairError::Mismatch
        );
        assert_eq!(
            ServingPair::parse(one.certificate(), b"").unwrap_err(),
            KeyPairError::Key
        );
        assert!(ServingPair::parse(one.certificate(), one.key()).is_ok());
    }

    #[test]
    fn debug_output_of_a_pair_does_not_contain_its_key() {
        let pair = issue(&hosts(), DAY, now()).unwrap().pair;
        let secret = String::from_utf8(pair.key().to_vec()).unwrap();
        let line = secret.lines().nth(1).unwrap();
        assert!(!format!("{pair:?}").contains(line));
    }

    #[test]
    fn a_bundle_is_parsed_from_its_own_pem_and_leaves_out_other_content() {
        let [one, other] = [(); 2].map(|()| issue(&hosts(), DAY, now()).unwrap());
        let bundle = CaBundle::from(one.ca).merge(other.ca.into());
        assert_eq!(CaBundle::parse(&bundle.to_pem()), bundle);
        let with_leaf = [bundle.to_pem(), other.pair.certificate().to_vec(), b"garbage".to_vec()].concat();
        assert_eq!(CaBundle::parse(&with_leaf), bundle);
        assert_eq!(CaBundle::parse(b"garbage"), CaBundle::default());
    }
}
