//! The checks of passwords in progress.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use forebay_http::fields::Fields;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

use super::credentials::Credentials;
use super::known::KnownLogins;
use super::{Login, LoginTag, tag_of};
use crate::accept::ClientNetwork;
use crate::config::value::{PasswordHash, UserFile};
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::{
    CREDENTIALS_BYTES_MAX, LOGIN_CHECKS_MAX, LOGIN_CHECKS_PER_NETWORK_MAX, LOGIN_NICENESS,
    LOGIN_WAIT_MS_MAX,
};
use crate::secret::secret_number;
use crate::worker::Worker;

/// The logins of one worker.
pub(crate) struct Logins {
    /// The key of the tags, made for the first login.
    key: OnceCell<hmac::Key>,
    known: RefCell<KnownLogins>,
    /// The checks in progress, at most `LOGIN_CHECKS_MAX`.
    pending: RefCell<Vec<PendingCheck>>,
    /// The turn of the only check that runs.
    turn: Semaphore,
}

struct PendingCheck {
    network: ClientNetwork,
    tag: LoginTag,
    result: LoginCheck,
}

/// A check in progress. Requests with the same credentials wait for the same check.
#[derive(Clone)]
pub(crate) struct LoginCheck {
    result: watch::Receiver<Option<bool>>,
    /// Whether a request has waited for too long. The check still runs, so that the request can be
    /// repeated.
    is_late: Rc<Cell<bool>>,
}

impl LoginCheck {
    /// Waits for the result.
    ///
    /// # Errors
    /// [`Fault::WrongPassword`]; or [`Fault::LoginsBusy`] if the check could not run, or not within
    /// `LOGIN_WAIT_MS_MAX`.
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

impl Default for Logins {
    fn default() -> Self {
        Logins {
            key: OnceCell::new(),
            known: RefCell::default(),
            pending: RefCell::default(),
            turn: Semaphore::new(1),
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

/// Returns the check of this tag: the one in progress, or a new one.
fn begin(
    worker: &Rc<Worker>,
    (network, tag): (ClientNetwork, LoginTag),
    comparison: PasswordComparison,
) -> Result<LoginCheck, Fault> {
    let mut pending = worker.logins.pending.borrow_mut();
    if let Some(same) = pending.iter().find(|check| check.tag == tag) {
        return Ok(same.result.clone());
    }
    let of_network = pending.iter().filter(|check| check.network == network).count();
    if pending.len() >= LOGIN_CHECKS_MAX || of_network >= LOGIN_CHECKS_PER_NETWORK_MAX {
        return Err(Fault::LoginsBusy);
    }
    let (tell, told) = watch::channel(None);
    let is_late = Rc::new(Cell::new(false));
    let result = LoginCheck { result: told, is_late: Rc::clone(&is_late) };
    pending.push(PendingCheck { network, tag, result: result.clone() });
    let own = Rc::clone(worker);
    worker.spawn(async move {
        let is_right = match own.logins.turn.acquire().await {
            // Only the list of pending checks still has a receiver: all clients have left.
            Ok(_turn) if tell.receiver_count() <= 1 && !is_late.get() => {
                Err(io::ErrorKind::NotConnected.into())
            }
            Ok(_turn) => {
                own.count(Counter::PasswordChecks);
                compare(comparison).await
            }
            Err(closed) => Err(io::Error::other(closed)),
        };
        let logins = &own.logins;
        logins.pending.borrow_mut().retain(|check| check.tag != tag);
        if let Ok(is_right) = is_right {
            if is_right {
                logins.known.borrow_mut().insert(tag);
            }
            tell.send_replace(Some(is_right));
        }
    });
    Ok(result)
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
