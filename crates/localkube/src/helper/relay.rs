//! Forwards ports of this machine's loopback address into a network namespace.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::TcpStream;

use crate::{Error, Result};

/// Serves until it is terminated. The process must still be single-threaded.
pub(crate) fn run(namespace: &Path, ports: &[(u16, String)]) -> Result<()> {
    // A socket stays in the namespace in which it was created: these listen on the machine, and those created after the
    // move are inside.
    let listeners: Vec<(TcpListener, &str)> = ports
        .iter()
        .map(|(port, inside)| Ok((listen(*port)?, inside.as_str())))
        .collect::<Result<_>>()?;
    let file = File::open(namespace).map_err(Error::io("open", namespace))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| Error::io("enter", namespace)(error.into()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::io("start", "a runtime"))?;
    runtime.block_on(async {
        let mut relays = Vec::new();
        for (listener, inside) in listeners {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(Error::io("listen on", inside))?;
            relays.push(tokio::spawn(relay(listener, inside.to_owned())));
        }
        for relay in relays {
            // None ends by itself.
            let _ = relay.await;
        }
        Ok(())
    })
}

fn listen(port: u16) -> Result<TcpListener> {
    let listen = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().map_err(Error::io("listen on port", port.to_string()))
}

async fn relay(listener: tokio::net::TcpListener, inside: String) {
    loop {
        let Ok((mut client, _)) = listener.accept().await else {
            // Out of files, most likely, until some connection ends.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let inside = inside.clone();
        tokio::spawn(async move {
            // If the server is down, clients see nearly the same as without the relay: the connection is closed.
            if let Ok(mut server) = TcpStream::connect(inside).await {
                let _ended = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
                let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}
