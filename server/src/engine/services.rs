//! The targets of services: origins from SRV records.
//!
//! The control thread knows the targets of each service, and asks for them again when they are no
//! longer valid, on threads of their own, because the DNS client blocks. If targets have changed,
//! the workers get a configuration with the new ones, as in a reload. Connections and failures of
//! an origin belong to its host and port, so those of a target that stays are kept.
//!
//! If name servers fail or deny that the service exists, the last targets stay in use: DNS and the
//! services that it names seldom fail together, and targets that are really gone are left out as
//! other origins are. Only the target "." removes all targets (RFC 2782).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::control::Control;
use super::worker_thread::{NewSettings, WorkerCommand};
use crate::clock;
use crate::config::{Config, ServerSettings};
use crate::counters::Counter;
use crate::dns::{self, ServiceAnswer, ServiceTarget};
use crate::events::Event;
use crate::fetch::Hosts;
use crate::limits::{
    DNS_VALID_MS_MIN, GROUP_ORIGINS_MAX, HOST_RETRY_MS, HOUSEKEEPING_MS, RESOLUTIONS_MAX,
    SERVICE_KEPT_MS, SERVICE_WAIT_MS, TARGETS_SHOWN_MAX,
};

/// The services of the configuration, by the names of their records.
#[derive(Debug, Default)]
pub(super) struct ServiceTable {
    services: RefCell<HashMap<Box<str>, ServiceState>>,
    /// Whether targets have changed since the workers last got them.
    has_changed: Cell<bool>,
    /// The time at which the workers last got targets.
    applied_ms: Cell<u64>,
}

/// The state of one service.
#[derive(Debug, Default)]
struct ServiceState {
    /// The targets in use; `None` if none were ever known.
    targets: Option<Arc<[ServiceTarget]>>,
    /// The time of the next question; 0 if none was asked.
    due_ms: u64,
    is_being_resolved: bool,
    /// The reason why the last answer could not be used; empty if it could.
    failure: String,
    /// The number of targets beyond `targets_max` that was last reported.
    left_out_count: usize,
    /// The time at which the configuration last had the service.
    used_ms: u64,
}

/// The result of one question that is to be reported.
#[derive(Debug, Default, PartialEq, Eq)]
struct ServiceReport {
    has_failed: bool,
    has_changed: bool,
    event: Option<(Event, String)>,
}

impl ServiceState {
    /// Records the result of a question. The targets are asked for again when they are no longer
    /// valid, but at the latest after `age_ms_max`.
    fn note(
        &mut self,
        answer: io::Result<ServiceAnswer>,
        now_ms: u64,
        age_ms_max: u64,
    ) -> ServiceReport {
        self.due_ms = now_ms + HOST_RETRY_MS;
        let failure = match answer {
            Ok(ServiceAnswer::Targets { targets, valid_s, .. }) if !targets.is_empty() => {
                let valid_ms = (u64::from(valid_s) * 1000).min(age_ms_max);
                self.due_ms = now_ms + valid_ms.max(DNS_VALID_MS_MIN);
                return self.replace(targets);
            }
            Ok(ServiceAnswer::Unavailable) => return self.replace(Vec::new()),
            Ok(ServiceAnswer::Targets { unusable_count, .. }) => {
                format!("none of {unusable_count} SRV records has a usable target")
            }
            Ok(ServiceAnswer::Missing) => "the name has no SRV record".to_owned(),
            Err(error) => error.to_string(),
        };
        let is_new = self.failure != failure;
        self.failure = failure;
        let what_now = match &self.targets {
            Some(_) => "the last known targets stay in use",
            None => "no targets are known",
        };
        let event = (Event::OriginUnresolved, format!("{}; {what_now}", self.failure));
        ServiceReport { has_failed: true, has_changed: false, event: is_new.then_some(event) }
    }

    /// Replaces the targets. Those that stay keep their order, so that the choice among more
    /// targets than are used stays the same.
    fn replace(&mut self, new: Vec<ServiceTarget>) -> ServiceReport {
        self.failure.clear();
        let at = |target: &ServiceTarget| (target.host.clone(), target.port);
        let mut by_place: HashMap<_, _> = HashMap::new();
        let mut places = Vec::new();
        for target in new {
            places.push(at(&target));
            by_place.entry(at(&target)).or_insert(target);
        }
        let known = self.targets.iter().flat_map(|targets| targets.iter()).map(at);
        let places: Vec<_> = known.chain(places).collect();
        let ordered = places.iter().filter_map(|place| by_place.remove(place));
        let targets: Arc<[ServiceTarget]> = ordered.collect();
        if self.targets.as_deref() == Some(&*targets) {
            return ServiceReport::default();
        }
        let text = shown(&targets);
        self.targets = Some(targets);
        let event = Some((Event::OriginTargets, text));
        ServiceReport { has_failed: false, has_changed: true, event }
    }
}

