//! Makes a certificate authority that signs one serving certificate and is forgotten: its key is never stored, so nobody
//! can sign another.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use time::OffsetDateTime;

use super::material::{Authority, Bundle, Hosts, Pair};

/// Clocks of API servers may be behind ours by this much.
const SKEW: Duration = Duration::from_hours(1);

/// A pair and the authority that vouches for it.
#[derive(Clone, Debug)]
pub struct Minted {
    /// What is served.
    pub pair: Pair,
    /// What is trusted.
    pub authority: Authority,
}

/// Why nothing could be made.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// The library refuses, most likely a host.
    #[error("make a certificate for {hosts:?}: {source}")]
    Refused {
        /// What it was to be for.
        hosts: String,
        /// The cause.
        source: rcgen::Error,
    },
    /// What was made cannot be read back.
    #[error("make a certificate for {hosts:?}: it could not be used")]
    Unusable {
        /// What it was to be for.
        hosts: String,
    },
}

/// How far before now a certificate begins.
#[must_use]
pub fn backdate(validity: Duration) -> Duration {
    SKEW.min(validity / 10)
}

/// Makes an authority and a serving pair that are valid from a little before `now` until `validity` after it.
pub fn mint(hosts: &Hosts, validity: Duration, now: Timestamp) -> Result<Minted, MintError> {
    let names = || hosts.iter().collect::<Vec<_>>().join(", ");
    let (key, certificate, authority) =
        sign(hosts, validity, now).map_err(|source| MintError::Refused { hosts: names(), source })?;
    let pair = Pair::read(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).ok();
    let authority = Authority::new(authority.der().clone());
    pair.zip(authority)
        // What does not come out as it was asked for would be replaced at once, and again, and again.
        .filter(|(pair, authority)| pair.hosts() == hosts && Bundle::from(authority.clone()).vouches_for(pair, now))
        .map(|(pair, authority)| Minted { pair, authority })
        .ok_or_else(|| MintError::Unusable { hosts: names() })
}

fn sign(
    hosts: &Hosts,
    validity: Duration,
    now: Timestamp,
) -> Result<(KeyPair, Certificate, Certificate), rcgen::Error> {
    let mut authority = lasting(
        CertificateParams::default(),
        "firebolt-operator webhook authority",
        validity,
        now,
    );
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let authority_certificate = authority.self_signed(&authority_key)?;

    let names: Vec<String> = hosts.iter().map(str::to_owned).collect();
    let mut serving = lasting(
        CertificateParams::new(names)?,
        "firebolt-operator webhook",
        validity,
        now,
    );
    serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // All authorities have one name; this tells clients which of them it was.
    serving.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = serving.signed_by(&key, &Issuer::new(authority, authority_key))?;
    Ok((key, certificate, authority_certificate))
}

fn lasting(mut params: CertificateParams, name: &str, validity: Duration, now: Timestamp) -> CertificateParams {
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = time_of(now - backdate(validity));
    params.not_after = time_of(now + validity);
    params
}

fn time_of(moment: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(moment.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use x509_parser::parse_x509_certificate;
    use x509_parser::prelude::ParsedExtension;

    use super::super::material::Broken;
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn hosts() -> Hosts {
        Hosts::new(["operator.firebolt-system.svc", "127.0.0.1", "::1"])
    }

    fn now() -> Timestamp {
        "2026-05-04T03:02:01Z".parse().unwrap()
    }

    #[test]
    fn what_is_made_is_what_was_asked_for() {
        let minted = mint(&hosts(), 30 * DAY, now()).unwrap();
        assert_eq!(minted.pair.hosts(), &hosts());
        assert_eq!(minted.pair.ends(), now() + 30 * DAY);
        let bundle = Bundle::from(minted.authority.clone());
        assert!(bundle.vouches_for(&minted.pair, now()));
        assert!(
            bundle.vouches_for(&minted.pair, now() - Duration::from_mins(59)),
            "a clock behind ours"
        );
        assert!(!bundle.vouches_for(&minted.pair, now() - Duration::from_mins(61)));
        assert!(!bundle.vouches_for(&minted.pair, now() + 30 * DAY + Duration::from_secs(1)));
        let other = mint(&hosts(), 30 * DAY, now()).unwrap();
        assert!(
            !bundle.vouches_for(&other.pair, now()),
            "of another authority with the same name"
        );
    }

    #[test]
    fn an_authority_signs_serving_certificates_and_nothing_else() {
        let minted = mint(&hosts(), DAY, now()).unwrap();
        let rendered = pem::parse(Bundle::from(minted.authority).render()).unwrap();
        let (_, authority) = parse_x509_certificate(rendered.contents()).unwrap();
        let constraints = authority.basic_constraints().unwrap().unwrap().value;
        assert!(constraints.ca);
        assert_eq!(constraints.path_len_constraint, Some(0));
        let usage = authority.key_usage().unwrap().unwrap().value;
        assert!(usage.key_cert_sign() && !usage.digital_signature());

        let leaf = pem::parse(minted.pair.certificate()).unwrap();
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
    #[case::no_host_at_all(&["größe"], DAY)]
    #[case::no_time(&["a.b"], Duration::ZERO)]
    fn what_could_not_be_used_is_not_made(#[case] hosts: &[&str], #[case] validity: Duration) {
        assert!(mint(&Hosts::new(hosts), validity, now()).is_err());
    }

    #[rstest]
    #[case(b"", b"", Broken::NoCertificate)]
    #[case(b"garbage", b"", Broken::NoCertificate)]
    #[case(
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        b"",
        Broken::Certificate
    )]
    fn a_pair_that_is_not_whole_says_what_is_wrong(
        #[case] certificate: &[u8],
        #[case] key: &[u8],
        #[case] why: Broken,
    ) {
        assert_eq!(Pair::read(certificate, key).unwrap_err(), why);
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let [one, other] = [(); 2].map(|()| mint(&hosts(), DAY, now()).unwrap().pair);
        assert_eq!(
            Pair::read(one.certificate(), other.key()).unwrap_err(),
            Broken::Mismatch
        );
        assert_eq!(Pair::read(one.certificate(), b"").unwrap_err(), Broken::Key);
        assert!(Pair::read(one.certificate(), one.key()).is_ok());
    }

    #[test]
    fn nothing_that_is_logged_of_a_pair_shows_its_key() {
        let pair = mint(&hosts(), DAY, now()).unwrap().pair;
        let secret = String::from_utf8(pair.key().to_vec()).unwrap();
        let line = secret.lines().nth(1).unwrap();
        assert!(!format!("{pair:?}").contains(line));
    }

    #[test]
    fn a_bundle_survives_its_text_and_leaves_out_what_it_cannot_read() {
        let [one, other] = [(); 2].map(|()| mint(&hosts(), DAY, now()).unwrap());
        let bundle = Bundle::from(one.authority).then(other.authority.into());
        assert_eq!(Bundle::read(&bundle.render()), bundle);
        let with_leaf = [bundle.render(), other.pair.certificate().to_vec(), b"garbage".to_vec()].concat();
        assert_eq!(Bundle::read(&with_leaf), bundle);
        assert_eq!(Bundle::read(b"garbage"), Bundle::default());
    }
}
