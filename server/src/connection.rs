//! The life of one connection: request after request, and how it ends.

use std::rc::Rc;

use forebay_http::policy::cache_status::CacheStatus;

use crate::accept::{Admitted, Client};
use crate::buffers::Buffers;
use crate::counters::Counter;
use crate::deliver::deliver_fault;
use crate::fault::Fault;
use crate::flow::{self, After};
use crate::parse::{ResponseForm, next_head};
use crate::worker::Worker;

/// Serves a connection that was let in, in a task of its own.
pub(crate) fn spawn(worker: Rc<Worker>, admitted: Admitted) {
    let task = run(Rc::clone(&worker), admitted);
    worker.spawn(task);
}

async fn run(worker: Rc<Worker>, admitted: Admitted) {
    let _open = Open { worker: Rc::clone(&worker) };
    let client = admitted.into_client(Rc::clone(&worker)).await;
    let mut slot = None;
    match requests(&client, &mut slot).await {
        End::Close => {}
        End::Linger => {
            let mut input = slot.take().map(|buffers| buffers.input).unwrap_or_default();
            Box::pin(client.linger(&mut input)).await;
        }
        End::Reset => {
            worker.count(Counter::ResponsesCut);
            client.transport.reset_on_close();
        }
    }
    if let Some(buffers) = slot {
        worker.buffers.give(buffers);
    }
}

/// How a connection ends.
enum End {
    /// Nothing is under way.
    Close,
    /// The last answer has to arrive.
    Linger,
    /// An answer was cut short, and the client must see it.
    Reset,
}

async fn requests(client: &Client, slot: &mut Option<Box<Buffers>>) -> End {
    for served in 1u32.. {
        let head_bytes = match next_head(client, slot).await {
            Ok(Some(head_bytes)) => head_bytes,
            Ok(None) => return End::Close,
            Err(fault) => return refuse(client, slot, fault).await,
        };
        // Taken after the wait: a reload holds for every request that arrives after it.
        let config = client.worker.config();
        let Some(buffers) = slot else {
            return End::Close;
        };
        client.worker.count(Counter::Requests);
        let full = served >= config.server.requests_per_connection_max;
        if full {
            client.worker.count(Counter::RequestsPerConnectionReached);
        }
        let last = full || client.worker.draining();
        match flow::answer(client, &config, buffers, head_bytes, last).await {
            Err(_) => return End::Reset,
            // With unread bytes a plain close would reset, and the answer might not arrive.
            Ok(After::Close) if buffers.input.is_empty() => {
                return flushed(client, buffers, End::Close).await;
            }
            Ok(After::Close | After::Linger) => {
                return flushed(client, buffers, End::Linger).await;
            }
            Ok(After::GoOn) => {
                if let Err(fault) = client.flush_if_full(&mut buffers.out).await {
                    client.worker.fault(fault, client.peer.ip());
                    return End::Reset;
                }
            }
        }
    }
    End::Close
}

async fn flushed(client: &Client, buffers: &mut Buffers, end: End) -> End {
    match client.flush(&mut buffers.out).await {
        Ok(()) => end,
        Err(fault) => {
            client.worker.fault(fault, client.peer.ip());
            End::Reset
        }
    }
}

/// Answers a head that can't be parsed or did not come in time.
async fn refuse(client: &Client, slot: &mut Option<Box<Buffers>>, fault: Fault) -> End {
    client.worker.fault(fault, client.peer.ip());
    match fault {
        Fault::ClientGone => return End::Close,
        Fault::TooSlow | Fault::HitCut | Fault::GaveWay => return End::Reset,
        _ => {}
    }
    client.worker.count(Counter::FaultsSent);
    let buffers = slot.get_or_insert_with(|| client.worker.buffers.take());
    deliver_fault(&mut buffers.out, fault, ResponseForm::UNKNOWN, &CacheStatus::REFUSED, None);
    flushed(client, buffers, End::Linger).await
}

/// Counts a connection as open until it ends, in whatever way.
struct Open {
    worker: Rc<Worker>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let count = self.worker.registry.count() as u64;
        self.worker.gauge(Counter::ConnectionsOpen, count);
    }
}
