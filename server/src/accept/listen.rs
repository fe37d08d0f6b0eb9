//! Listening sockets, usually one per worker, and the loop that accepts from those of one worker.
//!
//! The kernel spreads connections over the sockets (SO_REUSEPORT), so that no worker waits for
//! another. What waits in the queue of a socket is lost if the last descriptor of it is closed: so
//! sockets that were taken over from another process are all accepted from, however many they are.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{Domain, Protocol, Type};
use tokio::net::{TcpListener, TcpStream};

use super::Client;
use crate::counters::Counter;
use crate::events::Event;
use crate::limits::{ACCEPT_RETRY_MS, LISTEN_BACKLOG};
use crate::socket::Socket;
use crate::worker::Worker;

/// The sockets of one address.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) address: SocketAddr,
    /// They listen; at least one.
    pub(crate) sockets: Vec<std::net::TcpListener>,
    /// Bound, for workers that would have none, but not listening yet.
    pub(crate) further: Vec<std::net::TcpListener>,
}

impl Listeners {
    /// Binds `count` sockets to `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is in use, also by a server that would share it: two servers on one port
    /// would each get half of the connections.
    pub(crate) fn bind(address: SocketAddr, count: usize) -> io::Result<Listeners> {
        if address.port() != 0 {
            let alone = bound(address, false)?;
            alone.listen(LISTEN_BACKLOG)?;
        }
        let first = bound(address, true)?;
        first.listen(LISTEN_BACKLOG)?;
        let first = std::net::TcpListener::from(first);
        let address = first.local_addr()?;
        let mut sockets = vec![first];
        for _ in 1..count {
            let socket = bound(address, true)?;
            socket.listen(LISTEN_BACKLOG)?;
            sockets.push(socket.into());
        }
        Ok(Listeners { address, sockets, further: Vec::new() })
    }

    /// Goes on with sockets that listen at `address` already, and binds those that `count` workers
    /// need beyond them. They get connections only from [`Listeners::listen_further`] on: what the
    /// kernel gives them before would be lost if this process failed to take over.
    ///
    /// # Errors
    /// One of them is at another address, or none listens, or no more can be bound.
    pub(crate) fn take_over(
        address: SocketAddr,
        mut sockets: Vec<std::net::TcpListener>,
        count: usize,
    ) -> io::Result<Listeners> {
        if sockets.iter().any(|socket| socket.local_addr().ok() != Some(address)) {
            return Err(io::Error::other("a socket that was handed over is not at this address"));
        }
        // One that failed to listen in the other process has no queue that could be lost.
        sockets.retain(|socket| socket2::SockRef::from(socket).is_listener().unwrap_or(false));
        if sockets.is_empty() {
            return Err(io::Error::other("no listening socket was handed over"));
        }
        for socket in &sockets {
            socket.set_nonblocking(true)?;
        }
        let further = (sockets.len()..count).map(|_| Ok(bound(address, true)?.into()));
        let further = further.collect::<io::Result<_>>()?;
        Ok(Listeners { address, sockets, further })
    }

    /// Another descriptor of each socket, for who takes over from this process.
    ///
    /// # Errors
    /// Too many files are open.
    pub(crate) fn copies(&self) -> io::Result<Vec<std::net::TcpListener>> {
        self.sockets.iter().chain(&self.further).map(std::net::TcpListener::try_clone).collect()
    }

    /// The sockets of each of `count` workers: every one has an owner.
    pub(crate) fn spread(
        sockets: Vec<std::net::TcpListener>,
        count: usize,
    ) -> Vec<Vec<std::net::TcpListener>> {
        let mut of_workers: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
        for (socket, place) in sockets.into_iter().zip((0..count).cycle()) {
            of_workers[place].push(socket);
        }
        of_workers
    }

    /// From now on this one gets its share of the connections.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn listen_further(socket: &std::net::TcpListener) -> io::Result<()> {
        socket2::SockRef::from(socket).listen(LISTEN_BACKLOG)
    }
}

fn bound(address: SocketAddr, shared: bool) -> io::Result<socket2::Socket> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A port whose last owner has just gone can be taken at once.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    // Accepted sockets inherit it, which spares a system call for each.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Accepts until the worker drains, and then what is in the queues already, unless they were passed
/// on; `serve` is called with each connection that is let in.
pub(crate) async fn accept_connections(
    worker: Rc<Worker>,
    listeners: Vec<TcpListener>,
    serve: fn(Rc<Worker>, Admitted),
) {
    let mut turn = 0;
    loop {
        let accepted = poll_fn(|cx| {
            worker.set_accept_waker(cx.waker());
            if worker.queues_are_passed_on() {
                return Poll::Ready(None);
            }
            match poll_accept(&listeners, &mut turn, cx) {
                Poll::Pending if worker.draining() => Poll::Ready(None),
                accepted => accepted.map(Some),
            }
        });
        match accepted.await {
            None if worker.queues_are_passed_on() => return,
            None => return accept_rest(&worker, listeners, serve),
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

/// The next connection of any of the sockets, each of which is asked first in its turn.
fn poll_accept(
    listeners: &[TcpListener],
    turn: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    *turn = turn.wrapping_add(1);
    let from = *turn % listeners.len().max(1);
    let (before, first) = listeners.split_at(from);
    for listener in first.iter().chain(before) {
        if let accepted @ Poll::Ready(_) = listener.poll_accept(cx) {
            return accepted;
        }
    }
    Poll::Pending
}

/// Takes what the kernel has queued: it would be reset when the listeners close.
fn accept_rest(worker: &Rc<Worker>, listeners: Vec<TcpListener>, serve: fn(Rc<Worker>, Admitted)) {
    for listener in listeners.into_iter().filter_map(|listener| listener.into_std().ok()) {
        while let Ok((stream, peer)) = listener.accept() {
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            let admitted = stream.ok().and_then(|stream| admit(worker, stream, peer));
            if let Some(admitted) = admitted {
                serve(Rc::clone(worker), admitted);
            }
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

    #[test]
    fn every_socket_that_is_taken_over_has_a_worker_and_every_worker_a_socket() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        for (before, now) in [(1, 1), (1, 4), (2, 3), (4, 1), (5, 2), (3, 3)] {
            let old = Listeners::bind(any, before).expect("a free port");
            let copies = old.copies().expect("few files are open");
            let new = Listeners::take_over(old.address, copies, now).expect("they listen there");
            assert_eq!(new.sockets.len(), before, "{before} to {now}");
            assert_eq!(new.further.len(), now.saturating_sub(before), "{before} to {now}");
            let sizes: Vec<_> = Listeners::spread(new.sockets, now).iter().map(Vec::len).collect();
            assert_eq!(sizes.iter().sum::<usize>(), before, "{before} to {now}: {sizes:?}");
            let idle = sizes.iter().filter(|size| **size == 0).count();
            assert_eq!(idle, new.further.len(), "{before} to {now}: {sizes:?}");
        }
    }

    #[test]
    fn what_does_not_listen_at_the_address_is_not_taken_over() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (one, other) = (Listeners::bind(any, 1), Listeners::bind(any, 1));
        let (one, other) = (one.expect("a free port"), other.expect("a free port"));
        assert!(Listeners::take_over(one.address, other.sockets, 1).is_err(), "elsewhere");
        assert!(Listeners::take_over(one.address, Vec::new(), 1).is_err(), "nothing");
        let silent = bound(one.address, true).expect("the port is shared").into();
        assert!(Listeners::take_over(one.address, vec![silent], 1).is_err(), "it does not listen");
    }
}
