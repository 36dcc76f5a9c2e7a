//! A network that can fall silent: connections stay, and nothing comes through.

use std::net::SocketAddr;

use stand_ins::loopback::free_address;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards bytes between each client and one address. It ends with the runtime of the test.
pub(crate) struct Proxy {
    address: SocketAddr,
    is_open: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn to(target: SocketAddr) -> Self {
        Self::at(free_address().expect("a free address"), target).await
    }

    pub(crate) async fn at(address: SocketAddr, target: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("listen");
        let (is_open, watched) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(target).await.expect("reach the target");
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                tokio::spawn(pass_on(near_read, far_write, watched.clone()));
                tokio::spawn(pass_on(far_read, near_write, watched.clone()));
            }
        });
        Self { address, is_open }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds everything back from now on, or lets it through again.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.send(is_open).expect("the proxy runs");
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut is_open: watch::Receiver<bool>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let was_opened = is_open.wait_for(|is_open| *is_open).await.is_ok();
        if !was_opened || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
