//! Listening TCP sockets, usually one for each worker.
//!
//! The kernel spreads connections over the sockets (SO_REUSEPORT), so that no worker waits for
//! another worker. When the last descriptor of a socket is closed, the connections in the queue of
//! that socket are lost. Therefore every socket that was inherited from another process gets a
//! worker that accepts connections from it.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Type};

use crate::config::ListenerNumber;
use crate::limits::LISTEN_BACKLOG;

/// A listening socket of a worker.
#[derive(Debug)]
pub(crate) struct ListenSocket {
    pub(crate) socket: std::net::TcpListener,
    pub(crate) number: ListenerNumber,
    /// Whether the clients of this socket use TLS.
    pub(crate) is_tls: bool,
}

/// An address on which a server listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenPlace {
    pub(crate) address: SocketAddr,
    /// Whether a socket at an unspecified IPv6 address leaves IPv4 clients to another socket.
    pub(crate) is_ipv6_only: bool,
}

/// The listening sockets of a server.
#[derive(Debug)]
pub(crate) struct AllListeners {
    /// The sockets of the first address of `listen`, whose port is in the names of files.
    pub(crate) first: Listeners,
    /// The sockets of each other address of `listen`.
    pub(crate) further: Vec<Listeners>,
    /// The sockets of each address of `listen_tls`.
    pub(crate) tls: Vec<Listeners>,
}

/// The sockets for clients at one address.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) address: SocketAddr,
    /// Listening sockets, at least one.
    pub(crate) sockets: Vec<std::net::TcpListener>,
    /// Additional sockets that are bound but do not listen yet, for workers that would otherwise
    /// have no socket.
    pub(crate) further: Vec<std::net::TcpListener>,
}

impl Listeners {
    /// Binds `count` sockets to `place`. Port 0 stands for any free port.
    ///
    /// # Errors
    /// The address is in use. It is also an error if another server would share the port, because
    /// then each of the two servers would get only a part of the connections.
    pub(crate) fn bind(place: ListenPlace, count: usize) -> io::Result<Listeners> {
        if place.address.port() != 0 {
            let alone = bound(place, false)?;
            alone.listen(LISTEN_BACKLOG)?;
        }
        let first = bound(place, true)?;
        first.listen(LISTEN_BACKLOG)?;
        let first = std::net::TcpListener::from(first);
        let address = first.local_addr()?;
        let mut sockets = vec![first];
        for _ in 1..count {
            let socket = bound(ListenPlace { address, ..place }, true)?;
            socket.listen(LISTEN_BACKLOG)?;
            sockets.push(socket.into());
        }
        Ok(Listeners { address, sockets, further: Vec::new() })
    }

    /// Takes over sockets that already listen at `place`, and binds the additional sockets that
    /// `count` workers need. The additional sockets listen only after
    /// [`Listeners::listen_further`], because their connections would be lost if this process
    /// failed to take over.
    ///
    /// # Errors
    /// A socket has another address, no socket listens, or an additional socket cannot be bound.
    pub(crate) fn take_over(
        place: ListenPlace,
        mut sockets: Vec<std::net::TcpListener>,
        count: usize,
    ) -> io::Result<Listeners> {
        let address = place.address;
        if sockets.iter().any(|socket| socket.local_addr().ok() != Some(address)) {
            return Err(io::Error::other(format!(
                "an inherited socket does not listen on {address}"
            )));
        }
        // If a socket failed to listen in the other process, it has no queue that could be lost.
        sockets.retain(|socket| socket2::SockRef::from(socket).is_listener().unwrap_or(false));
        // The kernel permits no change of this option once a socket is bound.
        if address.is_ipv6() && address.ip().is_unspecified() {
            let is_other = |socket: &std::net::TcpListener| {
                socket2::SockRef::from(socket).only_v6().unwrap_or(false) != place.is_ipv6_only
            };
            if sockets.iter().any(is_other) {
                let takes = if place.is_ipv6_only { "takes" } else { "does not take" };
                return Err(io::Error::other(format!(
                    "the running server's socket at {address} {takes} IPv4 clients, other than the \
                     new addresses need: stop the running server and start the new one"
                )));
            }
        }
        if sockets.is_empty() {
            return Err(io::Error::other("the running server handed over no listening socket"));
        }
        for socket in &sockets {
            socket.set_nonblocking(true)?;
        }
        let further = (sockets.len()..count).map(|_| Ok(bound(place, true)?.into()));
        let further = further.collect::<io::Result<_>>()?;
        Ok(Listeners { address, sockets, further })
    }

