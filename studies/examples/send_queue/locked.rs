//! The queue with a lock: sender and transmitter share one mutex.
//!
//! The sender takes the lock to check for room, to append to the last message and to end it. The
//! transmitter takes the lock to inspect the head of the queue, to copy a packet and to remove a
//! message. All other work is done without the lock: for instance, the sender copies its bytes
//! before it locks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, Thread};

use forebay_studies::publish::Read;
use forebay_sync::{LockClass, Mutex};

use crate::work::{Incoming, Outgoing};

/// Makes the two sides of a queue that is full at `bytes_max` bytes.
pub(crate) fn queue(bytes_max: usize) -> (Sender, Transmitter) {
    let queue = Arc::new(Mutex::new(LockClass::Test, Queue::default()));
    let sender = Sender { queue: Arc::clone(&queue), bytes_max, is_open: false };
    (sender, Transmitter { queue })
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Message>,
    bytes: usize,
    is_closed: bool,
    /// The transmitter's thread, while it sleeps because the queue is empty.
    transmitter: Option<Thread>,
    /// The sender's thread, while it sleeps because the queue is full.
    sender: Option<Thread>,
}

/// The parts of one message, in the order in which they were appended.
#[derive(Debug, Default)]
struct Message {
    parts: VecDeque<Vec<u8>>,
    /// The number of bytes of the first part that have been sent.
    offset: usize,
    end: Option<bool>,
}

#[derive(Debug)]
pub(crate) struct Sender {
    queue: Arc<Mutex<Queue>>,
    bytes_max: usize,
    is_open: bool,
}

#[derive(Debug)]
pub(crate) struct Transmitter {
    queue: Arc<Mutex<Queue>>,
}

impl Sender {
    fn wait_for_room(&self) {
        loop {
            let mut queue = self.queue.lock();
            if queue.bytes < self.bytes_max {
                return;
            }
            queue.sender = Some(thread::current());
            drop(queue);
            thread::park();
        }
    }
}

impl Outgoing for Sender {
    fn append(&mut self, part: &[u8]) {
        self.wait_for_room();
        let part = part.to_vec();
        let mut queue = self.queue.lock();
        queue.bytes += part.len();
        if !self.is_open {
            queue.messages.push_back(Message::default());
            self.is_open = true;
        }
        if let Some(last) = queue.messages.back_mut() {
            last.parts.push_back(part);
        }
        let sleeper = queue.transmitter.take();
        drop(queue);
        wake(sleeper);
    }

    fn end(&mut self, is_whole: bool) {
        self.is_open = false;
        let mut queue = self.queue.lock();
        if let Some(last) = queue.messages.back_mut() {
            last.end = Some(is_whole);
        }
        let sleeper = queue.transmitter.take();
        drop(queue);
        wake(sleeper);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        let sleeper = queue.transmitter.take();
        drop(queue);
        wake(sleeper);
    }
}

/// The head of the queue.
enum Head {
    Bytes,
    End(bool),
    Closed,
}

impl Transmitter {
    fn wait_for_head(&self) -> Head {
        loop {
            let mut queue = self.queue.lock();
            match queue.messages.front() {
                Some(first) if !first.parts.is_empty() => return Head::Bytes,
                Some(Message { end: Some(is_whole), .. }) => return Head::End(*is_whole),
                None if queue.is_closed => return Head::Closed,
                _ => queue.transmitter = Some(thread::current()),
            }
            drop(queue);
            thread::park();
        }
    }

    /// Copies a packet from the first message. Returns the packet's length, and whether the message
    /// ends with it.
    fn copy_out(&self, packet: &mut [u8]) -> (usize, bool) {
        let mut queue = self.queue.lock();
        let Some(first) = queue.messages.front_mut() else {
            return (0, false);
        };
        let length = first.copy_out(packet);
        let is_end = first.parts.is_empty() && first.end == Some(true);
        queue.bytes -= length;
        let sleeper = queue.sender.take();
        drop(queue);
        wake(sleeper);
        (length, is_end)
    }

    fn take_off(&self) {
        let first = self.queue.lock().messages.pop_front();
        drop(first);
    }
}

impl Message {
    fn copy_out(&mut self, packet: &mut [u8]) -> usize {
        let mut length = 0;
        while length < packet.len()
            && let Some(part) = self.parts.front()
        {
            let rest = &part[self.offset..];
            let count = rest.len().min(packet.len() - length);
            packet[length..][..count].copy_from_slice(&rest[..count]);
            length += count;
            self.offset += count;
            if count == rest.len() {
                self.offset = 0;
                self.parts.pop_front();
            }
        }
        length
    }
}

impl Incoming for Transmitter {
    fn fill<'a>(&mut self, packet: &'a mut [u8]) -> Read<'a> {
        let (length, is_end) = match self.wait_for_head() {
            Head::Closed => return Read::Closed,
            Head::Bytes => self.copy_out(packet),
            Head::End(true) => (0, true),
            Head::End(false) => {
                self.take_off();
                return Read::Aborted;
            }
        };
        if is_end {
            self.take_off();
        }
        Read::Part { bytes: &packet[..length], is_end }
    }
}

fn wake(sleeper: Option<Thread>) {
    if let Some(sleeper) = sleeper {
        sleeper.unpark();
    }
}
