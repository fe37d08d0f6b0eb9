//! Decides whether a route serves a client: by its address, then by its rate of requests, then by
//! its user name and password.

use forebay_http::target::Scheme;

use crate::fault::Fault;
use crate::key::{LocalRequest, local_request};
use crate::login::{Login, log_in};
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
    if !route.settings.rate_limit.is_empty() {
        check_rate(transaction)?;
    }
    let settings = &route.settings;
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

/// Counts a request against the rate limits of its route. A purge by a client of `purge_from` does
/// not count, because no reader gets its response; but on a route with users it does, because it
/// tells whether a password is right.
///
/// # Errors
/// [`Fault::RateLimited`].
fn check_rate(transaction: &Transaction<'_>) -> Result<(), Fault> {
    let (client, route, request) = (transaction.client, transaction.route(), &transaction.request);
    let settings = &route.route.settings;
    let has_users = settings.basic_auth.users().is_some();
    if !has_users && local_request(route, request) == Some(LocalRequest::Purge) {
        let purgers = &settings.purge_from;
        if client.known_address().is_some_and(|address| purgers.contains(address)) {
            return Ok(());
        }
    }
    client.worker.limiter.check(client, route.route, request)
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
