//! A request that waits for a permit preempts an exchange whose client is slow.
//!
//! A response that is not stored arrives as fast as its client reads, and the body of a request
//! leaves as fast as its client sends; both hold a permit of their origin all the time. So slow
//! clients could hold all permits, and every miss would be answered with 503. Therefore a request
//! that has waited for a permit for some time asks an exchange with a slow client to break off. Of
//! the networks with slow clients, it chooses the network that holds the most permits, and within
//! that network the exchange that has been slow for longest.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::accept::ClientNetwork;
use crate::limits::{PREEMPT_ASK_MS, STALL_BYTES, STALL_MS};
use crate::poll_once::poll_once;

/// The exchange was asked to break off, because another request waits for its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preempted;

/// The exchanges with one origin whose clients are slow. The exchange that has been slow for
/// longest is first.
#[derive(Debug, Default)]
pub(super) struct StalledExchanges {
    exchanges: RefCell<Vec<StalledExchange>>,
}

#[derive(Debug)]
struct StalledExchange {
    network: ClientNetwork,
    /// Asks the exchange to break off. The channel is closed once the client is no longer slow or
    /// the exchange has ended.
    ask: oneshot::Sender<()>,
}

/// Measures the speed of one exchange's client, over all waits that use this watch.
#[derive(Debug)]
pub(super) struct SlowWatch {
    network: ClientNetwork,
    /// The time spent waiting for the client in the current period.
    waited: Duration,
    /// The bytes that the client had moved at the start of the period.
    moved_before: Option<u64>,
    /// Set while the client is slow. Becomes ready once the exchange is asked to break off.
    asked: Option<oneshot::Receiver<()>>,
}

impl SlowWatch {
    /// Watches a client in `network`.
    pub(super) fn new(network: ClientNetwork) -> SlowWatch {
        SlowWatch { network, waited: Duration::ZERO, moved_before: None, asked: None }
    }
}

impl StalledExchanges {
    /// Runs `work`, which waits for a client. `moved` returns the number of bytes that the client
    /// has sent or taken.
    ///
    /// # Errors
    /// The client moved fewer than [`STALL_BYTES`] within [`STALL_MS`] of waits, and the exchange
    /// was asked to break off.
    pub(super) async fn wait<T>(
        &self,
        watch: &mut SlowWatch,
        work: impl Future<Output = T>,
        moved: impl Fn() -> u64,
    ) -> Result<T, Preempted> {
        let mut work = pin!(work);
        // Most work need not wait, and a timer costs more than a poll.
        if let Some(done) = poll_once(work.as_mut()).await {
            return Ok(done);
        }
        // The exchange was asked to break off while it did not wait for its client. The request
        // that asked has got another permit since, or will ask again.
        if watch.asked.as_mut().is_some_and(|asked| asked.try_recv().is_ok()) {
            watch.asked = None;
        }
        loop {
            let began = Instant::now();
            let before = *watch.moved_before.get_or_insert_with(&moved);
            let is_slow = || moved().saturating_sub(before) < STALL_BYTES;
            let left = Duration::from_millis(STALL_MS).saturating_sub(watch.waited);
            let period = timeout(left, work.as_mut());
            let ended = match &mut watch.asked {
                None => period.await,
                Some(asked) => tokio::select! {
                    biased;
                    ended = period => ended,
                    _ = asked, if is_slow() => return Err(Preempted),
                },
            };
            if let Ok(done) = ended {
                watch.waited += began.elapsed();
                return Ok(done);
            }
            if !is_slow() {
                watch.asked = None;
            } else if watch.asked.is_none() {
                watch.asked = Some(self.enter(watch.network));
            }
            (watch.waited, watch.moved_before) = (Duration::ZERO, None);
        }
    }

    fn enter(&self, network: ClientNetwork) -> oneshot::Receiver<()> {
        let (ask, asked) = oneshot::channel();
        let mut exchanges = self.exchanges.borrow_mut();
        exchanges.retain(|other| !other.ask.is_closed());
        exchanges.push(StalledExchange { network, ask });
        asked
    }

    /// Runs `work`, which waits for a permit for a client in `network`, and asks exchanges to break
    /// off until `work` ends. `held_by` returns the number of permits that a network holds.
    pub(super) async fn preempt_while<T>(
        &self,
        work: impl Future<Output = T>,
        network: ClientNetwork,
        held_by: impl Fn(ClientNetwork) -> u32,
    ) -> T {
        let mut work = pin!(work);
        if let Some(done) = poll_once(work.as_mut()).await {
            return done;
        }
        loop {
            let limit = Duration::from_millis(PREEMPT_ASK_MS);
            if let Ok(done) = timeout(limit, work.as_mut()).await {
                return done;
            }
            self.ask(network, &held_by);
        }
    }

