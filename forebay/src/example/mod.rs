//! The built-in example site of `forebay try`: a small origin that is slow on purpose.
//!
//! The site uses plain threads and blocking sockets, listens on loopback only, and serves only
//! Forebay. It is not a model of a good origin.

mod answer;
mod pages;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Largest number of concurrent connections. Forebay keeps far fewer.
const CONNECTIONS_MAX: usize = 512;

/// Starts the site on a free loopback port.
///
/// # Errors
/// No port or no thread is available.
pub(crate) fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::Builder::new().name("example-site".to_owned()).spawn(move || accept(&listener))?;
    Ok(address)
}

fn accept(listener: &TcpListener) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming().flatten() {
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let place = ConnectionSlot(Arc::clone(&open));
        // If no thread can be started, the connection is closed, and Forebay answers 502.
        let _ = std::thread::Builder::new().name("example-page".to_owned()).spawn(move || {
            let _place = place;
            // A lost connection needs no handling.
            let _ = answer::serve(&stream);
        });
    }
}

/// Counts one open connection.
struct ConnectionSlot(Arc<AtomicUsize>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
