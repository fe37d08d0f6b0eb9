//! What the tasks of one worker share: settings, store, connections, counters, buffers, origins.
//!
//! A worker is one thread. Nothing here is locked, and but for the store nothing is shared with
//! another thread; settings are a copy of its own, exchanged between two turns of the loop.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use forebay_cache::Store;
use forebay_shm::CounterSlot;

use crate::accept::Registry;
use crate::buffers::BufferPool;
use crate::config::Config;
use crate::counters::Counter;
use crate::events::{Event, EventBudget};
use crate::fault::{Fault, Side};
use crate::fetch::Origins;
use crate::log::LogSender;

/// One worker's state.
pub(crate) struct Worker {
    config: RefCell<Rc<Config>>,
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Rc<Registry>,
    pub(crate) buffers: BufferPool,
    pub(crate) origins: Origins,
    counters: CounterSlot,
    events: EventBudget,
    access_log: RefCell<Option<LogSender>>,
    /// This server's name in `Via`, by which it knows its own requests when they come back.
    pub(crate) via: Arc<str>,
    draining: Cell<bool>,
    /// Wakes the accept loop, which otherwise waits for the next connection only.
    accept_waker: RefCell<Option<Waker>>,
}

/// What a worker is made of.
pub(crate) struct WorkerParts {
    pub(crate) config: Config,
    pub(crate) store: Arc<Store>,
    pub(crate) counters: CounterSlot,
    pub(crate) access_log: Option<LogSender>,
    pub(crate) via: Arc<str>,
}

impl Worker {
    pub(crate) fn new(parts: WorkerParts) -> Worker {
        Worker {
            config: RefCell::new(Rc::new(parts.config)),
            store: parts.store,
            registry: Rc::default(),
            buffers: BufferPool::default(),
            origins: Origins::default(),
            counters: parts.counters,
            events: EventBudget::default(),
            access_log: RefCell::new(parts.access_log),
            via: parts.via,
            draining: Cell::new(false),
            accept_waker: RefCell::new(None),
        }
    }

    /// The settings that hold now; a request keeps the ones it began with.
    pub(crate) fn config(&self) -> Rc<Config> {
        Rc::clone(&self.config.borrow())
    }

    /// Takes other settings, for every request that begins after this.
    pub(crate) fn reconfigure(&self, config: Config, access_log: Option<LogSender>) {
        *self.config.borrow_mut() = Rc::new(config);
        *self.access_log.borrow_mut() = access_log;
    }

    /// Calls `write` with the access log, if there is one.
    pub(crate) fn with_access_log(&self, write: impl FnOnce(&LogSender)) {
        if let Some(log) = &*self.access_log.borrow() {
            write(log);
        }
    }

    /// Counts one more of something.
    pub(crate) fn count(&self, counter: Counter) {
        self.counters.add(counter.index(), 1);
    }

    /// Counts `amount` more of something.
    pub(crate) fn count_many(&self, counter: Counter, amount: u64) {
        self.counters.add(counter.index(), amount);
    }

    /// Sets a gauge.
    pub(crate) fn gauge(&self, counter: Counter, value: u64) {
        self.counters.set(counter.index(), value);
    }

    /// Logs an event, unless too many were logged in this second.
    pub(crate) fn event(&self, event: Event, detail: &dyn fmt::Display) {
        if self.events.take() {
            event.log(detail);
        }
    }

    /// Counts a fault, and logs it if it is of the client's form; the origin's are logged where
    /// they are seen.
    pub(crate) fn fault(&self, fault: Fault, client: IpAddr) {
        if let Some(counter) = fault.counter() {
            self.count(counter);
        }
        if fault.side() == Side::Client {
            self.event(Event::RequestRefused, &format_args!("{client}: {}", fault.reason()));
        }
    }

    /// From now on no connection waits for another request.
    pub(crate) fn drain(&self) {
        self.draining.set(true);
        self.registry.wake_idle();
        if let Some(waker) = self.accept_waker.take() {
            waker.wake();
        }
        self.origins.close_idle();
    }

    /// The accept loop waits and wants to hear of the end.
    pub(crate) fn set_accept_waker(&self, waker: &Waker) {
        let mut kept = self.accept_waker.borrow_mut();
        match &*kept {
            Some(kept) if kept.will_wake(waker) => {}
            _ => *kept = Some(waker.clone()),
        }
    }

    /// Is the server about to stop?
    pub(crate) fn draining(&self) -> bool {
        self.draining.get()
    }
}
