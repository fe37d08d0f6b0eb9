//! Runs both queues in turn for several rounds, and collects their deliveries, rates and lock
//! counts.

use std::time::{Duration, Instant};

use forebay_studies::publish::Read;
use forebay_sync::observe;

use crate::sites::{Counts, SITES};
use crate::work::{Delivery, Incoming, Outgoing, Plan, deliver};
use crate::{locked, published};

/// The largest number of bytes in a queue.
const QUEUE_BYTES_MAX: usize = 256 * 1024;

/// The results of one kind of queue.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// Bytes per second of each round, slowest first.
    pub(crate) rates: Vec<f64>,
    /// The lock counts of the last round that counted them.
    pub(crate) sites: Vec<Counts>,
    pub(crate) packets: u64,
    pub(crate) sent: Delivery,
    pub(crate) arrived: Delivery,
}

/// A wrong delivery or a panic, which no correct queue causes.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

/// Times the locked and the lock-free queue in turn, for `rounds` rounds, then counts the lock
/// requests of each in one more round.
///
/// # Errors
/// The deliveries of two rounds differ, or a thread panicked.
pub(crate) fn measure(plan: &Plan, rounds: usize) -> Result<[Form; 2], Broken> {
    let mut forms = ["one mutex", "publish"].map(|name| Form {
        name,
        rates: Vec::new(),
        sites: Vec::new(),
        packets: 0,
        sent: Delivery::default(),
        arrived: Delivery::default(),
    });
    for round in 0..rounds {
        let [before, after] = &mut forms;
        before.time(plan, round, locked::queue(QUEUE_BYTES_MAX))?;
        after.time(plan, round, published::queue(QUEUE_BYTES_MAX))?;
    }
    let [before, after] = &mut forms;
    before.count(plan, locked::queue(QUEUE_BYTES_MAX))?;
    after.count(plan, published::queue(QUEUE_BYTES_MAX))?;
    for form in &mut forms {
        form.rates.sort_by(f64::total_cmp);
    }
    Ok(forms)
}

impl Form {
    /// The number of lock requests in the counted round.
    pub(crate) fn lock_requests(&self) -> u64 {
        self.sites.iter().map(|counts| counts.count).sum()
    }

    /// The number of holds during which the other side wanted the lock.
    pub(crate) fn wanted_holds(&self) -> u64 {
        self.sites.iter().map(|counts| counts.hold_count).sum()
    }

    pub(crate) fn median_rate(&self) -> f64 {
        self.rates.get(self.rates.len() / 2).copied().unwrap_or_default()
    }

    /// Runs a round without an observer, and records its rate.
    #[expect(clippy::disallowed_methods, reason = "this function measures a time")]
    fn time(
        &mut self,
        plan: &Plan,
        round: usize,
        sides: (impl Outgoing, impl Incoming),
    ) -> Result<(), Broken> {
        let begin = Instant::now();
        let (sent, arrived, packets) = run(plan, sides)?;
        let time = begin.elapsed().max(Duration::from_nanos(1));
        self.rates.push(arrived.bytes as f64 / time.as_secs_f64());
        if round > 0 && (sent, arrived) != (self.sent, self.arrived) {
            return Err(Broken(format!(
                "{}: round {round} sent or delivered other messages than the round before",
                self.name
            )));
        }
        (self.sent, self.arrived, self.packets) = (sent, arrived, packets);
        Ok(())
    }

    /// Runs a round that counts every lock request.
    fn count(&mut self, plan: &Plan, sides: (impl Outgoing, impl Incoming)) -> Result<(), Broken> {
        SITES.take();
        observe::on();
        let outcome = run(plan, sides);
        observe::off();
        self.sites = SITES.take();
        outcome.map(|_| ())
    }
}

/// Runs one round. Returns the sent and the received messages, and the number of packets.
fn run(
    plan: &Plan,
    (outgoing, incoming): (impl Outgoing, impl Incoming),
) -> Result<(Delivery, Delivery, u64), Broken> {
    let mut packets = 0;
    let count = |read: &Read<'_>| packets += u64::from(matches!(read, Read::Part { .. }));
    let outcome = deliver(plan, outgoing, incoming, count);
    let (sent, arrived) = outcome.map_err(|_| Broken("the sender panicked".into()))?;
    Ok((sent, arrived, packets))
}