/// Returns the targets as text for an event.
fn shown(targets: &[ServiceTarget]) -> String {
    if targets.is_empty() {
        return "the service is not available: it has no targets".to_owned();
    }
    let show = |target: &ServiceTarget| {
        let ServiceTarget { host, port, priority, weight } = target;
        format!("{host}:{port} (priority {priority}, weight {weight})")
    };
    let mut texts: Vec<_> = targets.iter().take(TARGETS_SHOWN_MAX).map(show).collect();
    let more = targets.len().saturating_sub(TARGETS_SHOWN_MAX);
    texts.extend((more > 0).then(|| format!("and {more} more")));
    texts.join(", ")
}

impl ServiceTable {
    /// Asks for the targets of all services before the server starts, and waits for a limited time
    /// so that the first requests find them. Counts go to `count`.
    pub(super) fn at_start(
        config: &mut Config,
        hosts: &Arc<Hosts>,
        count: impl Fn(Counter, u64),
    ) -> ServiceTable {
        let table = ServiceTable::default();
        let (tell, told) = mpsc::channel();
        let deadline_ms = clock::monotonic_ms() + SERVICE_WAIT_MS;
        let mut awaited = 0;
        loop {
            for name in table.take_due(config, true) {
                let (tell, own) = (tell.clone(), name.clone());
                awaited += 1;
                resolve_on_a_thread(name, hosts, &config.server, move |answer| {
                    // The receiver may have given up.
                    let _ = tell.send((own, answer));
                });
            }
            let left_ms = deadline_ms.saturating_sub(clock::monotonic_ms());
            if awaited == 0 {
                break;
            }
            let Ok((name, answer)) = told.recv_timeout(Duration::from_millis(left_ms)) else {
                break;
            };
            awaited -= 1;
            table.note(&name, answer, config, &count);
            table.end(&name);
        }
        // Answers that come later are lost, so the control thread asks again.
        table.services.borrow_mut().values_mut().for_each(|one| one.is_being_resolved = false);
        table.fill(config, &count);
        table.has_changed.set(false);
        table
    }

    /// Gives the configuration the targets that are known. Returns whether any have changed.
    pub(super) fn fill(&self, config: &mut Config, count: &impl Fn(Counter, u64)) -> bool {
        let services = self.services.borrow();
        let has_changed = config.sites.set_targets(&|name| services.get(name)?.targets.clone());
        drop(services);
        self.report_left_out(config, count);
        has_changed
    }

    /// Returns the services of the configuration that must be asked for now, and records that they
    /// are. Those beyond [`RESOLUTIONS_MAX`] have to wait; the ones that have waited longest come
    /// first. With `are_new`, returns only those that were never asked for.
    fn take_due(&self, config: &Config, are_new: bool) -> Vec<Box<str>> {
        let now_ms = clock::monotonic_ms();
        let mut services = self.services.borrow_mut();
        let running = services.values().filter(|one| one.is_being_resolved).count();
        let mut due = Vec::new();
        for name in config.sites.services() {
            let state = services.entry(name.into()).or_default();
            let latest_ms = if are_new { 0 } else { now_ms };
            if !state.is_being_resolved && state.due_ms <= latest_ms {
                due.push((state.due_ms, Box::<str>::from(name)));
            }
        }
        due.sort_unstable();
        due.truncate(RESOLUTIONS_MAX.saturating_sub(running));
        let due: Vec<_> = due.into_iter().map(|(_, name)| name).collect();
        for name in &due {
            if let Some(state) = services.get_mut(name) {
                state.is_being_resolved = true;
            }
        }
        due
    }

    /// Records that the thread that asked for the service has ended.
    fn end(&self, name: &str) {
        if let Some(state) = self.services.borrow_mut().get_mut(name) {
            state.is_being_resolved = false;
        }
    }

