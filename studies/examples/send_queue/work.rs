//! The messages, and the work that both sides do on each byte. Both are the same for every queue.

use std::thread;

use forebay_studies::publish::Read;

/// The largest size of a packet in bytes: about an Ethernet frame without its headers.
pub(crate) const PACKET_BYTES: usize = 1_400;
/// The largest size of a message in bytes.
const MESSAGE_BYTES_MAX: usize = 8_000;
/// About half of the messages are appended in parts, at most this many.
const PARTS_MAX: usize = 4;
/// About one in this many messages is aborted instead of ended.
const ABORTED_EVERY: usize = 50;
/// The length of the random text from which messages take their bytes.
const STOCK_BYTES: usize = 64 * 1024;

/// The side of a queue that appends. Dropping this side closes the queue.
pub(crate) trait Outgoing: Send {
    /// Appends a part of the open message. Waits until there is room.
    fn append(&mut self, part: &[u8]);
    /// Ends the open message if `is_whole`, otherwise aborts it.
    fn end(&mut self, is_whole: bool);
}

/// The side of a queue that fills packets.
pub(crate) trait Incoming {
    /// Waits for bytes of the message at the head and fills the packet with them.
    fn fill<'a>(&mut self, packet: &'a mut [u8]) -> Read<'a>;
}

/// A plan of messages with random sizes and bytes, which depend only on the seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) messages: usize,
    stock: Vec<u8>,
}

/// One message of a plan.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) is_whole: bool,
    part_bytes: usize,
}

impl Plan {
    pub(crate) fn new(seed: u64, messages: usize) -> Plan {
        let mut random = Random::new(seed);
        let stock = (0..STOCK_BYTES).map(|_| random.next() as u8).collect();
        Plan { seed, messages, stock }
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        let mut random = Random::new(!self.seed);
        (0..self.messages).map(move |_| {
            let count = 1 + random.below(MESSAGE_BYTES_MAX);
            let from = random.below(STOCK_BYTES - count);
            let parts = if random.below(2) == 0 { 1 } else { 1 + random.below(PARTS_MAX) };
            Message {
                bytes: &self.stock[from..][..count],
                is_whole: random.below(ABORTED_EVERY) > 0,
                part_bytes: count.div_ceil(parts),
            }
        })
    }
}

impl Message<'_> {
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.part_bytes)
    }
}

/// A summary of the messages that one side sent or received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// The checksum of all bytes and message ends, in order.
    pub(crate) checksum: u64,
}

impl Delivery {
    fn end(&mut self, sum: &mut Sum, is_whole: bool) {
        self.messages += 1;
        let sum = std::mem::take(sum).finish() ^ u64::from(is_whole);
        self.checksum = self.checksum.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ sum;
    }
}

/// Sends all messages of a plan from a new thread, and receives them in this thread, packet by
/// packet. Returns the sent and the received messages.
///
/// # Errors
/// The sending thread panicked.
pub(crate) fn deliver(
    plan: &Plan,
    outgoing: impl Outgoing,
    mut incoming: impl Incoming,
    mut on_packet: impl FnMut(&Read<'_>),
) -> thread::Result<(Delivery, Delivery)> {
    thread::scope(|scope| {
        let sending = scope.spawn(move || send(plan, outgoing));
        let arrived = transmit(&mut incoming, &mut on_packet);
        drop(incoming);
        Ok((sending.join()?, arrived))
    })
}

/// Sends the messages. The checksum stands for the work of an application on its bytes.
fn send(plan: &Plan, mut outgoing: impl Outgoing) -> Delivery {
    let mut sent = Delivery::default();
    let mut sum = Sum::default();
    for message in plan.messages() {
        for part in message.parts() {
            sum.add(part);
            sent.bytes += part.len() as u64;
            outgoing.append(part);
        }
        outgoing.end(message.is_whole);
        sent.end(&mut sum, message.is_whole);
    }
    sent
}

/// Fills one packet after another and adds each to the checksum.
fn transmit(incoming: &mut impl Incoming, on_packet: &mut impl FnMut(&Read<'_>)) -> Delivery {
    let mut arrived = Delivery::default();
    let mut sum = Sum::default();
    let mut packet = [0; PACKET_BYTES];
    loop {
        let read = incoming.fill(&mut packet);
        on_packet(&read);
        match read {
            Read::Part { bytes, is_end } => {
                sum.add(bytes);
                arrived.bytes += bytes.len() as u64;
                if is_end {
                    arrived.end(&mut sum, true);
                }
            }
            Read::Aborted => arrived.end(&mut sum, false),
            Read::Closed => return arrived,
        }
    }
}

/// A checksum that depends on the order of the bytes but not on how they are split (Fletcher's,
/// with wide sums).
#[derive(Debug, Default)]
struct Sum {
    bytes: u64,
    places: u64,
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let count = bytes.len() as u64;
        let weighted =
            bytes.iter().zip(0..count).map(|(byte, index)| (count - index) * u64::from(*byte));
        self.places = self.places.wrapping_add(self.bytes.wrapping_mul(count));
        self.places = self.places.wrapping_add(weighted.sum());
        self.bytes = self.bytes.wrapping_add(bytes.iter().map(|byte| u64::from(*byte)).sum());
    }

    fn finish(self) -> u64 {
        self.places.rotate_left(32) ^ self.bytes
    }
}

/// xorshift64*, which is random enough for sizes.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }

    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
