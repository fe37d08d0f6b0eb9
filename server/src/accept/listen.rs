//! Listening sockets, one per worker, and the loop that accepts from one.
//!
//! The kernel spreads connections over the workers' sockets (SO_REUSEPORT), so that no worker
//! waits for another.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use socket2::{Domain, Protocol, Type};
use tokio::net::{TcpListener, TcpStream};

use super::Client;
use crate::counters::Counter;
use crate::events::Event;
use crate::limits::{ACCEPT_RETRY_MS, LISTEN_BACKLOG};
use crate::socket::Socket;
use crate::worker::Worker;

/// One listening socket for each worker, all on one address.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) address: SocketAddr,
    pub(crate) sockets: Vec<std::net::TcpListener>,
}

impl Listeners {
    /// Binds `count` sockets to `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is in use, also by a server that would share it: two servers on one port
    /// would each get half of the connections.
    pub(crate) fn bind(address: SocketAddr, count: usize) -> io::Result<Listeners> {
        if address.port() != 0 {
            drop(socket(address, false)?);
        }
        let first = socket(address, true)?;
        let address = first.local_addr()?;
        let mut sockets = vec![first];
        for _ in 1..count {
            sockets.push(socket(address, true)?);
        }
        Ok(Listeners { address, sockets })
    }
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<std::net::TcpListener> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A port whose last owner has just gone can be taken at once.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    // Accepted sockets inherit it, which spares a system call for each.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    Ok(socket.into())
}

/// Accepts until the worker drains, and then what is in the queue already; `serve` is called with
/// each connection that is let in.
pub(crate) async fn accept_connections(
    worker: Rc<Worker>,
    listener: TcpListener,
    serve: fn(Rc<Worker>, Admitted),
) {
    loop {
        let accepted = poll_fn(|cx| {
            worker.set_accept_waker(cx.waker());
            match listener.poll_accept(cx) {
                Poll::Pending if worker.draining() => Poll::Ready(None),
                accepted => accepted.map(Some),
            }
        });
        match accepted.await {
            None => return accept_rest(&worker, listener, serve),
            Some(Ok((stream, peer))) => {
                if let Some(admitted) = admit(&worker, stream, peer) {
                    serve(Rc::clone(&worker), admitted);
                }
            }
            Some(Err(error)) => {
                worker.count(Counter::AcceptErrors);
                worker.event(Event::AcceptFailed, &error);
                if is_exhaustion(&error) {
                    tokio::time::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
                }
            }
        }
    }
}

/// Takes what the kernel has queued: it would be reset when the listener closes.
fn accept_rest(worker: &Rc<Worker>, listener: TcpListener, serve: fn(Rc<Worker>, Admitted)) {
    let Ok(listener) = listener.into_std() else { return };
    while let Ok((stream, peer)) = listener.accept() {
        let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
        let admitted = stream.ok().and_then(|stream| admit(worker, stream, peer));
        if let Some(admitted) = admitted {
            serve(Rc::clone(worker), admitted);
        }
    }
}

/// A connection that was let in.
pub(crate) struct Admitted {
    stream: TcpStream,
    peer: SocketAddr,
    registered: super::registry::Registered,
}

impl Admitted {
    /// The connection, from inside the task that serves it.
    pub(crate) async fn into_client(self, worker: Rc<Worker>) -> Client {
        Client::new(Socket::new(self.stream), worker, self.peer, self.registered).await
    }
}

fn admit(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr) -> Option<Admitted> {
    let config = worker.config();
    let settings = &config.server;
    let registry = &worker.registry;
    let full = registry.count() >= settings.connections_per_worker_max as usize
        || registry.count_of(peer.ip()) >= settings.connections_per_address_max;
    if full {
        worker.count(Counter::ConnectionsRefused);
        worker.event(Event::ConnectionRefused, &peer.ip());
        return None;
    }
    worker.count(Counter::ConnectionsAccepted);
    let registered = registry.enter(peer.ip());
    worker.gauge(Counter::ConnectionsOpen, registry.count() as u64);
    Some(Admitted { stream, peer, registered })
}

/// Too many open files, or no memory: trying again at once would only spin.
fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| exhausted.iter().any(|e| e.raw_os_error() == code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_refused_even_by_a_server_that_would_share_it() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = Listeners::bind(any, 3).expect("a free port");
        assert_eq!(first.sockets.len(), 3);
        for socket in &first.sockets {
            assert_eq!(socket.local_addr().expect("bound").port(), first.address.port());
        }
        let second = Listeners::bind(first.address, 2).expect_err("in use");
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        drop(first);
    }
}