    /// Returns another descriptor of each socket, for a process that takes over from this one.
    ///
    /// # Errors
    /// Too many files are open.
    pub(crate) fn copies(&self) -> io::Result<Vec<std::net::TcpListener>> {
        self.sockets.iter().chain(&self.further).map(std::net::TcpListener::try_clone).collect()
    }

    /// Spreads the sockets over the workers, which may already have sockets for other addresses, so
    /// that every socket has a worker. Returns the additional sockets.
    fn spread(
        self,
        (number, is_tls): (ListenerNumber, bool),
        of_workers: &mut [Vec<ListenSocket>],
    ) -> Vec<std::net::TcpListener> {
        let count = of_workers.len();
        for (socket, worker) in self.sockets.into_iter().zip((0..count).cycle()) {
            of_workers[worker].push(ListenSocket { socket, number, is_tls });
        }
        self.further
    }

    /// Gives the additional sockets to the last workers, which have no socket at this address.
    fn spread_further(
        further: Vec<std::net::TcpListener>,
        (number, is_tls): (ListenerNumber, bool),
        of_workers: &mut [Vec<ListenSocket>],
    ) {
        let without = of_workers.len().saturating_sub(further.len());
        for (socket, worker) in further.into_iter().zip(of_workers.iter_mut().skip(without)) {
            worker.push(ListenSocket { socket, number, is_tls });
        }
    }

    /// Makes an additional socket listen, so that it gets its share of the connections.
    ///
    /// # Errors
    /// The system refuses to make it listen.
    pub(crate) fn listen_further(socket: &std::net::TcpListener) -> io::Result<()> {
        socket2::SockRef::from(socket).listen(LISTEN_BACKLOG)
    }
}

impl AllListeners {
    /// Returns another descriptor of each socket, for a process that takes over from this one.
    ///
    /// # Errors
    /// Too many files are open.
    pub(crate) fn copies(&self) -> io::Result<Vec<std::net::TcpListener>> {
        let mut copies = self.first.copies()?;
        for listeners in self.further.iter().chain(&self.tls) {
            copies.extend(listeners.copies()?);
        }
        Ok(copies)
    }

    /// Returns the URL of each address.
    pub(crate) fn urls(&self) -> Vec<String> {
        let plain = std::iter::once(&self.first).chain(&self.further);
        let plain = plain.map(|plain| format!("http://{}", plain.address));
        plain.chain(self.tls.iter().map(|tls| format!("https://{}", tls.address))).collect()
    }

    /// Spreads the sockets over the workers. Returns the listening sockets of each worker, and the
    /// additional sockets of each worker, which do not listen yet.
    pub(crate) fn spread(
        self,
        worker_count: usize,
    ) -> (Vec<Vec<ListenSocket>>, Vec<Vec<ListenSocket>>) {
        let mut of_workers: Vec<Vec<_>> = (0..worker_count).map(|_| Vec::new()).collect();
        let mut further: Vec<Vec<_>> = (0..worker_count).map(|_| Vec::new()).collect();
        let plain = std::iter::once(self.first).chain(self.further);
        let all =
            plain.map(|plain| (plain, false)).chain(self.tls.into_iter().map(|tls| (tls, true)));
        for (number, (listeners, is_tls)) in ListenerNumber::all().zip(all) {
            let without = listeners.spread((number, is_tls), &mut of_workers);
            Listeners::spread_further(without, (number, is_tls), &mut further);
        }
        (of_workers, further)
    }
}

