//! The admin interface: HTTP on a Unix socket or a loopback port.
//!
//! The control thread serves the interface through hyper; no worker waits for it. On TCP a request
//! must name a loopback host and must not come from a web page, so that no page can make a browser
//! on this machine purge the cache (DNS rebinding, cross-site requests).

mod body;
mod explain;
mod list;
mod locks;
mod metrics;
mod places;
mod purge;
mod query;
mod routes;
mod trace;

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use self::places::{Admission, OpenConnection, OpenConnections};
use crate::counters::Counter;
use crate::engine::{AdminAcceptor, Control};
use crate::events::{Event, EventBudget};
use crate::limits::{ACCEPT_RETRY_MS, ADMIN_CONNECTIONS_MAX, ADMIN_IDLE_MS_MAX};

/// Accepts and serves admin connections, until the task is aborted or the control thread ends.
pub(crate) async fn serve(control: Rc<Control>, acceptor: AdminAcceptor) {
    let open = OpenConnections::new(ADMIN_CONNECTIONS_MAX);
    let events = EventBudget::default();
    loop {
        let accepted = match &acceptor {
            AdminAcceptor::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                admit(&control, &open, &events)
                    .map(|place| spawn(&control, TokioIo::new(stream), true, place))
            }),
            AdminAcceptor::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                admit(&control, &open, &events)
                    .map(|place| spawn(&control, TokioIo::new(stream), false, place))
            }),
        };
        if let Err(error) = accepted {
            Event::AdminFailed.log(&error);
            tokio::time::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
        }
        open.close_displaced().await;
    }
}

/// Takes a place for a new connection; `None` if busy connections have all places. Counts and logs
/// when no place is free.
fn admit(
    control: &Control,
    open: &Rc<OpenConnections>,
    events: &EventBudget,
) -> Option<OpenConnection> {
    let (admitted, effect) = match open.admit() {
        Admission::Free(connection) => return Some(connection),
        Admission::Displaced(connection) => {
            (Some(connection), "closed the connection that had been idle longest")
        }
        Admission::Full => (None, "refused a new connection, because none is idle"),
    };
    control.count(Counter::AdminCrowded, 1);
    if Event::AdminFull.is_wanted() && events.take() {
        Event::AdminFull.log(&format_args!(
            "{ADMIN_CONNECTIONS_MAX} admin connections are open, which is the limit; {effect}"
        ));
    }
    admitted
}

fn spawn<T>(control: &Rc<Control>, stream: TokioIo<T>, is_tcp: bool, place: OpenConnection)
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let control = Rc::clone(control);
    let place = Rc::new(place);
    let of_task = Rc::clone(&place);
    let task = tokio::task::spawn_local(async move {
        let service = service_fn(move |request| {
            let (control, place) = (Rc::clone(&control), Rc::clone(&of_task));
            async move {
                let active = place.begin_request();
                let answer = routes::answer(&control, request, is_tcp, &active).await;
                Ok::<_, Infallible>(answer.map(|body| body.keep_active(active)))
            }
        });
        // Errors of the client's connection need no report.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(ADMIN_IDLE_MS_MAX))
            .serve_connection(stream, service)
            .await;
    });
    place.serve_by(task.abort_handle());
}
