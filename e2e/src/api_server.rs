//! The API server of the tier, forwarded into the network of a test, which can interrupt the connection.
//!
//! A network namespace has a loopback address of its own, so nothing in it reaches the machine. Files are shared,
//! though: outside a socket in the file system leads to the API server, inside the address of the API server leads to
//! the socket. So every kubeconfig of the cluster is good inside too.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;

use localkube::Cluster;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The path of the socket, in the process inside the network of the test.
const SOCKET_VARIABLE: &str = "E2E_API_SERVER";

/// The forwarder outside the network of the test. It runs until the process exits.
#[derive(Debug)]
pub(crate) struct Outside {
    socket: PathBuf,
}

impl Outside {
    /// Opens the socket in `folder`.
    pub(crate) fn open(folder: &Path) -> Self {
        let (socket, server) = (folder.join("api-server"), address(&Cluster::attach()));
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("start a runtime");
        let listener = {
            let _entered = runtime.enter();
            UnixListener::bind(&socket).expect("open a socket")
        };
        thread::spawn(move || runtime.block_on(lead_out(&listener, server)));
        Self { socket }
    }

    /// The environment variable with the path of the socket, for the process inside.
    pub(crate) fn variable(&self) -> (&'static str, &Path) {
        (SOCKET_VARIABLE, &self.socket)
    }
}

async fn lead_out(listener: &UnixListener, server: SocketAddr) -> io::Result<()> {
    loop {
        let (mut inside, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut server = TcpStream::connect(server).await?;
            copy_bidirectional(&mut inside, &mut server).await
        });
    }
}

/// The API server, as reached from the network of a test.
#[derive(Debug)]
pub struct ApiServer {
    cluster: Cluster,
    way: watch::Sender<Way>,
    _relay: JoinHandle<()>,
}

/// Whether requests are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Open,
    /// Nothing listens, and every connection is closed: the server is down.
    Closed,
    /// Connections are accepted and get no response: the server hangs.
    Silent,
}

impl ApiServer {
    /// Forwards the API server into the network of this test, which must be [isolated](crate::isolation) with it.
    pub async fn reach() -> Self {
        let cluster = Cluster::attach();
        let socket = std::env::var_os(SOCKET_VARIABLE).expect("the test is isolated with an API server");
        let way = watch::Sender::new(Way::Open);
        let relay = Relay {
            address: address(&cluster),
            socket: socket.into(),
            way: way.subscribe(),
        };
        let listener = relay.listen().await;
        Self {
            cluster,
            way,
            _relay: tokio::spawn(relay.run(listener)),
        }
    }

    /// The cluster of the API server.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Makes the API server unreachable: it is down.
    pub fn close(&self) {
        self.way.send_replace(Way::Closed);
    }

    /// Makes the API server accept connections and respond to none: it hangs.
    pub fn silence(&self) {
        self.way.send_replace(Way::Silent);
    }

    /// Makes the API server reachable again.
    pub fn open(&self) {
        self.way.send_replace(Way::Open);
    }
}

struct Relay {
    address: SocketAddr,
    socket: PathBuf,
    way: watch::Receiver<Way>,
}

impl Relay {
    async fn listen(&self) -> TcpListener {
        let listener = TcpListener::bind(self.address).await;
        listener.expect("listen where the API server does outside")
    }

    async fn run(mut self, first: TcpListener) {
        let (mut listener, mut connections) = (Some(first), JoinSet::new());
        loop {
            let way = *self.way.borrow_and_update();
            match (way, &listener) {
                (Way::Closed, _) => {
                    listener = None;
                    connections.shutdown().await;
                }
                (Way::Open | Way::Silent, None) => listener = Some(self.listen().await),
                (Way::Open | Way::Silent, Some(_)) => {}
            }
            tokio::select! {
                changed = self.way.changed() => if changed.is_err() { return },
                Ok((client, _)) = accepted(listener.as_ref()) => {
                    connections.spawn(carry(client, self.socket.clone(), self.way.clone()));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn accepted(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Forwards both directions while the way is open. A connection that was silenced is closed afterwards, because bytes
/// are lost.
async fn carry(mut client: TcpStream, socket: PathBuf, mut way: watch::Receiver<Way>) {
    let Ok(mut server) = UnixStream::connect(&socket).await else {
        return;
    };
    if *way.borrow_and_update() == Way::Open {
        tokio::select! {
            _ended = copy_bidirectional(&mut client, &mut server) => return,
            _changed = way.changed() => {}
        }
    }
    let _over = way.wait_for(|way| *way != Way::Silent).await;
}

/// Where the API server listens on the machine, and by every kubeconfig.
fn address(cluster: &Cluster) -> SocketAddr {
    let port = cluster.api_port();
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
