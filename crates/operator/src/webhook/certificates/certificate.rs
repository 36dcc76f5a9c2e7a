//! Certificates in memory: serving certificates with their keys, and the CA certificates that verify them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;
use pem::{EncodeConfig, LineEnding, Pem};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// Limit on the CA certificates in a bundle. A rotation needs two, and a few more if rotations follow each other closely.
/// Without a limit, two operators with different hosts that take turns would fill the Secret.
const MAX_CAS: usize = 5;

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));

/// DNS names and IP addresses in normal form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hosts(BTreeSet<String>);

impl Hosts {
    /// Normalizes names as they are written in flags.
    pub(super) fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self(names.into_iter().map(|name| normalized(name.as_ref())).collect())
    }

    /// All names and addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

fn normalized(name: &str) -> String {
    name.parse::<IpAddr>()
        .map_or_else(|_| name.to_ascii_lowercase(), |address| address.to_string())
}

/// Why a certificate and a key cannot be served. The text contains nothing of either: a key in the wrong file must not be
/// logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyPairError {
    /// There is no certificate.
    #[error("no PEM certificate found")]
    NoCertificate,
    /// The certificate cannot be parsed.
    #[error("cannot parse the certificate")]
    Certificate,
    /// There is no key, or its type is not supported.
    #[error("no PEM private key of a supported type found")]
    Key,
    /// The key belongs to another certificate.
    #[error("the private key does not match the certificate")]
    Mismatch,
}

/// A serving certificate with its key.
#[derive(Clone)]
pub(super) struct ServingPair {
    certificate: Vec<u8>,
    key: Vec<u8>,
    certified_key: Arc<CertifiedKey>,
    fields: Fields,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    not_before: Timestamp,
    not_after: Timestamp,
    hosts: Hosts,
    is_ca: bool,
}

impl ServingPair {
    /// Parses both as PEM, and checks that the key matches the certificate.
    pub(super) fn parse(certificate: &[u8], key: &[u8]) -> Result<Self, KeyPairError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|_| KeyPairError::Certificate)?;
        let fields = Fields::of(chain.first().ok_or(KeyPairError::NoCertificate)?).ok_or(KeyPairError::Certificate)?;
        let private_key = PrivateKeyDer::from_pem_slice(key).map_err(|_| KeyPairError::Key)?;
        let certified_key = CertifiedKey::from_der(chain, private_key, &PROVIDER).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => KeyPairError::Mismatch,
            rustls::Error::InvalidCertificate(_) => KeyPairError::Certificate,
            _ => KeyPairError::Key,
        })?;
        Ok(Self {
            certificate: certificate.to_vec(),
            key: key.to_vec(),
            certified_key: Arc::new(certified_key),
            fields,
        })
    }

    /// The certificate with its chain, as PEM.
    #[must_use]
    pub(super) fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The private key, as PEM.
    #[must_use]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// For a TLS server.
    #[must_use]
    pub(super) fn certified_key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified_key)
    }

    /// The end of its validity (`notAfter`).
    #[must_use]
    pub(super) fn expires(&self) -> Timestamp {
        self.fields.not_after
    }

    /// Its subject alternative names.
    #[must_use]
    pub(super) fn hosts(&self) -> &Hosts {
        &self.fields.hosts
    }
}

impl PartialEq for ServingPair {
    fn eq(&self, other: &Self) -> bool {
        (&self.certificate, &self.key) == (&other.certificate, &other.key)
    }
}

impl Eq for ServingPair {}

impl fmt::Debug for ServingPair {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        self.fields.fmt(formatter)
    }
}

impl Fields {
    fn of(der: &CertificateDer) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(der).ok()?;
        let validity = certificate.validity();
        Some(Self {
            not_before: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
            not_after: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
            hosts: hosts_of(&certificate),
            is_ca: certificate.is_ca(),
        })
    }
}