    /// Chooses the network that holds the most permits, among the networks of these exchanges, and
    /// asks its first exchange to break off. Does nothing if that network holds fewer permits than
    /// the network that waits.
    fn ask(&self, waiting: ClientNetwork, held_by: &impl Fn(ClientNetwork) -> u32) {
        let mut exchanges = self.exchanges.borrow_mut();
        exchanges.retain(|exchange| !exchange.ask.is_closed());
        // If several networks hold the same number of permits, the network with the first exchange
        // is chosen.
        let first = (0..exchanges.len()).rev().max_by_key(|&index| {
            exchanges.get(index).map_or(0, |exchange| held_by(exchange.network))
        });
        if let Some(first) = first
            && held_by(exchanges[first].network) >= held_by(waiting)
        {
            // Sending fails if the exchange has just ended; then its permit is free anyway.
            let _ = exchanges.remove(first).ask.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::rc::Rc;
    use std::task::{Context, Waker};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, test);
    }

    fn network(number: u8) -> ClientNetwork {
        ClientNetwork::of([192, 0, 2, number].into(), 64)
    }

    async fn sleep_ms(ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    type Waiting = tokio::task::JoinHandle<Result<(), Preempted>>;

    fn stall(stalled: &Rc<StalledExchanges>, number: u8) -> Waiting {
        let stalled = Rc::clone(stalled);
        let wait = async move {
            stalled.wait(&mut SlowWatch::new(network(number)), pending::<()>(), || 0).await
        };
        tokio::task::spawn_local(wait)
    }

    #[test]
    fn a_request_that_waits_preempts_the_exchange_that_has_been_slow_for_longest() {
        run(async {
            let stalled = Rc::new(StalledExchanges::default());
            let first = stall(&stalled, 1);
            sleep_ms(1).await;
            let second = stall(&stalled, 1);
            let (give, permit) = oneshot::channel();
            let waits = Rc::clone(&stalled);
            let waits = tokio::task::spawn_local(async move {
                waits.preempt_while(permit, network(2), |_| 1).await
            });
            assert_eq!(first.await.expect("it ends"), Err(Preempted));
            assert!(!second.is_finished(), "one is enough");
            give.send(7).expect("it waits");
            assert_eq!(waits.await.expect("it ends"), Ok(7));
            sleep_ms(3_600_000).await;
            assert!(!second.is_finished(), "no request waits");
        });
    }

    #[test]
    fn the_network_that_holds_the_most_permits_is_preempted_first() {
        run(async {
            let stalled = Rc::new(StalledExchanges::default());
            let held_by = |of: ClientNetwork| if of == network(2) { 9 } else { 1 };
            let modest = stall(&stalled, 1);
            sleep_ms(1).await;
            let (greedy, greedy_too) = (stall(&stalled, 2), stall(&stalled, 2));
            sleep_ms(STALL_MS + 1).await;
            stalled.ask(network(3), &held_by);
            sleep_ms(1).await;
            let ended = [&modest, &greedy, &greedy_too].map(|waiting| waiting.is_finished());
            assert_eq!(ended, [false, true, false]);
            stalled.ask(network(2), &held_by);
            sleep_ms(1).await;
            assert!(greedy_too.is_finished() && !modest.is_finished());
            stalled.ask(network(2), &held_by);
            sleep_ms(1).await;
            assert!(!modest.is_finished(), "the network that waits holds more permits");
            stalled.ask(network(3), &held_by);
            sleep_ms(1).await;
            assert!(modest.is_finished());
        });
    }

    /// Each wait is shorter than a period, as if the client sent a piece from time to time.
    #[test]
    fn an_exchange_is_preempted_only_while_its_client_is_slow() {
        run(async {
            for (piece_bytes, expected) in [(STALL_BYTES / 2 + 1, Ok(())), (300, Err(Preempted))] {
                let stalled = StalledExchanges::default();
                let (mut watch, moved) = (SlowWatch::new(network(1)), std::cell::Cell::new(0));
                let mut result = Ok(());
                for _ in 0..20 {
                    let piece = async {
                        sleep_ms(STALL_MS / 4).await;
                        stalled.ask(network(1), &|_| 1);
                        sleep_ms(STALL_MS / 4).await;
                        moved.set(moved.get() + piece_bytes);
                    };
                    // Waits for the origin do not count.
                    sleep_ms(10 * STALL_MS).await;
                    result = stalled.wait(&mut watch, piece, || moved.get()).await;
                    if result.is_err() {
                        break;
                    }
                }
                assert_eq!(result, expected, "{piece_bytes} bytes at a time");
            }
        });
    }

    #[test]
    fn work_that_need_not_wait_is_done_at_once() {
        let stalled = StalledExchanges::default();
        let mut cx = Context::from_waker(Waker::noop());
        let permit = stalled.preempt_while(async { 1 }, network(1), |_| 0);
        assert_eq!(pin!(permit).poll(&mut cx), std::task::Poll::Ready(1));
    }
}
