//! Certificates as they are stored: pairs that can be served, and the authorities that vouch for them.

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

/// How many authorities a bundle holds at most. Two do in a rotation, a few more if one follows the other closely; without
/// a limit, two operators that want different hosts and take turns would fill the Secret.
const MOST_AUTHORITIES: usize = 5;

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));

/// DNS names and IP addresses, spelled in one way only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    /// Those names, as in flags.
    pub fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self(names.into_iter().map(|name| spelled(name.as_ref())).collect())
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

fn spelled(name: &str) -> String {
    name.parse::<IpAddr>()
        .map_or_else(|_| name.to_ascii_lowercase(), |address| address.to_string())
}

/// Why a certificate and a key cannot be served. Nothing of either is repeated here: a key that stands in the wrong place
/// must not end in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// There is no certificate.
    #[error("there is no PEM certificate in the certificate's place")]
    NoCertificate,
    /// There is one that cannot be read.
    #[error("the certificate cannot be read")]
    Certificate,
    /// There is no key, or one that cannot be used.
    #[error("there is no PEM private key of a known kind in the key's place")]
    Key,
    /// The key is that of another certificate.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
}

/// A serving certificate with its key.
#[derive(Clone)]
pub struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
    served: Arc<CertifiedKey>,
    facts: Facts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    begins: Timestamp,
    ends: Timestamp,
    hosts: Hosts,
    is_authority: bool,
}

impl Pair {
    /// Reads both as PEM. They belong together if this succeeds.
    pub fn read(certificate: &[u8], key: &[u8]) -> Result<Self, Broken> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|_| Broken::Certificate)?;
        let facts = Facts::of(chain.first().ok_or(Broken::NoCertificate)?).ok_or(Broken::Certificate)?;
        let private_key = PrivateKeyDer::from_pem_slice(key).map_err(|_| Broken::Key)?;
        let served = CertifiedKey::from_der(chain, private_key, &PROVIDER).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => Broken::Mismatch,
            rustls::Error::InvalidCertificate(_) => Broken::Certificate,
            _ => Broken::Key,
        })?;
        Ok(Self {
            certificate: certificate.to_vec(),
            key: key.to_vec(),
            served: Arc::new(served),
            facts,
        })
    }

    /// The certificate and what it was issued under, as PEM.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The private key, as PEM.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// What a TLS server takes.
    #[must_use]
    pub fn served(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.served)
    }

    /// The end of its validity.
    #[must_use]
    pub fn ends(&self) -> Timestamp {
        self.facts.ends
    }

    /// What it is for.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.facts.hosts
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        (&self.certificate, &self.key) == (&other.certificate, &other.key)
    }
}

impl Eq for Pair {}

impl fmt::Debug for Pair {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        self.facts.fmt(formatter)
    }
}

impl Facts {
    fn of(der: &CertificateDer) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(der).ok()?;
        let validity = certificate.validity();
        Some(Self {
            begins: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
            ends: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
            hosts: hosts_of(&certificate),
            is_authority: certificate.is_ca(),
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
        GeneralName::DNSName(name) => Some(spelled(name)),
        GeneralName::IPAddress(octets) => {
            let four = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// The certificate of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    der: CertificateDer<'static>,
    begins: Timestamp,
    ends: Timestamp,
}

impl Authority {
    /// Takes a certificate that may sign others.
    #[must_use]
    pub fn new(der: CertificateDer<'static>) -> Option<Self> {
        let facts = Facts::of(&der).filter(|facts| facts.is_authority)?;
        Some(Self {
            der,
            begins: facts.begins,
            ends: facts.ends,
        })
    }
}

/// The authorities that are trusted together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle(Vec<Authority>);

impl Bundle {
    /// Reads the authorities out of PEM. What is none, or cannot be read, is left out.
    #[must_use]
    pub fn read(text: &[u8]) -> Self {
        let certificates = CertificateDer::pem_slice_iter(text).map_while(Result::ok);
        Self(certificates.filter_map(Authority::new).collect())
    }

    /// As PEM.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let style = EncodeConfig::new().set_line_ending(LineEnding::LF);
        let encode =
            |authority: &Authority| pem::encode_config(&Pem::new("CERTIFICATE", authority.der.to_vec()), style);
        self.0.iter().map(encode).collect::<String>().into_bytes()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that have not expired.
    #[must_use]
    pub fn valid_at(&self, now: Timestamp) -> Self {
        Self(
            self.0
                .iter()
                .filter(|authority| now < authority.ends)
                .cloned()
                .collect(),
        )
    }

    /// The latest first.
    #[must_use]
    pub fn latest_first(mut self) -> Self {
        self.0.sort_by_key(|authority| Reverse(authority.begins));
        self
    }

    /// These, and then those of the other that are not among them, up to the limit.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        for authority in other.0 {
            if !self.0.contains(&authority) {
                self.0.push(authority);
            }
        }
        self.0.truncate(MOST_AUTHORITIES);
        self
    }

    /// Those that vouch for the pair.
    #[must_use]
    pub fn vouching_for(&self, pair: &Pair, now: Timestamp) -> Self {
        let vouches = |authority: &&Authority| Self(vec![(*authority).clone()]).vouches_for(pair, now);
        Self(self.0.iter().filter(vouches).cloned().collect())
    }

    /// Whether a client that trusts these accepts the pair.
    #[must_use]
    pub fn vouches_for(&self, pair: &Pair, now: Timestamp) -> bool {
        let mut roots = RootCertStore::empty();
        // The library does not ask for the validity of a root; the API server does.
        roots.add_parsable_certificates(self.valid_at(now).0.into_iter().map(|authority| authority.der));
        let roots = Arc::new(roots);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&PROVIDER)).build();
        let name = pair.facts.hosts.iter().find_map(|host| ServerName::try_from(host).ok());
        let ([certificate, issuers @ ..], Ok(verifier), Some(name)) = (&*pair.served.cert, verifier, name) else {
            return false;
        };
        let since_epoch = Duration::from_secs(now.as_second().try_into().unwrap_or_default());
        let time = UnixTime::since_unix_epoch(since_epoch);
        verifier
            .verify_server_cert(certificate, issuers, &name, &[], time)
            .is_ok()
    }
}

impl From<Authority> for Bundle {
    fn from(authority: Authority) -> Self {
        Self(vec![authority])
    }
}