fn hosts_of(certificate: &X509Certificate) -> Hosts {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.iter().flat_map(|extension| &extension.value.general_names);
    Hosts(names.filter_map(host_of).collect())
}

fn host_of(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(normalized(name)),
        GeneralName::IPAddress(octets) => {
            let four = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// The certificate of a CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CaCertificate {
    der: CertificateDer<'static>,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl CaCertificate {
    /// None if the certificate is not one of a CA.
    #[must_use]
    pub(super) fn new(der: CertificateDer<'static>) -> Option<Self> {
        let fields = Fields::of(&der).filter(|fields| fields.is_ca)?;
        Some(Self {
            der,
            not_before: fields.not_before,
            not_after: fields.not_after,
        })
    }
}

/// CA certificates, as in `caBundle`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CaBundle(Vec<CaCertificate>);

impl CaBundle {
    /// Parses PEM. Certificates that are not those of a CA, or cannot be parsed, are left out.
    #[must_use]
    pub(super) fn parse(text: &[u8]) -> Self {
        let certificates = CertificateDer::pem_slice_iter(text).map_while(Result::ok);
        Self(certificates.filter_map(CaCertificate::new).collect())
    }

    /// As PEM.
    #[must_use]
    pub(super) fn to_pem(&self) -> Vec<u8> {
        let style = EncodeConfig::new().set_line_ending(LineEnding::LF);
        let encode = |ca: &CaCertificate| pem::encode_config(&Pem::new("CERTIFICATE", ca.der.to_vec()), style);
        self.0.iter().map(encode).collect::<String>().into_bytes()
    }

    /// Whether there is no CA certificate.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CA certificates that have not expired.
    #[must_use]
    pub(super) fn unexpired(&self, now: Timestamp) -> Self {
        Self(self.0.iter().filter(|ca| now < ca.not_after).cloned().collect())
    }

    /// Sorted by `notBefore`, the newest first.
    #[must_use]
    pub(super) fn newest_first(mut self) -> Self {
        self.0.sort_by_key(|ca| Reverse(ca.not_before));
        self
    }

    /// Appends the CA certificates of `other` that are missing here, up to the limit.
    #[must_use]
    pub(super) fn merge(mut self, other: Self) -> Self {
        for ca in other.0 {
            if !self.0.contains(&ca) {
                self.0.push(ca);
            }
        }
        self.0.truncate(MAX_CAS);
        self
    }

    /// The CA certificates that verify the serving certificate.
    #[must_use]
    pub(super) fn that_verify(&self, pair: &ServingPair, now: Timestamp) -> Self {
        let verifies = |ca: &&CaCertificate| Self(vec![(*ca).clone()]).verifies(pair, now);
        Self(self.0.iter().filter(verifies).cloned().collect())
    }

    /// Whether a client with this bundle accepts the serving certificate.
    #[must_use]
    pub(super) fn verifies(&self, pair: &ServingPair, now: Timestamp) -> bool {
        let mut roots = RootCertStore::empty();
        // The library does not check the validity of a root; the API server does.
        roots.add_parsable_certificates(self.unexpired(now).0.into_iter().map(|ca| ca.der));
        let roots = Arc::new(roots);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&PROVIDER)).build();
        let name = pair
            .fields
            .hosts
            .iter()
            .find_map(|host| ServerName::try_from(host).ok());
        let ([certificate, issuers @ ..], Ok(verifier), Some(name)) = (&*pair.certified_key.cert, verifier, name)
        else {
            return false;
        };
        let since_epoch = Duration::from_secs(now.as_second().try_into().unwrap_or_default());
        let time = UnixTime::since_unix_epoch(since_epoch);
        verifier
            .verify_server_cert(certificate, issuers, &name, &[], time)
            .is_ok()
    }
}

impl From<CaCertificate> for CaBundle {
    fn from(ca: CaCertificate) -> Self {
        Self(vec![ca])
    }
}
