//! All states of an object, for changes that are too quick for polling.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::testenv::{Namespaced, TestEnv};

/// The states of one object since the history was started.
pub struct History<'env, K> {
    env: &'env TestEnv,
    name: String,
    states: Vec<K>,
    news: UnboundedReceiver<K>,
    watch: JoinHandle<()>,
}

impl TestEnv {
    /// Records all states of an object from now on.
    pub async fn history<K: Namespaced + Send + Sync + 'static>(&self, name: &str) -> History<'_, K> {
        let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
        // From the present state on.
        let events = self.api().watch(&parameters, "0").await;
        let events = events.expect("watch an object").boxed();
        let api = self.api();
        let (sender, news) = unbounded_channel();
        History {
            env: self,
            name: name.to_owned(),
            states: Vec::new(),
            news,
            watch: tokio::spawn(follow(api, parameters, events, sender)),
        }
    }
}

impl<K: Namespaced> History<'_, K> {
    /// Waits for the next state that satisfies the condition, and returns it.
    pub async fn reaches(&mut self, sentence: &str, is: impl Fn(&K) -> bool) -> K {
        let Self { env, states, news, .. } = self;
        let found = async || {
            loop {
                let state = match news.try_recv() {
                    Ok(state) => state,
                    Err(TryRecvError::Empty) => return None,
                    Err(TryRecvError::Disconnected) => panic!("the watch ended, and still not: {sentence}"),
                };
                states.push(state.clone());
                if is(&state) {
                    return Some(state);
                }
            }
        };
        env.eventually(sentence, found).await
    }

    /// All states until now.
    pub async fn until_now(&mut self) -> &[K] {
        let name = self.name.clone();
        let now = self.env.get::<K>(&name).await.resource_version();
        let is_now = |state: &K| state.resource_version() == now;
        if !self.states.iter().any(is_now) {
            self.reaches(&format!("the present state of {name} is observed"), is_now)
                .await;
        }
        &self.states
    }
}

impl<K> Drop for History<'_, K> {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

async fn follow<K: Namespaced + Send + 'static>(
    api: Api<K>,
    parameters: WatchParams,
    mut events: BoxStream<'static, kube::Result<WatchEvent<K>>>,
    states: UnboundedSender<K>,
) {
    let mut version = String::new();
    loop {
        while let Some(event) = events.next().await {
            match event.expect("watch an object") {
                WatchEvent::Added(state) | WatchEvent::Modified(state) => {
                    version = state.resource_version().unwrap_or_default();
                    // The receiver is gone when the test is over.
                    let _over = states.send(state);
                }
                WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                WatchEvent::Deleted(_) => {}
                WatchEvent::Error(error) => panic!("watch an object: {error:?}"),
            }
        }
        // The API server ends a watch after some minutes.
        let again = api.watch(&parameters, &version).await;
        events = again.expect("watch an object again").boxed();
    }
}
