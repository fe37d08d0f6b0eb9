//! Decides whether a route serves a client: by its address, then by its rate of requests and the
//! requests in progress, then by the signature of its URL, then by its user name and password.

use forebay_http::target::Scheme;

use crate::clock;
use crate::fault::Fault;
use crate::key::{LocalRequest, local_request};
use crate::login::{Login, log_in};
use crate::signature;
use crate::transaction::Transaction;

/// Returns the login of a client whose password has to be checked first; `None` if the route serves
/// the client.
///
/// # Errors
/// The route does not serve the client.
#[cold]
pub(crate) fn admit(transaction: &mut Transaction<'_>) -> Result<Option<Box<Login>>, Fault> {
    let route = transaction.route().route;
    if !route.admits(transaction.client.known_address()) {
        return Err(Fault::AddressRefused);
    }
    if !route.settings.rate_limit.is_empty() || !route.settings.concurrency_limit.is_empty() {
        check_limits(transaction)?;
    }
    let settings = &route.settings;
    // URLs cannot be signed for purges.
    if let Some(keys) = settings.signed_urls.keys()
        && !is_permitted_purge(transaction)
    {
        signature::check(&transaction.request, keys, clock::unix_seconds())?;
    }
    let Some(file) = settings.basic_auth.users() else { return Ok(None) };
    // The request is redirected. A password must not be sent without TLS.
    if settings.https_redirect_port != 0 && transaction.request.scheme == Scheme::Http {
        return Ok(None);
    }
    let (worker, network) = (transaction.worker(), transaction.client.network());
    let login = log_in(worker, file, network, transaction.request.head.fields())?;
    transaction.drop_credentials()?;
    if login.check.is_some() {
        return Ok(Some(Box::new(login)));
    }
    transaction.log.note_user(login.user);
    Ok(None)
}

/// Counts a request against the limits of its route. A purge by a client of `purge_from` does
/// not count, because no reader gets its response; but on a route with users it does, because it
/// tells whether a password is right.
///
/// # Errors
/// [`Fault::RateLimited`] or [`Fault::ConcurrencyLimited`].
fn check_limits(transaction: &mut Transaction<'_>) -> Result<(), Fault> {
    let users = &transaction.route().route.settings.basic_auth;
    if users.users().is_none() && is_permitted_purge(transaction) {
        return Ok(());
    }
    let (client, route) = (transaction.client, transaction.route().route);
    let (limiter, request) = (&client.worker.limiter, &transaction.request);
    if !route.settings.rate_limit.is_empty() {
        limiter.check(client, route, request)?;
    }
    if !route.settings.concurrency_limit.is_empty() {
        let guard = limiter.begin(client, route, request)?;
        transaction.in_progress = Some(guard);
    }
    Ok(())
}

/// Whether this is a purge by a client of `purge_from`. On a route with users, it needs a password
/// too.
fn is_permitted_purge(transaction: &Transaction<'_>) -> bool {
    let route = transaction.route();
    let settings = &route.route.settings;
    let client = transaction.client.known_address();
    local_request(route, &transaction.request) == Some(LocalRequest::Purge)
        && client.is_some_and(|address| settings.purge_from.contains(address))
}

/// Waits until the password of a client has been checked.
///
/// # Errors
/// The route does not serve the client.
pub(crate) async fn finish_login(
    transaction: &mut Transaction<'_>,
    login: Login,
) -> Result<(), Fault> {
    if let Some(check) = login.check {
        check.wait().await?;
    }
    transaction.log.note_user(login.user);
    Ok(())
}
