//! Certificates that are supplied as files.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::admission::client::eventually;
use crate::admission::testenv::AdmissionEnv;
use crate::support::tls::{connect, trusted};

/// A certificate authority of a user, and the folder that it puts certificates into.
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
async fn supplied_certificates_are_reloaded_and_invalid_ones_ignored() {
    let (mut env, supplier) = (AdmissionEnv::bare().await, Supplier::new());
    let first = supplier.supply();
    env.start_replica(&["--webhook-cert-dir", supplier.path().to_str().unwrap()]);
    env.register(&env.replicas[0].address).await;
    env.set_trust(&supplier.authority).await;
    env.wait_for_admission().await;
    let (roots, address) = (
        trusted(supplier.authority.as_bytes()),
        env.replicas[0].address.parse().unwrap(),
    );
    assert_eq!(connect(&roots, address).await, Ok(first));

    let second = supplier.supply();
    let replaced = async || (connect(&roots, address).await.as_ref() == Ok(&second)).then_some(());
    eventually("the new certificate is served", replaced).await;

    supplier.write("garbage", "garbage");
    env.operator().wait_for_log("cannot use the certificate");
    assert_eq!(connect(&roots, address).await, Ok(second));
    env.wait_for_admission().await;

    // They belong to another controller: nothing was created, and whom to trust was left alone.
    assert_eq!(env.bundle().await, supplier.authority.as_bytes());
    assert_eq!(env.secrets().get_opt(&env.namespace).await.unwrap(), None);
}