    /// Forgets the services that no configuration has had for longer than a trial lasts. A reload
    /// asks for the targets of its new services before it uses them, and a trial may return to the
    /// previous services.
    fn retain(&self, config: &Config) {
        let (names, now_ms) = (config.sites.services(), clock::monotonic_ms());
        self.services.borrow_mut().retain(|name, state| {
            if names.contains(&**name) || state.used_ms == 0 {
                state.used_ms = now_ms;
            }
            now_ms - state.used_ms < SERVICE_KEPT_MS
        });
    }

    /// Records and reports the result of a question.
    fn note(
        &self,
        name: &str,
        answer: io::Result<ServiceAnswer>,
        config: &Config,
        count: &impl Fn(Counter, u64),
    ) {
        let mut services = self.services.borrow_mut();
        let Some(state) = services.get_mut(name) else { return };
        let ServerSettings { origin_address_ms_max, .. } = config.server;
        let now_ms = clock::monotonic_ms();
        let report = state.note(answer, now_ms, u64::from(origin_address_ms_max));
        count(Counter::OriginResolutions, 1);
        count(Counter::OriginResolutionErrors, u64::from(report.has_failed));
        if let Some((event, text)) = report.event {
            event.log(&format_args!("{name}: {text}"));
        }
        if report.has_changed {
            count(Counter::OriginTargetChanges, 1);
            self.has_changed.set(true);
        }
    }

    /// Reports and counts the targets beyond `targets_max`, the largest one of the groups that use
    /// the service, if their number has changed.
    fn report_left_out(&self, config: &Config, count: &impl Fn(Counter, u64)) {
        let members = config.sites.origin_groups().flat_map(|of| of.group.configured());
        let mut used = BTreeMap::new();
        for (service, targets_max) in
            members.filter_map(|one| Some((one.service()?, one.targets_max)))
        {
            let used: &mut usize = used.entry(&*service.name).or_default();
            *used = targets_max.max(*used);
        }
        let mut services = self.services.borrow_mut();
        for (name, used) in used {
            let Some(state) = services.get_mut(name) else { continue };
            let all = state.targets.as_ref().map_or(0, |targets| targets.len());
            let left_out = all.saturating_sub(used);
            if left_out > 0 && left_out != state.left_out_count {
                count(Counter::OriginTargetsLeftOut, left_out as u64);
                Event::OriginTargetsLeftOut.log(&format_args!(
                    "{name}: of {all} targets, {used} get requests, those with the smallest \
                     priority; see targets_max"
                ));
            }
            state.left_out_count = left_out;
        }
    }
}

/// Asks for the targets of a service on a new thread, which calls `note` with the answer. Then the
/// thread resolves the names of new targets, so that they are known if the name servers fail before
/// the first connection, as with targets that only get requests when others fail. The receiver ends
/// with the thread.
fn resolve_on_a_thread(
    name: Box<str>,
    hosts: &Arc<Hosts>,
    settings: &ServerSettings,
    note: impl FnOnce(io::Result<ServiceAnswer>) + Send + 'static,
) -> oneshot::Receiver<()> {
    let (running, ended) = oneshot::channel();
    let (hosts, servers) = (Arc::clone(hosts), settings.dns_servers.clone());
    // Addresses that are half as old as they may be are found again.
    let age_ms_max = u64::from(settings.origin_stale_address_ms_max) / 2;
    // Without a table of addresses, each connection resolves the name.
    let has_table = settings.origin_address_ms_max > 0;
    let resolve = move || {
        // Dropped at the end of the thread, even by a panic.
        let _running = running;
        let answer = dns::service(&servers, &name);
        let mut new = match &answer {
            Ok(ServiceAnswer::Targets { targets, .. }) if has_table => targets.clone(),
            _ => Vec::new(),
        };
        // A slow name must not delay the targets.
        note(answer);
        new.sort_by_key(|target| target.priority);
        new.truncate(GROUP_ORIGINS_MAX);
        // A failure is reported by the connection that needs the name. The names after it may
        // fail as slowly, so they are left to the next time.
        let _ = new.iter().try_for_each(|one| hosts.prepare(&servers, one, age_ms_max));
    };
    // If no thread can be started, `note` is dropped, which its receiver sees.
    let _ = std::thread::Builder::new().name("resolver".to_owned()).spawn(resolve);
    ended
}

