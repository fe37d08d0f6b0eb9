//! The built-in example site of `forebay try`: a small origin that is slow on purpose.
//!
//! Plain threads and blocking sockets: it is an origin to look at, not one to copy. It listens on
//! loopback only, and only Forebay speaks to it.

mod answer;
mod pages;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections at once; Forebay keeps far fewer.
const CONNECTIONS_MAX: usize = 512;

/// Starts the site on a free port of loopback.
///
/// # Errors
/// No port can be listened on, or no thread started.
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
        // Without a thread the connection is closed, and Forebay answers 502.
        let _ = std::thread::Builder::new().name("example-page".to_owned()).spawn(move || {
            let _place = place;
            // A connection that breaks off concerns nobody here.
            let _ = answer::serve(&stream);
        });
    }
}

/// One of the connections at once.
struct ConnectionSlot(Arc<AtomicUsize>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
