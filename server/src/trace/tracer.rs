//! Tracers: the workers' end, which sends records, and the control thread's end, which reads them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_http::request::RequestHead;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::filter::TraceFilter;
use super::open::Trace;
use super::record::TraceRecord;
use crate::accept::Client;
use crate::clock;
use crate::limits::TRACE_QUEUE_MAX;
use crate::log::AccessEntry;

/// The workers' end of a tracer.
#[derive(Debug)]
pub(crate) struct Tracer {
    filter: TraceFilter,
    records: mpsc::Sender<Arc<TraceRecord>>,
    /// The number of records that were dropped because the queue was full, and that have not been
    /// reported yet.
    lost: Arc<AtomicU64>,
}

/// The control thread's end of a tracer. Dropping this end detaches the tracer, which each worker
/// forgets at its next request.
#[derive(Debug)]
pub(crate) struct TraceReader {
    records: mpsc::Receiver<Arc<TraceRecord>>,
    lost: Arc<AtomicU64>,
}

impl Tracer {
    /// Creates both ends of a tracer.
    pub(crate) fn new(filter: TraceFilter) -> (Arc<Tracer>, TraceReader) {
        let (records, received) = mpsc::channel(TRACE_QUEUE_MAX);
        let lost = Arc::<AtomicU64>::default();
        let reader = TraceReader { records: received, lost: Arc::clone(&lost) };
        (Arc::new(Tracer { filter, records, lost }), reader)
    }

    /// Queues a record, or counts it as lost if the queue is full.
    pub(super) fn send(&self, record: &Arc<TraceRecord>) {
        if let Err(TrySendError::Full(_)) = self.records.try_send(Arc::clone(record)) {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    fn is_attached(&self) -> bool {
        !self.records.is_closed()
    }
}

impl TraceReader {
    /// Waits for the next record; `None` once all workers have ended.
    pub(crate) async fn next(&mut self) -> Option<Arc<TraceRecord>> {
        self.records.recv().await
    }

    /// Returns the next record if it is in the queue.
    pub(crate) fn next_queued(&mut self) -> Option<Arc<TraceRecord>> {
        self.records.try_recv().ok()
    }

    /// Returns the number of records lost since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Relaxed)
    }
}

/// The tracers of one worker.
#[derive(Default)]
pub(crate) struct WorkerTracers {
    /// Whether `list` has an entry. Only the worker's own thread reads and writes this flag. So
    /// without tracers, a request reads one plain byte of its worker's memory, and needs no atomic
    /// access, no lock and no allocation.
    is_on: Cell<bool>,
    /// The time since which the worker has always had at least one tracer, in microseconds of
    /// `clock::monotonic_us`.
    since_us: Cell<u64>,
    list: RefCell<Vec<Arc<Tracer>>>,
}

impl WorkerTracers {
    /// Whether the worker may have a tracer.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Adds a tracer, and forgets the tracers that have detached.
    pub(crate) fn add(&self, tracer: Arc<Tracer>) {
        self.forget_detached();
        self.list.borrow_mut().push(tracer);
        if !self.is_on.replace(true) {
            self.since_us.set(clock::monotonic_us());
        }
    }

    /// Begins the trace of a request whose head has been parsed; returns an empty trace if no
    /// tracer selects the request.
    #[inline]
    pub(crate) fn begin(&self, client: &Client, head: RequestHead<'_>) -> Trace {
        match self.is_on.get() {
            false => Trace::default(),
            true => self.begin_selected(client, head),
        }
    }

    #[cold]
    fn begin_selected(&self, client: &Client, head: RequestHead<'_>) -> Trace {
        self.forget_detached();
        let list = self.list.borrow();
        let arrived_us = client.arrival.take_first();
        let tracers: Vec<_> =
            list.iter().filter(|tracer| tracer.filter.selects(head)).map(Arc::clone).collect();
        if tracers.is_empty() {
            return Trace::default();
        }
        let mut entry = AccessEntry::begin(head, client, client.worker.next_request_number());
        entry.shorten();
        // An earlier time belongs to a previous request, which arrived while no tracer was
        // attached.
        if arrived_us >= self.since_us.get() {
            entry.begin_at(arrived_us);
        }
        Trace::begin(entry, tracers)
    }

    fn forget_detached(&self) {
        let mut list = self.list.borrow_mut();
        list.retain(|tracer| tracer.is_attached());
        self.is_on.set(!list.is_empty());
    }
}

/// The times at which bytes of a connection's requests arrived, recorded while its worker has a
/// tracer.
#[derive(Debug, Default)]
pub(crate) struct ArrivalTimes {
    /// The time at which the first byte of the next request arrived, if its head came in several
    /// reads.
    first_us: Cell<Option<u64>>,
    previous_us: Cell<u64>,
    last_us: Cell<u64>,
}

impl ArrivalTimes {
    /// Records that bytes have arrived.
    #[cold]
    pub(crate) fn note_read(&self) {
        self.previous_us.set(self.last_us.replace(clock::monotonic_us()));
    }

    /// Records that the last read brought bytes of the next request's head. If they are not the
    /// first bytes of the head, the head began in the previous read.
    pub(crate) fn note_head(&self, is_first: bool) {
        if self.first_us.get().is_none() {
            let first = if is_first { &self.last_us } else { &self.previous_us };
            self.first_us.set(Some(first.get()));
        }
    }

    /// Returns the time at which the first byte of the current request arrived.
    fn take_first(&self) -> u64 {
        self.first_us.take().unwrap_or(self.last_us.get())
    }
}