impl Control {
    /// Asks for the targets of services that are no longer valid, and gives the workers those that
    /// have changed.
    pub(super) fn update_services(self: &Rc<Self>) {
        self.with_config(|config| self.services.retain(config));
        self.ask_for_services();
        self.apply_targets();
    }

    fn ask_for_services(self: &Rc<Self>) {
        for name in self.with_config(|config| self.services.take_due(config, false)) {
            self.with_config(|config| drop(self.resolve_service(name, &config.server)));
        }
    }

    /// Asks for the targets of services that only `config` has, and waits for a limited time, so
    /// that its first requests find them. Returns whether there are any.
    pub(super) async fn learn_services(self: &Rc<Self>, config: &Config) -> bool {
        let mut has_new = false;
        let all = async {
            loop {
                let due = self.services.take_due(config, true);
                if due.is_empty() {
                    break;
                }
                has_new = true;
                let resolve = |name| self.resolve_service(name, &config.server);
                for answered in due.into_iter().map(resolve).collect::<Vec<_>>() {
                    // An error means that the answer is there too.
                    let _ = answered.await;
                }
            }
        };
        // Targets that are late are used when they arrive.
        let _ = timeout(Duration::from_millis(SERVICE_WAIT_MS), all).await;
        has_new
    }

    /// Asks for the targets of a service. The receiver ends once there is an answer.
    fn resolve_service(
        self: &Rc<Self>,
        name: Box<str>,
        settings: &ServerSettings,
    ) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let ended = resolve_on_a_thread(name.clone(), &self.hosts, settings, move |answer| {
            // The server may be stopping.
            let _ = tell.send(answer);
        });
        let (waits, answered) = oneshot::channel();
        let control = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let lost = |_| Err(io::Error::other("cannot start a thread, or it has panicked"));
            let answer = told.await.unwrap_or_else(lost);
            let count = |counter, amount| control.count(counter, amount);
            control.with_config(|config| control.services.note(&name, answer, config, &count));
            control.apply_targets();
            drop(waits);
            // The sender is dropped at the end of the thread.
            let _: Result<(), _> = ended.await;
            control.services.end(&name);
            control.ask_for_services();
        });
        answered
    }

    /// Gives the workers the targets, if any have changed. The workers get a whole configuration,
    /// so this happens at most about twice a second; the next turn of the housekeeping has the
    /// rest.
    fn apply_targets(&self) {
        let (table, now_ms) = (&self.services, clock::monotonic_ms());
        let is_early = now_ms - table.applied_ms.get() < HOUSEKEEPING_MS / 2;
        if !table.has_changed.get() || is_early {
            return;
        }
        table.has_changed.set(false);
        table.applied_ms.set(now_ms);
        let mut config = self.config.borrow_mut();
        if !table.fill(&mut config, &|counter, amount| self.count(counter, amount)) {
            return;
        }
        // A stuck worker takes the targets once its event loop runs again.
        drop(self.workers.tell(|worker, done| {
            let settings = Arc::clone(&worker.settings);
            settings.put(NewSettings {
                config: Some(Box::new(config.clone())),
                keeps_rule_counts: true,
                tls: None,
                challenges: None,
                access_logs: None,
            });
            WorkerCommand::TakeSettings { settings, done }
        }));
        self.hosts.retain(&config.sites);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, priority: u16) -> ServiceTarget {
        ServiceTarget { host: host.to_owned(), port: 80, priority, weight: 1 }
    }

    fn targets(targets: &[ServiceTarget], valid_s: u32) -> io::Result<ServiceAnswer> {
        Ok(ServiceAnswer::Targets { targets: targets.to_vec(), valid_s, unusable_count: 0 })
    }

    fn hosts(state: &ServiceState) -> Option<Vec<&str>> {
        Some(state.targets.as_deref()?.iter().map(|target| &*target.host).collect())
    }

    fn config_of(names: impl Iterator<Item = String>) -> Config {
        let site = |name: String| {
            format!("[[site]]\nname = '{name}'\nnames = ['{name}']\norigin = 'srv+http://{name}'\n")
        };
        Config::from_toml(&names.map(site).collect::<String>(), "f").expect("it is valid")
    }

    #[test]
    fn every_service_is_asked_for_however_many_there_are() {
        let config = config_of((0..80).map(|number| format!("_a.s{number:02}.test")));
        let (table, mut asked) = (ServiceTable::default(), Vec::new());
        for expected in [32, 32, 16, 0] {
            let due = table.take_due(&config, true);
            assert_eq!(due.len(), expected);
            for name in due {
                let answer = targets(&[target("a", 1)], 0);
                table.note(&name, answer, &config, &|_, _| {});
                table.end(&name);
                asked.push(name);
            }
        }
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len(), 80);
    }

    #[test]
    fn the_service_that_has_waited_longest_is_asked_for_first() {
        let config =
            config_of(["_a.a.test", "_a.b.test", "_a.c.test"].map(str::to_owned).into_iter());
        let table = ServiceTable::default();
        table.take_due(&config, true);
        for (state, due_ms) in table.services.borrow_mut().iter_mut().map(|(name, state)| {
            let due_ms = if &**name == "_a.b.test" { 1 } else { 2 };
            (state, due_ms)
        }) {
            (state.is_being_resolved, state.due_ms) = (false, due_ms);
        }
        assert_eq!(&*table.take_due(&config, false)[0], "_a.b.test");
    }

    #[test]
    fn targets_that_stay_keep_their_order_and_equal_answers_change_nothing() {
        let mut state = ServiceState::default();
        let [a, b, c] = ["a", "b", "c"].map(|host| target(host, 1));
        // Columns: the answer; the targets afterwards; whether they have changed.
        let cases = [
            (vec![a.clone(), b.clone()], vec!["a", "b"], true),
            (vec![b.clone(), a.clone()], vec!["a", "b"], false),
            (vec![c.clone(), b.clone(), a.clone()], vec!["a", "b", "c"], true),
            (vec![c.clone(), b.clone(), b.clone()], vec!["b", "c"], true),
            (vec![target("b", 2), c.clone()], vec!["b", "c"], true),
            (vec![a.clone()], vec!["a"], true),
        ];
        for (answer, expected, has_changed) in cases {
            let report = state.note(targets(&answer, 1), 0, 10_000);
            assert_eq!(hosts(&state), Some(expected), "{answer:?}");
            assert_eq!((report.has_changed, report.has_failed), (has_changed, false), "{answer:?}");
            assert_eq!(report.event.is_some(), has_changed, "{answer:?}");
        }
    }

    #[test]
    fn targets_are_asked_for_again_when_they_are_no_longer_valid() {
        let mut state = ServiceState::default();
        // Columns: the validity in seconds; `origin_address_ms_max`; the pause in milliseconds.
        let cases = [(5, 10_000, 5000), (60, 10_000, 10_000), (0, 10_000, 1000), (60, 0, 1000)];
        for (valid_s, age_ms_max, pause_ms) in cases {
            state.note(targets(&[target("a", 1)], valid_s), 7, age_ms_max);
            assert_eq!(state.due_ms, 7 + pause_ms, "{valid_s} {age_ms_max}");
        }
    }

    #[test]
    fn only_a_dot_removes_the_targets_and_each_reason_of_a_failure_is_reported_once() {
        let mut state = ServiceState::default();
        let failing = || Err(io::Error::other("silent"));
        let unusable =
            || Ok(ServiceAnswer::Targets { targets: vec![], valid_s: 9, unusable_count: 2 });
        let text = |report: ServiceReport| report.event.map(|(_, text)| text).unwrap_or_default();
        assert_eq!(text(state.note(failing(), 0, 1)), "silent; no targets are known");
        assert_eq!(hosts(&state), None);
        state.note(targets(&[target("a", 1)], 1), 0, 1);
        for (answer, part) in [
            (failing(), "silent; the last known targets stay in use"),
            (failing(), ""),
            (Ok(ServiceAnswer::Missing), "no SRV record; the last known targets stay in use"),
            (Ok(ServiceAnswer::Missing), ""),
            (unusable(), "none of 2 SRV records has a usable target; the last"),
        ] {
            let report = state.note(answer, 0, 10_000);
            assert!(report.has_failed && !report.has_changed);
            let text = text(report);
            assert!(text.contains(part) && text.is_empty() == part.is_empty(), "{part:?}: {text}");
            assert_eq!((hosts(&state), state.due_ms), (Some(vec!["a"]), HOST_RETRY_MS));
        }
        let report = state.note(Ok(ServiceAnswer::Unavailable), 0, 1);
        assert!(report.has_changed && text(report).contains("not available"));
        assert_eq!(hosts(&state), Some(vec![]));
    }
}
