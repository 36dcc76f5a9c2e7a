//! The watches that run through the proxy, and what can be done to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::{Body, BodyDataStream, Bytes};
use futures::{StreamExt, stream};
use tokio::sync::{mpsc, watch};

use super::Cut;

/// What becomes of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disturbance {
    /// It stays open and sends no more events.
    Silence,
    /// It ends as if its time were over.
    End,
    /// It reports that the resource version is too old, and ends.
    Gone,
}

const GONE: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;

/// The kinds whose watches are held up, each with the version as of which its caches are filled meanwhile.
type Frozen = BTreeMap<String, String>;

/// All watches of one proxy.
#[derive(Clone, Debug)]
pub(super) struct Watches(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    running: Mutex<Vec<Running>>,
    frozen: watch::Sender<Frozen>,
}

#[derive(Debug)]
struct Running {
    resource: String,
    disturb: watch::Sender<Option<Disturbance>>,
}

impl Watches {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared {
            running: Mutex::default(),
            frozen: watch::Sender::new(Frozen::new()),
        }))
    }

    pub(super) fn freeze(&self, resource: &str, version: String) {
        let frozen = &self.0.frozen;
        frozen.send_modify(|frozen| drop(frozen.insert(resource.to_owned(), version)));
    }

    pub(super) fn thaw(&self, resource: &str) {
        self.0.frozen.send_modify(|frozen| drop(frozen.remove(resource)));
    }

    /// The version as of which a cache of this kind is filled, if that is not the latest.
    pub(super) fn frozen_at(&self, resource: &str) -> Option<String> {
        self.0.frozen.borrow().get(resource).cloned()
    }

    /// Disturbs every running watch of a kind, and returns their number.
    pub(super) fn disturb(&self, resource: &str, disturbance: Disturbance) -> usize {
        let mut running = self.0.running.lock().unwrap();
        running.retain(|watch| !watch.disturb.is_closed());
        let of_kind: Vec<_> = running.iter().filter(|watch| watch.resource == resource).collect();
        for watch in &of_kind {
            watch.disturb.send_replace(Some(disturbance));
        }
        of_kind.len()
    }

    /// The body of a watch for the operator, from the body of the one for the proxy.
    pub(super) fn relay(&self, resource: &str, upstream: Body, disturbance: Option<Disturbance>) -> Body {
        let (disturb, disturbed) = watch::channel(disturbance);
        self.0.running.lock().unwrap().push(Running {
            resource: resource.to_owned(),
            disturb,
        });
        let (sink, source) = mpsc::channel(1);
        let relay = Relay {
            resource: resource.to_owned(),
            lines: Lines {
                stream: upstream.into_data_stream(),
                rest: Vec::new(),
            },
            frozen: self.0.frozen.subscribe(),
            sink,
        };
        tokio::spawn(relay.run(disturbed));
        Body::from_stream(stream::unfold(source, async |mut source| {
            source.recv().await.map(|line: Result<Bytes, Cut>| (line, source))
        }))
    }
}

/// One watch on its way through.
struct Relay {
    resource: String,
    lines: Lines,
    frozen: watch::Receiver<Frozen>,
    sink: mpsc::Sender<Result<Bytes, Cut>>,
}

impl Relay {
    /// Ends with the watch of either side, or as it is disturbed.
    async fn run(mut self, mut disturbed: watch::Receiver<Option<Disturbance>>) {
        let sink = self.sink.clone();
        let disturbance = tokio::select! {
            biased;
            Ok(disturbance) = disturbed.wait_for(Option::is_some) => *disturbance,
            () = sink.closed() => return,
            () = self.pass_on() => return,
        };
        let _gone_already = match disturbance {
            Some(Disturbance::Silence) => return sink.closed().await,
            Some(Disturbance::Gone) => sink.send(Ok(format!("{GONE}\n").into())).await,
            Some(Disturbance::End) | None => Ok(()),
        };
    }

    async fn pass_on(&mut self) {
        while let Some(line) = self.lines.next().await {
            let thawed = |frozen: &Frozen| !frozen.contains_key(&self.resource);
            if self.frozen.wait_for(thawed).await.is_err() || self.sink.send(line).await.is_err() {
                return;
            }
        }
    }
}

/// The events of a watch, one per line, however they are cut into pieces on the way.
struct Lines {
    stream: BodyDataStream,
    rest: Vec<u8>,
}

impl Lines {
    async fn next(&mut self) -> Option<Result<Bytes, Cut>> {
        loop {
            if let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
                let rest = self.rest.split_off(end + 1);
                return Some(Ok(std::mem::replace(&mut self.rest, rest).into()));
            }
            match self.stream.next().await? {
                Ok(piece) => self.rest.extend_from_slice(&piece),
                Err(_broken) => return Some(Err(Cut)),
            }
        }
    }
}
