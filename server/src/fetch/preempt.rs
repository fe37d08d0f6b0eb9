//! A request that waits for a permit preempts an exchange whose client has stalled.
//!
//! A response that is not stored arrives at its client's pace, and holds a permit of its origin all
//! the time. Clients that do not read would hold all permits, and every miss would be answered with
//! 503. So a request that has waited for a permit for some time asks the exchange that has stalled
//! for longest to break off.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::limits::{PREEMPT_ASK_MS, STALL_MS};
use crate::poll_once::poll_once;

/// The exchange was asked to break off: another request waits for its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preempted;

/// The exchanges with one origin whose clients have stalled, the longest stall first.
#[derive(Debug, Default)]
pub(super) struct StalledExchanges {
    /// An exchange whose client has resumed reading stays in the queue for a while.
    exchanges: RefCell<VecDeque<oneshot::Sender<()>>>,
}

impl StalledExchanges {
    /// Runs `work`, which waits for a client. `moved` grows when the client takes bytes.
    ///
    /// # Errors
    /// The client took no bytes for [`STALL_MS`], and the exchange was asked to break off.
    pub(super) async fn wait<T>(
        &self,
        work: impl Future<Output = T>,
        moved: impl Fn() -> u64,
    ) -> Result<T, Preempted> {
        let mut work = pin!(work);
        // Most work need not wait, and a timer costs more than a poll.
        if let Some(done) = poll_once(work.as_mut()).await {
            return Ok(done);
        }
        loop {
            let before = moved();
            let limit = Duration::from_millis(STALL_MS);
            if let Ok(done) = timeout(limit, work.as_mut()).await {
                return Ok(done);
            }
            if moved() != before {
                continue;
            }
            let asked = self.enter();
            tokio::select! {
                biased;
                done = work.as_mut() => return Ok(done),
                _ = asked => if moved() == before { return Err(Preempted) },
            }
        }
    }

    fn enter(&self) -> oneshot::Receiver<()> {
        let (ask, asked) = oneshot::channel();
        let mut exchanges = self.exchanges.borrow_mut();
        exchanges.retain(|other| !other.is_closed());
        exchanges.push_back(ask);
        asked
    }

    /// Runs `work`, which waits for a permit, and asks stalled exchanges to break off until it
    /// ends.
    pub(super) async fn preempt_while<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if let Some(done) = poll_once(work.as_mut()).await {
            return done;
        }
        loop {
            let limit = Duration::from_millis(PREEMPT_ASK_MS);
            if let Ok(done) = timeout(limit, work.as_mut()).await {
                return done;
            }
            self.ask();
        }
    }

    /// Asks the first exchange that is still stalled.
    fn ask(&self) {
        let mut exchanges = self.exchanges.borrow_mut();
        while let Some(ask) = exchanges.pop_front() {
            if ask.send(()).is_ok() {
                return;
            }
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

    #[test]
    fn each_request_that_waits_preempts_the_exchange_that_has_stalled_for_longest() {
        run(async {
            let standing = Rc::new(StalledExchanges::default());
            let stand = |standing: &Rc<StalledExchanges>| {
                let standing = Rc::clone(standing);
                tokio::task::spawn_local(async move { standing.wait(pending::<()>(), || 0).await })
            };
            let first = stand(&standing);
            tokio::time::sleep(Duration::from_millis(1)).await;
            let second = stand(&standing);
            let (give, permit) = oneshot::channel();
            let waits = Rc::clone(&standing);
            let waits = tokio::task::spawn_local(async move { waits.preempt_while(permit).await });
            assert_eq!(first.await.expect("it ends"), Err(Preempted));
            assert!(!second.is_finished(), "one is enough");
            give.send(7).expect("it waits");
            assert_eq!(waits.await.expect("it ends"), Ok(7));
            tokio::time::sleep(Duration::from_secs(3600)).await;
            assert!(!second.is_finished(), "no request waits");
        });
    }

    #[test]
    fn an_exchange_whose_client_goes_on_is_not_preempted_and_leaves_the_list() {
        run(async {
            let standing = StalledExchanges::default();
            for _ in 0..10 {
                let moves = tokio::time::sleep(Duration::from_millis(STALL_MS + 1));
                assert_eq!(standing.wait(moves, || 0).await, Ok(()));
            }
            assert_eq!(standing.exchanges.borrow().len(), 1, "the last one");
            standing.ask();
            assert!(standing.exchanges.borrow().is_empty());
            let taken = std::cell::Cell::new(0);
            let slow = async {
                for _ in 0..20 {
                    tokio::time::sleep(Duration::from_millis(STALL_MS / 2)).await;
                    taken.set(taken.get() + 1);
                    standing.ask();
                }
            };
            assert_eq!(
                standing.wait(slow, || taken.get()).await,
                Ok(()),
                "the client takes some bytes, so it is not stalled"
            );
            let mut cx = Context::from_waker(Waker::noop());
            let ready = pin!(standing.preempt_while(async { 1 })).poll(&mut cx);
            assert_eq!(ready, std::task::Poll::Ready(1));
        });
    }
}
