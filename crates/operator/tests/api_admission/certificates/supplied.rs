//! Certificates that somebody else makes, as files.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::objects::eventually;
use crate::stage::Stage;
use crate::support::tls::{connect, trusted};

/// An authority of somebody's, and the folder that it puts certificates into.
struct Supplier {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    authority: String,
}

impl Supplier {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            authority: certificate.pem(),
            issuer: Issuer::new(parameters, key),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts another certificate into the folder, and returns it.
    fn supply(&self) -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        self.write(&certificate.pem(), &key.serialize_pem());
        certificate.der().to_vec()
    }

    fn write(&self, certificate: &str, key: &str) {
        fs::write(self.path().join("tls.crt"), certificate).unwrap();
        fs::write(self.path().join("tls.key"), key).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn supplied_certificates_are_served_and_followed() {
    let (mut stage, supplier) = (Stage::bare().await, Supplier::new());
    let first = supplier.supply();
    stage.start(&["--webhook-cert-dir", supplier.path().to_str().unwrap()]);
    stage.register(&stage.replicas[0].address).await;
    stage.set_trust(&supplier.authority).await;
    stage.wait_for_admission().await;
    let (roots, address) = (
        trusted(supplier.authority.as_bytes()),
        stage.replicas[0].address.parse().unwrap(),
    );
    assert_eq!(connect(&roots, address).await, Ok(first));

    let second = supplier.supply();
    let replaced = async || (connect(&roots, address).await.as_ref() == Ok(&second)).then_some(());
    eventually("the new certificate is served", replaced).await;

    supplier.write("garbage", "garbage");
    stage.operator().wait_for_log("cannot use the certificate in");
    assert_eq!(connect(&roots, address).await, Ok(second));
    stage.wait_for_admission().await;

    // They are somebody else's business: nothing was made, and whom to trust was left alone.
    assert_eq!(stage.bundle().await, supplier.authority.as_bytes());
    assert_eq!(stage.secrets().get_opt(&stage.namespace).await.unwrap(), None);
}
