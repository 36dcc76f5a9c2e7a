//! Every replica's part: serves what the Secret or the files hold, and goes on with what it has if they hold nothing usable.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::CertificateSettings;
use super::content::Content;
use super::look_after::LONGEST_PAUSE;
use super::material::Pair;
use super::served::Served;
use crate::backoff::RetryBackoff;
use crate::settings::LabelSelector;
use crate::watches::{Incidents, Trouble};

/// How often files are read: they are two small ones, and kubelet itself takes a minute to renew them.
const READ_EVERY: Duration = Duration::from_secs(5);

/// Keeps `served` equal to what the Secret holds. Runs for ever.
///
/// A pair is served only if the Secret also says whom to trust for it. The Secret is not for editing: what stands in it is
/// taken for what the leader has let API servers learn of.
pub async fn follow_secret(client: Client, settings: CertificateSettings, served: Arc<Served>) {
    let subject = format!("Secret {}/{}", settings.namespace, settings.secret);
    let api: Api<Secret> = Api::namespaced(client, &settings.namespace);
    let secrets = watch_object(api, &settings.secret).backoff(RetryBackoff::up_to(LONGEST_PAUSE));
    let mut secrets = pin!(secrets);
    let mut incidents = Incidents::with_pauses_up_to(LONGEST_PAUSE);
    while let Some(sight) = secrets.next().await {
        match sight {
            Ok(secret) => {
                if incidents.end() {
                    info!("can watch {subject} now");
                }
                served.stored(secret.is_some());
                serve_from(&served, secret.as_ref(), &subject);
            }
            Err(error) => {
                let trouble = Trouble::of(&error, &LabelSelector::default());
                if incidents.is_news(&trouble, Instant::now()) {
                    warn!(
                        "cannot watch {subject}: {}. Check that the API server is reachable, and that get, list and watch on \
                         it are granted (deploy/rbac.yaml does).",
                        trouble.cause()
                    );
                }
            }
        }
    }
}

fn serve_from(served: &Served, secret: Option<&Secret>, subject: &str) {
    let content = Content::read(secret);
    let is_trusted = |pair: &Pair| content.bundle.vouches_for(pair, Timestamp::now());
    let Some(pair) = content.current.filter(is_trusted) else {
        // The leader makes another; what is served until then stays trusted.
        debug!("there is no usable certificate in {subject}");
        return;
    };
    let expires = pair.ends();
    if served.serve(pair) {
        info!(%expires, "serving webhooks with the certificate in {subject}");
    }
}

/// Keeps `served` equal to `tls.crt` and `tls.key` in the folder. Runs for ever.
pub async fn follow_files(folder: PathBuf, served: Arc<Served>) {
    let mut reader = Reader {
        folder,
        served,
        last: None,
        told: None,
    };
    loop {
        reader.read().await;
        sleep(READ_EVERY).await;
    }
}

struct Reader {
    folder: PathBuf,
    served: Arc<Served>,
    /// What the last look found.
    last: Option<Result<Pair, String>>,
    /// The trouble that was last logged.
    told: Option<String>,
}

impl Reader {
    async fn read(&mut self) {
        let found = read_pair(&self.folder).await;
        match &found {
            Ok(pair) => {
                if self.served.serve(pair.clone()) || self.told.is_some() {
                    info!(expires = %pair.ends(), "serving webhooks with the certificate in {}", self.folder.display());
                }
                self.told = None;
            }
            // The files may have been swapped between the one and the other: only what stays is worth telling.
            Err(trouble) if self.last.as_ref() == Some(&found) && self.told.as_ref() != Some(trouble) => {
                let effect = if self.served.is_ready() {
                    "The certificate from before is still served"
                } else {
                    "Webhooks cannot be served"
                };
                warn!(
                    "cannot use the certificate in {}: {trouble}. {effect}: put a PEM certificate into tls.crt and its \
                     private key into tls.key.",
                    self.folder.display()
                );
                self.told = Some(trouble.clone());
            }
            Err(_) => {}
        }
        self.last = Some(found);
    }
}

