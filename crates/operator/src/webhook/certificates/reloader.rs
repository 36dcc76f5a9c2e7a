//! Every replica's part: serves the certificate in the Secret or in files. If they have no usable certificate, the server
//! keeps the one it has.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use firebolt_runtime::backoff::WatchBackoff;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::certificate::ServingPair;
use super::secret::SecretData;
use super::serving::ServingCertificate;
use super::watched::{MAX_BACKOFF, WatchedObject};
use crate::settings::CertificateSettings;

/// How often the files are read: they are small, and the kubelet takes about a minute to update them.
const READ_INTERVAL: Duration = Duration::from_secs(5);

/// Serves the certificate in the Secret, and each new one. Runs for ever.
///
/// A certificate is served only if the bundle in the Secret verifies it. Users must not edit the Secret: replicas rely on
/// the leader to have injected its bundle into the webhook configurations.
pub async fn reload_from_secret(client: Client, settings: CertificateSettings, serving: Arc<ServingCertificate>) {
    let mut secret = WatchedObject::new("Secret", &settings.namespace, &settings.secret);
    let api: Api<Secret> = Api::namespaced(client, &settings.namespace);
    let events = watch_object(api, &settings.secret).backoff(WatchBackoff::up_to(MAX_BACKOFF));
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        let is_observed = event.is_ok();
        secret.observe(event);
        if is_observed {
            serving.set_secret_exists(secret.get().is_some());
            serve(&serving, secret.get(), &settings);
        }
    }
}

fn serve(serving: &ServingCertificate, secret: Option<&Secret>, settings: &CertificateSettings) {
    let CertificateSettings {
        namespace,
        secret: name,
        ..
    } = settings;
    let data = SecretData::parse(secret);
    let is_verified = |pair: &ServingPair| data.bundle.verifies(pair, Timestamp::now());
    let Some(pair) = data.current.filter(is_verified) else {
        // The leader issues another. The certificate in use stays in every caBundle until then.
        debug!(kind = "Secret", namespace, name, "no usable serving certificate");
        return;
    };
    let expires = pair.expires();
    if serving.replace(pair) {
        info!(kind = "Secret", namespace, name, %expires, "serving webhooks with the certificate");
    }
}

/// Serves the certificate in `tls.crt` and `tls.key` of the directory, and each new one. Runs for ever.
pub(crate) async fn reload_from_files(directory: PathBuf, serving: Arc<ServingCertificate>) {
    let mut reloader = FileReloader {
        directory,
        serving,
        last: None,
        reported: None,
    };
    loop {
        reloader.read().await;
        sleep(READ_INTERVAL).await;
    }
}

struct FileReloader {
    directory: PathBuf,
    serving: Arc<ServingCertificate>,
    /// The result of the last read.
    last: Option<Result<ServingPair, String>>,
    /// The failure that was logged last.
    reported: Option<String>,
}

impl FileReloader {
    async fn read(&mut self) {
        let result = read_pair(&self.directory).await;
        let directory = self.directory.display();
        match &result {
            Ok(pair) => {
                if self.serving.replace(pair.clone()) || self.reported.is_some() {
                    info!(%directory, expires = %pair.expires(), "serving webhooks with the certificate");
                }
                self.reported = None;
            }
            // The files may have been replaced between the two reads: a failure is logged when it happens twice.
            Err(error) if self.last.as_ref() == Some(&result) && self.reported.as_ref() != Some(error) => {
                let effect = if self.serving.is_ready() {
                    "The previous certificate is still served"
                } else {
                    "Webhooks cannot be served"
                };
                warn!(
                    %directory,
                    "cannot use the certificate: {error}. {effect}. Put a PEM certificate into tls.crt and its private key into \
                     tls.key."
                );
                self.reported = Some(error.clone());
            }
            Err(_) => {}
        }
        self.last = Some(result);
    }
}

