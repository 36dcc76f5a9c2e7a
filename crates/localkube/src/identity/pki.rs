//! Keys and certificates, made on the spot for each cluster.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs;

use crate::state::layout::{Layout, write_private};
use crate::topology::{KUBERNETES_SERVICE, Node};
use crate::{Error, Result};

const CA_NAME: &str = "localkube";
/// The subject alternative names of the servers: loopback, the address of the first node, and the address and names of
/// the `kubernetes` Service.
const SERVER_NAMES: [&str; 8] = [
    "127.0.0.1",
    Node::First.address(),
    KUBERNETES_SERVICE,
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// A certificate and its key, as PEM.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The certificate authority of one cluster.
pub(crate) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates an authority, the serving certificate, the certificate of the API server for kubelets, and the keys that
    /// sign service account tokens, and writes them to the directory of the cluster.
    pub(crate) fn create(layout: &Layout) -> Result<Self> {
        let key = generate(CA_NAME)?;
        let certificate = ca_params().self_signed(&key).map_err(certificate_of(CA_NAME))?.pem();
        write_private(&layout.pki("ca.crt"), certificate.as_bytes())?;
        write_private(&layout.pki("ca.key"), key.serialize_pem().as_bytes())?;
        let authority = Self {
            certificate,
            issuer: Issuer::new(ca_params(), key),
        };

        let kubelets = authority.client("kube-apiserver", Some("system:masters"))?;
        for (name, pair) in [("server", authority.server()?), ("kubelet-client", kubelets)] {
            write_private(&layout.pki(&format!("{name}.crt")), pair.certificate.as_bytes())?;
            write_private(&layout.pki(&format!("{name}.key")), pair.key.as_bytes())?;
        }

        let tokens = generate("service accounts")?;
        write_private(&layout.pki("service-accounts.pub"), tokens.public_key_pem().as_bytes())?;
        write_private(&layout.pki("service-accounts.key"), tokens.serialize_pem().as_bytes())?;
        Ok(authority)
    }

    /// Reads the authority of a cluster that another process started. What an issuer puts into certificates is its name
    /// and its key; the name is always the same, so the certificate need not be parsed.
    pub(crate) fn open(layout: &Layout) -> Result<Self> {
        let read = |name| {
            let path = layout.pki(name);
            fs::read_to_string(&path).map_err(Error::io("read", &path))
        };
        let certificate = read("ca.crt")?;
        let key = KeyPair::from_pem(&read("ca.key")?).map_err(certificate_of(CA_NAME))?;
        Ok(Self {
            certificate,
            issuer: Issuer::new(ca_params(), key),
        })
    }

    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate by which the API server knows its bearer as `user`, in `group` if one is given. (The library keeps
    /// one organization for each name, hence one group.)
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(user, params)
    }

    fn server(&self) -> Result<Pair> {
        let name = "kube-apiserver";
        let names = SERVER_NAMES.map(str::to_owned);
        let mut params = CertificateParams::new(names).map_err(certificate_of(name))?;
        params.distinguished_name = named(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(name, params)
    }

    fn sign(&self, name: &str, mut params: CertificateParams) -> Result<Pair> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = generate(name)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(certificate_of(name))?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(CA_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn generate(name: &str) -> Result<KeyPair> {
    KeyPair::generate().map_err(certificate_of(name))
}

fn certificate_of(name: &str) -> impl FnOnce(rcgen::Error) -> Error {
    let name = name.to_owned();
    move |source| Error::Certificate { name, source }
}
