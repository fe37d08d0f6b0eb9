//! Decides whether a route serves a client: by its address, then by its rate of requests and the
//! requests in progress, then by the signature of its URL, then by its certificate, then by its
//! user name and password.

use forebay_http::target::Scheme;

use crate::clock;
use crate::fault::Fault;
use crate::key::{LocalRequest, RouteMatch, check_connect, local_request};
use crate::login::{Login, log_in};
use crate::parse::Request;
use crate::signature;
use crate::transaction::Transaction;

/// Whether a client is served.
pub(crate) enum RouteAdmission {
    /// The route serves the client.
    Served,
    /// The client's password has to be checked first.
    Login(Box<Login>),
    /// The route asks for a password, which must not be sent without TLS, or for a certificate,
    /// which cannot be shown without TLS.
    HttpsRedirect,
}

/// Decides whether the route serves the client of a request.
///
/// # Errors
/// The route does not serve the client.
#[cold]
pub(crate) fn admit(transaction: &mut Transaction<'_>) -> Result<RouteAdmission, Fault> {
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
    if redirects_login(transaction.route(), &transaction.request)? {
        return Ok(RouteAdmission::HttpsRedirect);
    }
    let certificate = transaction.client.certificate();
    if route.requires_certificate() && certificate.is_none() {
        return Err(match transaction.client.has_shown_certificate() {
            true => Fault::CertificateRefused,
            false => Fault::NoCertificate,
        });
    }
    let Some(file) = settings.basic_auth.users() else {
        transaction.replace_credentials(certificate)?;
        return Ok(RouteAdmission::Served);
    };
    let (worker, network) = (transaction.worker(), transaction.client.network());
    let login = log_in(worker, file, network, transaction.request.head.fields())?;
    transaction.replace_credentials(certificate)?;
    if login.check.is_some() {
        return Ok(RouteAdmission::Login(Box::new(login)));
    }
    transaction.log.note_user(login.user);
    Ok(RouteAdmission::Served)
}

/// Whether a request is redirected to `https` in place of a check of its password or of its
/// client's certificate. No rule of
/// [`Hook::Remap`](forebay_rules::ast::Hook::Remap) may answer it before.
///
/// # Errors
/// The request is a CONNECT, which cannot be redirected.
pub(crate) fn redirects_login(route: RouteMatch<'_>, request: &Request<'_>) -> Result<bool, Fault> {
    let settings = &route.route.settings;
    let has_check = settings.basic_auth.users().is_some() || route.route.requires_certificate();
    let is_plain = settings.https_redirect_port != 0 && request.scheme == Scheme::Http;
    if has_check && is_plain && local_request(route, request) == Some(LocalRequest::Connect) {
        check_connect(route, request, false)?;
    }
    Ok(has_check && is_plain)
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