fn bound(place: ListenPlace, shared: bool) -> io::Result<socket2::Socket> {
    let address = place.address;
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A new server can then bind a port that was in use until a moment ago.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    // Accepted sockets inherit this option, which saves a system call for each of them.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    if place.is_ipv6_only {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: SocketAddr) -> ListenPlace {
        ListenPlace { address, is_ipv6_only: false }
    }

    #[test]
    fn ipv6_clients_have_a_socket_beside_that_of_ipv4_clients() {
        let any = place(SocketAddr::from(([0, 0, 0, 0], 0)));
        let ipv4 = Listeners::bind(any, 1).expect("a free port");
        let address = SocketAddr::from(([0; 16], ipv4.address.port()));
        Listeners::bind(place(address), 1).expect_err("it would take IPv4 clients");
        let ipv6_only = ListenPlace { address, is_ipv6_only: true };
        let ipv6 = Listeners::bind(ipv6_only, 2).expect("IPv6 is enabled");
        assert_eq!(ipv6.sockets.len(), 2);

        let copies = || ipv6.copies().expect("few files are open");
        assert!(Listeners::take_over(ipv6_only, copies(), 2).is_ok());
        let error = Listeners::take_over(place(address), copies(), 2).expect_err("no IPv4 clients");
        assert!(error.to_string().contains("does not take IPv4 clients"), "{error}");
    }

    #[test]
    fn a_port_in_use_is_refused_even_by_a_server_that_would_share_it() {
        let any = place(SocketAddr::from(([127, 0, 0, 1], 0)));
        let first = Listeners::bind(any, 3).expect("a free port");
        assert_eq!(first.sockets.len(), 3);
        for socket in &first.sockets {
            assert_eq!(socket.local_addr().expect("bound").port(), first.address.port());
        }
        let second = Listeners::bind(place(first.address), 2).expect_err("in use");
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        drop(first);
    }

    #[test]
    fn after_a_takeover_every_socket_has_a_worker_and_every_worker_a_socket() {
        let any = place(SocketAddr::from(([127, 0, 0, 1], 0)));
        for (before, now) in [(1, 1), (1, 4), (2, 3), (4, 1), (5, 2), (3, 3)] {
            let old = Listeners::bind(any, before).expect("a free port");
            let copies = old.copies().expect("few files are open");
            let new =
                Listeners::take_over(place(old.address), copies, now).expect("they listen there");
            assert_eq!(new.sockets.len(), before, "{before} to {now}");
            assert_eq!(new.further.len(), now.saturating_sub(before), "{before} to {now}");
            let mut of_workers: Vec<Vec<ListenSocket>> = (0..now).map(|_| Vec::new()).collect();
            let further = new.spread((ListenerNumber::default(), true), &mut of_workers);
            let sizes: Vec<_> = of_workers.iter().map(Vec::len).collect();
            assert_eq!(sizes.iter().sum::<usize>(), before, "{before} to {now}: {sizes:?}");
            let idle = sizes.iter().filter(|size| **size == 0).count();
            assert_eq!(idle, further.len(), "{before} to {now}: {sizes:?}");
            let listener = (ListenerNumber::default(), true);
            Listeners::spread_further(further, listener, &mut of_workers);
            assert!(of_workers.iter().all(|sockets| !sockets.is_empty()), "{before} to {now}");
        }
    }

    #[test]
    fn a_socket_that_does_not_listen_at_the_address_is_not_taken_over() {
        let any = place(SocketAddr::from(([127, 0, 0, 1], 0)));
        let (one, other) = (Listeners::bind(any, 1), Listeners::bind(any, 1));
        let (one, other) = (one.expect("a free port"), other.expect("a free port"));
        assert!(Listeners::take_over(place(one.address), other.sockets, 1).is_err(), "elsewhere");
        assert!(Listeners::take_over(place(one.address), Vec::new(), 1).is_err(), "nothing");
        let silent = bound(place(one.address), true).expect("the port is shared").into();
        assert!(
            Listeners::take_over(place(one.address), vec![silent], 1).is_err(),
            "the socket does not listen"
        );
    }
}
