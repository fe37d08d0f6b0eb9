//! Checks of passwords.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use forebay_http::fields::Fields;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::credentials::Credentials;
use super::known::KnownLogins;
use super::queue::{CheckQueue, QueueFull};
use super::{Login, LoginTag, tag_of};
use crate::accept::ClientNetwork;
use crate::config::value::{PasswordHash, UserFile};
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::{CREDENTIALS_BYTES_MAX, LOGIN_NICENESS, LOGIN_WAIT_MS_MAX};
use crate::secret::secret_number;
use crate::worker::Worker;

/// The logins of one worker.
#[derive(Default)]
pub(crate) struct Logins {
    /// The key of the tags, made for the first login.
    key: OnceCell<hmac::Key>,
    known: RefCell<KnownLogins>,
    queue: RefCell<CheckQueue<CheckWork>>,
    /// Whether a task runs the checks of the queue.
    is_running: Cell<bool>,
}

/// The work of a check.
struct CheckWork {
    comparison: PasswordComparison,
    tell: watch::Sender<Option<bool>>,
    is_late: Rc<Cell<bool>>,
}

impl CheckWork {
    /// Whether a request wants the result. The queue itself has a receiver, too.
    fn is_wanted(&self) -> bool {
        self.tell.receiver_count() > 1 || self.is_late.get()
    }
}

/// A check that waits or runs. Requests with the same credentials wait for the same check.
#[derive(Clone, Debug)]
pub(crate) struct LoginCheck {
    result: watch::Receiver<Option<bool>>,
    /// Whether a request has waited for too long. The check still runs, so that the request can be
    /// repeated.
    is_late: Rc<Cell<bool>>,
}

impl LoginCheck {
    /// Creates a check, and the sender of its result.
    pub(super) fn new() -> (watch::Sender<Option<bool>>, LoginCheck) {
        let (tell, result) = watch::channel(None);
        (tell, LoginCheck { result, is_late: Rc::default() })
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// [`Fault::WrongPassword`]; or [`Fault::LoginsBusy`] if the check was displaced, could not
    /// run, or did not end within `LOGIN_WAIT_MS_MAX`.
    pub(crate) async fn wait(mut self) -> Result<(), Fault> {
        let limit = Duration::from_millis(LOGIN_WAIT_MS_MAX);
        let result = match timeout(limit, self.result.wait_for(Option::is_some)).await {
            Ok(Ok(result)) => *result,
            Ok(Err(_)) => return Err(Fault::LoginsBusy),
            Err(_) => {
                self.is_late.set(true);
                return Err(Fault::LoginsBusy);
            }
        };
        match result {
            Some(true) => Ok(()),
            _ => Err(Fault::WrongPassword),
        }
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logins")
    }
}

/// Finds out which user of the file sends a request with these fields.
///
/// # Errors
/// [`Fault::NoCredentials`], or [`Fault::LoginsBusy`]: too many passwords wait for their check.
pub(crate) fn log_in(
    worker: &Rc<Worker>,
    file: &Arc<UserFile>,
    network: ClientNetwork,
    fields: Fields<'_>,
) -> Result<Login, Fault> {
    let mut buffer = [0; CREDENTIALS_BYTES_MAX];
    let credentials = Credentials::read(fields, &mut buffer).ok_or(Fault::NoCredentials)?;
    let logins = &worker.logins;
    let key = logins
        .key
        .get_or_init(|| hmac::Key::new(hmac::HMAC_SHA256, &secret_number().to_le_bytes()));
    let (hash, is_user) = file.hash_of(credentials.user());
    let tag = tag_of(key, (hash, is_user), &credentials);
    let user = credentials.user().to_owned();
    if logins.known.borrow().contains(&tag) {
        return Ok(Login { user, check: None });
    }
    let password = Box::from(credentials.password());
    let comparison = PasswordComparison { hash: hash.clone(), is_user, password };
    let check = begin(worker, (network, tag), comparison)?;
    Ok(Login { user, check: Some(check) })
}

/// A password, and the hash with which it has to be compared.
struct PasswordComparison {
    hash: PasswordHash,
    /// Whether the hash is that of the user; an unknown user has none.
    is_user: bool,
    password: Box<[u8]>,
}

/// Returns the check with this tag: the one in the queue, or a new one.
fn begin(
    worker: &Rc<Worker>,
    (network, tag): (ClientNetwork, LoginTag),
    comparison: PasswordComparison,
) -> Result<LoginCheck, Fault> {
    let logins = &worker.logins;
    let mut queue = logins.queue.borrow_mut();
    if let Some(same) = queue.find(&tag) {
        return Ok(same.clone());
    }
    let (tell, check) = LoginCheck::new();
    let work = CheckWork { comparison, tell, is_late: Rc::clone(&check.is_late) };
    queue.add((network, tag), check.clone(), work).map_err(|QueueFull| Fault::LoginsBusy)?;
    if !logins.is_running.replace(true) {
        worker.spawn(run_checks(RunningChecks(Rc::clone(worker))));
    }
    Ok(check)
}

/// The right to run the checks of a worker, which one task has at a time.
struct RunningChecks(Rc<Worker>);

impl Drop for RunningChecks {
    fn drop(&mut self) {
        self.0.logins.is_running.set(false);
    }
}

/// Removes a check from the queue when it ends, even by a panic.
struct RunningCheck<'w>(&'w Logins, LoginTag);

impl Drop for RunningCheck<'_> {
    fn drop(&mut self) {
        self.0.queue.borrow_mut().end(&self.1);
    }
}

/// Runs the checks of the queue, one after the other, until there are none.
async fn run_checks(running: RunningChecks) {
    let worker = &running.0;
    let next = || worker.logins.queue.borrow_mut().next();
    while let Some((tag, work)) = next() {
        let _check = RunningCheck(&worker.logins, tag);
        if work.is_wanted() {
            worker.count(Counter::PasswordChecks);
            let compared = compare(work.comparison).await;
            if matches!(compared, Ok(true)) {
                worker.logins.known.borrow_mut().insert(tag);
            }
            if let Ok(is_right) = compared {
                work.tell.send_replace(Some(is_right));
            }
        }
    }
}

/// Compares a password with a hash on a new thread, which is cheap beside the comparison. The
/// thread has a low priority, so it delays the worker of the same processor only a little.
async fn compare(comparison: PasswordComparison) -> io::Result<bool> {
    let (tell, told) = oneshot::channel();
    let compare = move || {
        // If the kernel refuses, the thread runs at normal priority.
        let _ = rustix::process::nice(LOGIN_NICENESS);
        let PasswordComparison { hash, is_user, password } = comparison;
        // Sending fails if the worker has ended.
        let _ = tell.send(hash.is_of(&password) && is_user);
    };
    std::thread::Builder::new().name("password".to_owned()).spawn(compare)?;
    told.await.map_err(io::Error::other)
}