async fn read_pair(directory: &Path) -> Result<ServingPair, String> {
    let read = async |name: &str| {
        let path = directory.join(name);
        let read = tokio::fs::read(&path).await;
        read.map_err(|error| format!("read {}: {error}", path.display()))
    };
    let (certificate, key) = (read("tls.crt").await?, read("tls.key").await?);
    ServingPair::parse(&certificate, &key).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;

    use super::super::certificate::Hosts;
    use super::super::issue::issue;
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn pair(days: u32) -> ServingPair {
        let hosts = Hosts::new(["localhost"]);
        issue(&hosts, DAY * days, Timestamp::now()).unwrap().pair
    }

    /// A volume as the kubelet mounts it: the files are links through another link, which is replaced atomically.
    struct Mount(tempfile::TempDir);

    impl Mount {
        fn new() -> Self {
            let mount = Self(tempfile::tempdir().unwrap());
            for name in ["tls.crt", "tls.key"] {
                std::os::unix::fs::symlink(Path::new("..data").join(name), mount.0.path().join(name)).unwrap();
            }
            mount
        }

        fn update(&self, version: &str, certificate: &[u8], key: &[u8]) {
            let (directory, link) = (self.0.path().join(version), self.0.path().join("..data_tmp"));
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("tls.crt"), certificate).unwrap();
            fs::write(directory.join("tls.key"), key).unwrap();
            std::os::unix::fs::symlink(version, &link).unwrap();
            fs::rename(link, self.0.path().join("..data")).unwrap();
        }

        fn reloader(&self) -> FileReloader {
            FileReloader {
                directory: self.0.path().to_owned(),
                serving: Arc::default(),
                last: None,
                reported: None,
            }
        }
    }

    #[tokio::test]
    async fn files_are_reloaded_when_they_change() {
        let (mount, first, second) = (Mount::new(), pair(1), pair(2));
        let mut reloader = mount.reloader();
        reloader.read().await;
        assert!(!reloader.serving.is_ready());
        mount.update("1", first.certificate(), first.key());
        reloader.read().await;
        assert_eq!(reloader.serving.expires(), Some(first.expires()));
        mount.update("2", second.certificate(), second.key());
        reloader.read().await;
        assert_eq!(reloader.serving.expires(), Some(second.expires()));
    }

    #[rstest]
    #[case::of_another_certificate(pair(1).certificate().to_vec(), pair(1).key().to_vec(), "does not match")]
    #[case::cut_off(pair(1).certificate()[..100].to_vec(), pair(1).key().to_vec(), "certificate")]
    #[case::empty(vec![], vec![], "no PEM certificate")]
    #[tokio::test]
    async fn an_unusable_pair_is_reported_once_and_the_previous_one_is_kept(
        #[case] certificate: Vec<u8>,
        #[case] key: Vec<u8>,
        #[case] error: &str,
    ) {
        let (mount, good) = (Mount::new(), pair(3));
        let mut reloader = mount.reloader();
        mount.update("good", good.certificate(), good.key());
        reloader.read().await;
        mount.update("broken", &certificate, &key);
        reloader.read().await;
        assert_eq!(reloader.reported, None, "the update may be incomplete");
        reloader.read().await;
        assert!(
            reloader
                .reported
                .as_ref()
                .is_some_and(|reported| reported.contains(error)),
            "{:?}",
            reloader.reported
        );
        assert_eq!(reloader.serving.expires(), Some(good.expires()));
        mount.update("better", good.certificate(), good.key());
        reloader.read().await;
        assert_eq!(reloader.reported, None);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_the_first_certificate_ends_when_it_is_read() {
        let (mount, serving, good) = (Mount::new(), Arc::new(ServingCertificate::default()), pair(1));
        let reloading = tokio::spawn(reload_from_files(mount.0.path().to_owned(), Arc::clone(&serving)));
        let waiting = tokio::spawn({
            let serving = Arc::clone(&serving);
            async move { serving.ready().await }
        });
        sleep(3 * READ_INTERVAL).await;
        assert!(!waiting.is_finished());
        mount.update("1", good.certificate(), good.key());
        waiting.await.unwrap();
        assert_eq!(serving.expires(), Some(good.expires()));
        reloading.abort();
    }
}
