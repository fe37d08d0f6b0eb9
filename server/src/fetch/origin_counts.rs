//! The counts of each origin of each site and route, in one worker. The control thread asks the
//! workers for them and adds them up.

use std::cell::Cell;
use std::collections::HashMap;

use crate::clock;
use crate::config::Route;
use crate::events::Event;
use crate::fault::Fault;
use crate::limits::ORIGINS_SHOWN_MAX;
use crate::worker::Worker;

/// The counts of one origin of one group.
#[derive(Debug, Default)]
pub(super) struct OriginCells(Cell<OriginCount>);

/// The counts of one origin of one group, in one worker or summed over workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OriginCount {
    pub(crate) requests: u64,
    pub(crate) answers: u64,
    pub(crate) answers_4xx: u64,
    pub(crate) answers_5xx: u64,
    /// The sum of the times in microseconds from sending a request until the head of its answer
    /// arrived.
    pub(crate) first_byte_us: u64,
    pub(crate) unreachable: u64,
    pub(crate) tls_failed: u64,
    pub(crate) timed_out: u64,
    pub(crate) bad_answers: u64,
    pub(crate) ejections: u64,
    /// Exchanges in progress, summed over all groups that have this origin.
    pub(crate) exchanges: u64,
    /// Workers that have ejected the origin.
    pub(crate) ejected: u64,
}

/// The counts of one origin, with the name of its site, the path of the route whose own origin it
/// is, and the origin's authority.
#[derive(Clone, Debug)]
pub(crate) struct OriginLine {
    pub(crate) site: String,
    pub(crate) route: Option<String>,
    pub(crate) origin: String,
    pub(crate) count: OriginCount,
}

/// The counts of the first [`ORIGINS_SHOWN_MAX`] origins of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct OriginReport(pub(crate) Vec<OriginLine>);

impl OriginCells {
    fn change(&self, change: impl FnOnce(&mut OriginCount)) {
        let mut count = self.0.get();
        change(&mut count);
        self.0.set(count);
    }

    /// Counts an attempt to send a request.
    pub(super) fn note_request(&self) {
        self.change(|count| count.requests += 1);
    }

    /// Counts an answer whose head arrived `took_us` microseconds after the request was sent.
    pub(super) fn note_answer(&self, status: u16, took_us: u64) {
        self.change(|count| {
            count.answers += 1;
            count.answers_4xx += u64::from((400..500).contains(&status));
            count.answers_5xx += u64::from(status >= 500);
            count.first_byte_us += took_us;
        });
    }

    /// Counts a failure under its kind of fault.
    pub(super) fn note_failed(&self, fault: Fault) {
        self.change(|count| match fault.event() {
            Some(Event::OriginUnreachable) => count.unreachable += 1,
            Some(Event::OriginTlsFailed) => count.tls_failed += 1,
            Some(Event::OriginTimedOut) => count.timed_out += 1,
            Some(Event::OriginBadAnswer) => count.bad_answers += 1,
            _ => {}
        });
    }

    /// Counts an ejection.
    pub(super) fn note_ejected(&self) {
        self.change(|count| count.ejections += 1);
    }
}

impl OriginCount {
    fn merge(&mut self, other: OriginCount) {
        self.requests += other.requests;
        self.answers += other.answers;
        self.answers_4xx += other.answers_4xx;
        self.answers_5xx += other.answers_5xx;
        self.first_byte_us += other.first_byte_us;
        self.unreachable += other.unreachable;
        self.tls_failed += other.tls_failed;
        self.timed_out += other.timed_out;
        self.bad_answers += other.bad_answers;
        self.ejections += other.ejections;
        self.exchanges += other.exchanges;
        self.ejected += other.ejected;
    }
}

impl OriginReport {
    /// Returns the counts of one worker, in the order of its configuration.
    pub(crate) fn new(worker: &Worker) -> OriginReport {
        let (config, now_ms) = (worker.config(), clock::monotonic_ms());
        let mut lines = Vec::new();
        for of in config.sites.origin_groups() {
            let group = worker.origins.group(of.group);
            for member in of.group.members() {
                if lines.len() == ORIGINS_SHOWN_MAX {
                    return OriginReport(lines);
                }
                let pool = worker.origins.pool(&member.address, &config.server);
                let state = group.member(&member.address);
                let mut count = state.counts.0.get();
                count.exchanges = u64::from(pool.exchange_count());
                count.ejected = u64::from(state.ejection.until_ms(now_ms) != 0);
                let route = of.route.map(Route::shown_path);
                let (site, origin) = (of.site.name.clone(), member.address.authority.clone());
                lines.push(OriginLine { site, route, origin, count });
            }
        }
        OriginReport(lines)
    }

    /// Returns the sum of the workers' reports.
    pub(crate) fn sum(reports: Vec<OriginReport>) -> OriginReport {
        let (mut sum, mut places) = (OriginReport::default(), HashMap::new());
        for line in reports.into_iter().flat_map(|report| report.0) {
            let key = (line.site.clone(), line.route.clone(), line.origin.clone());
            let place = *places.entry(key).or_insert(sum.0.len());
            match sum.0.get_mut(place) {
                Some(known) => known.count.merge(line.count),
                None => sum.0.push(line),
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_workers_are_added_for_each_origin() {
        let cells = OriginCells::default();
        cells.note_request();
        cells.note_request();
        cells.note_answer(503, 7);
        cells.note_failed(Fault::OriginConnect);
        cells.note_failed(Fault::OriginBusy);
        cells.note_ejected();
        let line = |site: &str| OriginLine {
            site: site.to_owned(),
            route: None,
            origin: "a:1".to_owned(),
            count: cells.0.get(),
        };
        let report = |sites: &[&str]| OriginReport(sites.iter().map(|site| line(site)).collect());
        let sum = OriginReport::sum(vec![report(&["one", "other"]), report(&["one"])]).0;
        let found: Vec<_> = sum.iter().map(|line| (&*line.site, line.count.requests)).collect();
        assert_eq!(found, [("one", 4), ("other", 2)]);
        let expected = OriginCount {
            requests: 4,
            answers: 2,
            answers_5xx: 2,
            first_byte_us: 14,
            unreachable: 2,
            ejections: 2,
            ..OriginCount::default()
        };
        assert_eq!(sum[0].count, expected);
    }
}
