//! The admin interface: HTTP on a Unix socket or a loopback port.
//!
//! The control thread serves the interface through hyper; no worker waits for it. On TCP a request
//! must name a loopback host and must not come from a web page, so that no page can make a browser
//! on this machine purge the cache (DNS rebinding, cross-site requests).

mod body;
mod list;
mod locks;
mod metrics;
mod purge;
mod query;
mod routes;

use std::rc::Rc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::engine::{AdminAcceptor, Control};
use crate::events::Event;
use crate::limits::{ACCEPT_RETRY_MS, ADMIN_CONNECTIONS_MAX, ADMIN_IDLE_MS_MAX};

/// Accepts and serves admin connections, until the task is aborted or the control thread ends.
pub(crate) async fn serve(control: Rc<Control>, acceptor: AdminAcceptor) {
    // Each connection has a clone of `places`, so the reference count is one more than the number
    // of connections.
    let places = Rc::new(());
    loop {
        let free = Rc::strong_count(&places) <= ADMIN_CONNECTIONS_MAX;
        let accepted = match &acceptor {
            AdminAcceptor::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                free.then(|| spawn(&control, TokioIo::new(stream), true, Rc::clone(&places)))
            }),
            AdminAcceptor::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                free.then(|| spawn(&control, TokioIo::new(stream), false, Rc::clone(&places)))
            }),
        };
        if let Err(error) = accepted {
            Event::AdminFailed.log(&error);
            tokio::time::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
        }
    }
}

fn spawn<T>(control: &Rc<Control>, stream: TokioIo<T>, is_tcp: bool, place: Rc<()>)
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let control = Rc::clone(control);
    tokio::task::spawn_local(async move {
        let service = service_fn(move |request| {
            let control = Rc::clone(&control);
            async move { routes::answer(&control, request, is_tcp).await }
        });
        // Errors of the client's connection need no report.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(ADMIN_IDLE_MS_MAX))
            .serve_connection(stream, service)
            .await;
        drop(place);
    });
}