async fn read_pair(folder: &Path) -> Result<Pair, String> {
    let read = async |name: &str| {
        let path = folder.join(name);
        let read = tokio::fs::read(&path).await;
        read.map_err(|error| format!("read {}: {error}", path.display()))
    };
    let (certificate, key) = (read("tls.crt").await?, read("tls.key").await?);
    Pair::read(&certificate, &key).map_err(|broken| broken.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;

    use super::super::material::Hosts;
    use super::super::mint::mint;
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn pair(days: u32) -> Pair {
        let hosts = Hosts::new(["localhost"]);
        mint(&hosts, DAY * days, Timestamp::now()).unwrap().pair
    }

    /// A folder as kubelet mounts it: links through another link, which is replaced as a whole.
    struct Mount(tempfile::TempDir);

    impl Mount {
        fn new() -> Self {
            let mount = Self(tempfile::tempdir().unwrap());
            for name in ["tls.crt", "tls.key"] {
                std::os::unix::fs::symlink(Path::new("..data").join(name), mount.0.path().join(name)).unwrap();
            }
            mount
        }

        fn swap(&self, version: &str, certificate: &[u8], key: &[u8]) {
            let (folder, link) = (self.0.path().join(version), self.0.path().join("..data_tmp"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("tls.crt"), certificate).unwrap();
            fs::write(folder.join("tls.key"), key).unwrap();
            std::os::unix::fs::symlink(version, &link).unwrap();
            fs::rename(link, self.0.path().join("..data")).unwrap();
        }

        fn reader(&self) -> Reader {
            Reader {
                folder: self.0.path().to_owned(),
                served: Arc::default(),
                last: None,
                told: None,
            }
        }
    }

    #[tokio::test]
    async fn files_are_served_and_served_anew_when_they_are_swapped() {
        let (mount, first, second) = (Mount::new(), pair(1), pair(2));
        let mut reader = mount.reader();
        reader.read().await;
        assert!(!reader.served.is_ready());
        mount.swap("1", first.certificate(), first.key());
        reader.read().await;
        assert_eq!(reader.served.expires(), Some(first.ends()));
        mount.swap("2", second.certificate(), second.key());
        reader.read().await;
        assert_eq!(reader.served.expires(), Some(second.ends()));
    }

    #[rstest]
    #[case::of_another_certificate(pair(1).certificate().to_vec(), pair(1).key().to_vec(), "does not belong")]
    #[case::cut_off(pair(1).certificate()[..100].to_vec(), pair(1).key().to_vec(), "certificate")]
    #[case::empty(vec![], vec![], "no PEM certificate")]
    #[tokio::test]
    async fn a_broken_pair_is_told_once_and_the_one_before_goes_on(
        #[case] certificate: Vec<u8>,
        #[case] key: Vec<u8>,
        #[case] why: &str,
    ) {
        let (mount, good) = (Mount::new(), pair(3));
        let mut reader = mount.reader();
        mount.swap("good", good.certificate(), good.key());
        reader.read().await;
        mount.swap("broken", &certificate, &key);
        reader.read().await;
        assert_eq!(reader.told, None, "it may be half of a swap");
        reader.read().await;
        assert!(
            reader.told.as_ref().is_some_and(|told| told.contains(why)),
            "{:?}",
            reader.told
        );
        assert_eq!(reader.served.expires(), Some(good.ends()));
        mount.swap("better", good.certificate(), good.key());
        reader.read().await;
        assert_eq!(reader.told, None);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_the_first_certificate_gets_it() {
        let (mount, served, good) = (Mount::new(), Arc::new(Served::default()), pair(1));
        let following = tokio::spawn(follow_files(mount.0.path().to_owned(), Arc::clone(&served)));
        let waiting = tokio::spawn({
            let served = Arc::clone(&served);
            async move { served.ready().await }
        });
        sleep(3 * READ_EVERY).await;
        assert!(!waiting.is_finished());
        mount.swap("1", good.certificate(), good.key());
        waiting.await.unwrap();
        assert_eq!(served.expires(), Some(good.ends()));
        following.abort();
    }
}
