//! The responder on tokio: a single-threaded runtime with a task for each connection, which reads,
//! answers and writes in turn.

use std::cell::RefCell;
use std::io;
use std::io::IoSlice;
use std::net;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

use super::INPUT_BYTES;
use crate::answer::{Answer, Reply};

/// The input buffer of a connection. A head of the benchmark is far shorter.
const CONNECTION_BYTES: usize = INPUT_BYTES / 4;

/// Accepts connections from `listener` and answers them; never returns.
///
/// # Errors
/// The runtime cannot be built, or the listener cannot be registered with it.
pub(crate) fn serve(listener: net::TcpListener, answer: impl Answer + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let answer = Rc::new(RefCell::new(answer));
    LocalSet::new().block_on(&runtime, async move {
        let listener = TcpListener::from_std(listener)?;
        loop {
            // The error belongs to the connection that was to be accepted, or says that no
            // descriptor is free. The next call waits for the next connection.
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            let answer = Rc::clone(&answer);
            spawn_local(async move {
                // The client has gone, so its error is ignored.
                let _ = converse(stream, &answer).await;
            });
        }
    })
}

/// Answers one connection until it is closed.
async fn converse(mut stream: TcpStream, answer: &RefCell<impl Answer>) -> io::Result<()> {
    let mut input = vec![0; CONNECTION_BYTES];
    let mut filled = 0;
    let mut reply = Reply::default();
    loop {
        let count = stream.read(&mut input[filled..]).await?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        let mut taken = 0;
        loop {
            reply.clear();
            let answered = answer.borrow_mut().answer(&input[taken..filled], &mut reply);
            let Some(answered) = answered else { break };
            taken += answered.bytes;
            write_all(&mut stream, &reply).await?;
            if !answered.keep {
                return Ok(());
            }
        }
        input.copy_within(taken..filled, 0);
        filled -= taken;
    }
}

/// Writes both parts with as few calls as possible.
async fn write_all(stream: &mut TcpStream, reply: &Reply) -> io::Result<()> {
    if reply.own.is_empty() {
        return stream.write_all(reply.shared).await;
    }
    if reply.shared.is_empty() {
        return stream.write_all(&reply.own).await;
    }
    let parts = [IoSlice::new(&reply.own), IoSlice::new(reply.shared)];
    let sent = stream.write_vectored(&parts).await?;
    if sent < reply.own.len() {
        stream.write_all(&reply.own[sent..]).await?;
    }
    stream.write_all(&reply.shared[sent.saturating_sub(reply.own.len())..]).await
}
