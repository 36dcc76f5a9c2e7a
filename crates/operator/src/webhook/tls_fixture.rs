//! A self-signed server certificate and clients that trust it, for tests. Integration tests include this file too.

use std::fmt;
use std::sync::{Arc, Mutex};

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The name in the certificates.
const HOST: &str = "localhost";

/// A self-signed certificate with its key.
#[derive(Clone)]
pub(crate) struct Identity {
    key: Arc<CertifiedKey>,
    pub certificate: CertificateDer<'static>,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let key = CertifiedKey::from_der(vec![certificate.clone()], key, &ring::default_provider()).unwrap();
        Self {
            key: Arc::new(key),
            certificate,
        }
    }

    /// A client that trusts this certificate, with these TLS versions and ALPN protocols.
    pub(crate) fn client(&self, versions: &[&'static SupportedProtocolVersion], protocols: &[&str]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

/// Performs a TLS handshake.
pub(crate) async fn handshake(socket: TcpStream, client: &TlsConnector) -> std::io::Result<TlsStream<TcpStream>> {
    client.connect(ServerName::try_from(HOST).unwrap(), socket).await
}

/// Serves the identity that was set last.
pub(crate) struct Shown(Mutex<Identity>);

impl Shown {
    pub(crate) fn new(identity: Identity) -> Self {
        Self(Mutex::new(identity))
    }

    pub(crate) fn show(&self, identity: Identity) {
        *self.0.lock().unwrap() = identity;
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _client: ClientHello) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.lock().unwrap().key))
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("Shown")
    }
}
