//! A raw, level-triggered epoll loop: one receive and one send for a request.
//!
//! Invariant: a connection waits for input or for room to send, never for both. While it waits for
//! room, its further input is not answered.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::INPUT_BYTES;
use crate::answer::{Answer, Reply};
use crate::net::accept;

/// The most events that are taken from the kernel at once.
const EVENTS_MAX: usize = 1024;
/// The event data of the first listener; the next listeners have the next numbers. Connections use
/// their descriptor's number, which is smaller.
const LISTENERS: u64 = 1 << 32;

/// Accepts from `listeners` and answers until epoll itself fails.
pub(crate) fn serve(listeners: Vec<TcpListener>, answer: impl Answer) -> io::Result<()> {
    Engine::new(listeners, answer)?.run()
}

struct Engine<A> {
    epoll: OwnedFd,
    listeners: Vec<TcpListener>,
    /// The connections by descriptor number.
    connections: Vec<Option<Connection>>,
    turn: Turn<A>,
}

/// The responder and the buffers, which the connections use in turn.
struct Turn<A> {
    answer: A,
    reply: Reply,
    input: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    /// The index of the listener that accepted the connection.
    listener: usize,
    /// Input that has not been answered. It is nearly always empty and then takes no memory.
    unread: Vec<u8>,
    /// The part of a reply for which the socket had no room.
    unsent: Reply,
    closing: bool,
}

/// The event that a connection waits for after its turn, or the connection's end.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Next {
    Input,
    Room,
    Close,
}

impl<A: Answer> Engine<A> {
    fn new(listeners: Vec<TcpListener>, answer: A) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (data, listener) in (LISTENERS..).zip(&listeners) {
            epoll::add(&epoll, listener, EventData::new_u64(data), EventFlags::IN)?;
        }
        let turn = Turn { answer, reply: Reply::default(), input: vec![0; INPUT_BYTES] };
        Ok(Self { epoll, listeners, connections: Vec::new(), turn })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let data = event.data.u64();
                match data.checked_sub(LISTENERS) {
                    Some(listener) => self.accept_all(listener as usize),
                    None => self.ready(data as usize, event.flags),
                }
            }
        }
    }

    /// Accepts until the queue is empty or no descriptor is free. The remaining connections are
    /// accepted when a descriptor is free.
    fn accept_all(&mut self, listener: usize) {
        while let Ok(stream) = accept(&self.listeners[listener]) {
            let number = stream.as_raw_fd() as usize;
            let data = EventData::new_u64(number as u64);
            if epoll::add(&self.epoll, &stream, data, EventFlags::IN).is_err() {
                continue;
            }
            if self.connections.len() <= number {
                self.connections.resize_with(number + 1, || None);
            }
            self.connections[number] = Some(Connection::new(stream, listener));
        }
    }

    fn ready(&mut self, number: usize, flags: EventFlags) {
        let Some(slot) = self.connections.get_mut(number) else {
            return;
        };
        let Some(connection) = slot else { return };
        let waited = connection.waits_for();
        self.turn.answer.set_address(connection.listener);
        let next = if flags.intersects(EventFlags::ERR) {
            Next::Close
        } else if waited == Next::Room {
            connection.send_rest(&mut self.turn)
        } else {
            connection.read(&mut self.turn)
        };
        let interest = match next {
            Next::Close => return *slot = None,
            Next::Input => EventFlags::IN,
            Next::Room => EventFlags::OUT,
        };
        let data = EventData::new_u64(number as u64);
        if next != waited && epoll::modify(&self.epoll, &connection.stream, data, interest).is_err()
        {
            *slot = None;
        }
    }
}

impl Connection {
    fn new(stream: TcpStream, listener: usize) -> Self {
        Self { stream, listener, unread: Vec::new(), unsent: Reply::default(), closing: false }
    }

    fn waits_for(&self) -> Next {
        if self.unsent.own.is_empty() && self.unsent.shared.is_empty() {
            Next::Input
        } else {
            Next::Room
        }
    }

    fn read(&mut self, turn: &mut Turn<impl Answer>) -> Next {
        let count = match self.stream.read(&mut turn.input) {
            Ok(0) => return Next::Close,
            Ok(count) => count,
            Err(error) if is_transient(&error) => return Next::Input,
            Err(_) => return Next::Close,
        };
        if self.unread.is_empty() {
            // The buffer is taken out of the turn while the answers borrow the other fields of the
            // turn.
            let input = std::mem::take(&mut turn.input);
            let next = self.answer_all(&input[..count], turn);
            turn.input = input;
            return next;
        }
        let mut input = std::mem::take(&mut self.unread);
        input.extend_from_slice(&turn.input[..count]);
        self.answer_all(&input, turn)
    }

    /// Answers every whole request in `input` and keeps the rest of the input.
    fn answer_all(&mut self, mut input: &[u8], turn: &mut Turn<impl Answer>) -> Next {
        while !input.is_empty() {
            turn.reply.clear();
            let Some(answered) = turn.answer.answer(input, &mut turn.reply) else {
                break;
            };
            input = &input[answered.bytes..];
            self.closing = !answered.keep;
            match send(&mut self.stream, &turn.reply) {
                Ok(sent) => self.unsent.keep_rest(&turn.reply, sent),
                Err(_) => return Next::Close,
            }
            if self.waits_for() == Next::Room {
                break;
            }
            if self.closing {
                return Next::Close;
            }
        }
        if input.len() > INPUT_BYTES {
            return Next::Close;
        }
        self.unread.extend_from_slice(input);
        self.waits_for()
    }

    /// Sends the part of a reply that had no room, then answers the input that waited.
    fn send_rest(&mut self, turn: &mut Turn<impl Answer>) -> Next {
        let rest = std::mem::take(&mut self.unsent);
        match send(&mut self.stream, &rest) {
            Ok(sent) => self.unsent.keep_rest(&rest, sent),
            Err(_) => return Next::Close,
        }
        if self.waits_for() == Next::Room {
            return Next::Room;
        }
        if self.closing {
            return Next::Close;
        }
        let input = std::mem::take(&mut self.unread);
        self.answer_all(&input, turn)
    }
}

impl Reply {
    /// Keeps the part of `reply` after its first `sent` bytes.
    fn keep_rest(&mut self, reply: &Reply, sent: usize) {
        let own_sent = sent.min(reply.own.len());
        self.own.extend_from_slice(&reply.own[own_sent..]);
        self.shared = &reply.shared[sent - own_sent..];
    }
}

/// Sends both parts in one call. Returns the number of sent bytes, which is 0 if the socket is
/// full.
fn send(stream: &mut TcpStream, reply: &Reply) -> io::Result<usize> {
    let result = match (reply.own.is_empty(), reply.shared.is_empty()) {
        (true, _) => stream.write(reply.shared),
        (_, true) => stream.write(&reply.own),
        _ => stream.write_vectored(&[IoSlice::new(&reply.own), IoSlice::new(reply.shared)]),
    };
    match result {
        Err(error) if is_transient(&error) => Ok(0),
        result => result,
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
