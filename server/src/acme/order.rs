//! One order of a certificate (RFC 8555 §7.4).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, KeyAuthorization, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::challenges::{Challenges, HttpAnswer, TlsAnswer};
use super::failure::{OrderFailure, problem_text};
use super::renewal::identifier;
use crate::clock;
use crate::config::{AcmeChallenge, AcmeTerms, Identity, is_for_name};
use crate::limits::{ACME_POLL_MS_MAX, ACME_TOKEN_BYTES_MAX, CERTIFICATE_BYTES_MAX};
use crate::x509::validity;

/// Orders a certificate, which replaces `previous`. `publish` gives the answers to the challenges
/// to the workers. Returns the certificate and its key as PEM.
///
/// # Errors
/// See [`OrderFailure`].
pub(super) async fn order(
    account: &Account,
    terms: &AcmeTerms,
    previous: Option<&CertificateDer<'static>>,
    publish: impl AsyncFn(Challenges),
) -> Result<String, OrderFailure> {
    let names: Vec<_> = terms.names.iter().cloned().map(Identifier::Dns).collect();
    let mut order = new_order(account, &names, previous).await?;
    let challenges = pending_challenges(&mut order, terms).await?;
    publish(challenges).await;
    let validated = validate(&mut order, terms).await;
    publish(Challenges::default()).await;
    validated?;
    let failed = |error| OrderFailure::new("certificate request", error);
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(terms.names.clone()).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(failed)?;
    order.finalize_csr(request.der()).await.map_err(OrderFailure::of("certificate request"))?;
    let chain = order.poll_certificate(&patience()).await;
    let chain = chain.map_err(OrderFailure::of("certificate"))?;
    check(&chain, terms).map_err(|why| OrderFailure::new("certificate", why))?;
    Ok(format!("{}\n{}", key.serialize_pem().trim_end(), chain))
}

/// Creates the order. It names the certificate that it replaces, if the authority can make use of
/// that (RFC 9773 §5).
async fn new_order(
    account: &Account,
    names: &[Identifier],
    previous: Option<&CertificateDer<'static>>,
) -> Result<Order, OrderFailure> {
    let failed = OrderFailure::of("new order");
    if let Some(id) = previous.and_then(identifier)
        && let Ok(order) = account.new_order(&NewOrder::new(names).replaces(id)).await
    {
        return Ok(order);
    }
    // The previous certificate may be one of another authority, or one that is replaced already.
    account.new_order(&NewOrder::new(names)).await.map_err(failed)
}

/// Returns the answers to the challenges that the authority wants to check.
async fn pending_challenges(
    order: &mut Order,
    terms: &AcmeTerms,
) -> Result<Challenges, OrderFailure> {
    const STEP: &str = "authorization";
    let mut answers = Challenges::default();
    if order.state().authorizations.len() > terms.names.len() {
        return Err(OrderFailure::new(STEP, "the order has more authorizations than names"));
    }
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(OrderFailure::of(STEP))?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            status => return Err(OrderFailure::new(STEP, format_args!("it is {status:?}"))),
        }
        let kind = kind_of(terms.challenge);
        let Some(challenge) = authorization.challenge(kind) else {
            let word = terms.challenge.word();
            let text = format!("the authority does not offer the challenge {word}");
            return Err(OrderFailure::new(STEP, text));
        };
        let name = match challenge.identifier().identifier {
            Identifier::Dns(name) if terms.names.contains(name) => name.clone(),
            _ => return Err(OrderFailure::new(STEP, "it is for a name that is not in the order")),
        };
        // RFC 8555 §8.3: other characters could lead to other paths.
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let token = challenge.token.clone();
        if token.is_empty() || token.len() > ACME_TOKEN_BYTES_MAX || !token.bytes().all(is_token) {
            return Err(OrderFailure::new(STEP, "the token is malformed"));
        }
        let proof = challenge.key_authorization();
        match terms.challenge {
            AcmeChallenge::Http => {
                let content = proof.as_str().to_owned();
                answers.http.push(HttpAnswer { host: name, token, content });
            }
            AcmeChallenge::TlsAlpn => {
                let identity = challenge_identity(&name, &proof)
                    .map_err(|error| OrderFailure::new(STEP, error))?;
                answers.tls.push(TlsAnswer { name, identity });
            }
        }
    }
    Ok(answers)
}

/// Lets the authority check the challenges, and waits for the result.
async fn validate(order: &mut Order, terms: &AcmeTerms) -> Result<(), OrderFailure> {
    const STEP: &str = "challenge";
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(OrderFailure::of(STEP))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        if let Some(mut challenge) = authorization.challenge(kind_of(terms.challenge)) {
            challenge.set_ready().await.map_err(OrderFailure::of(STEP))?;
        }
    }
    match order.poll_ready(&patience()).await {
        Ok(OrderStatus::Ready) => Ok(()),
        Ok(status) => {
            let unknown = || OrderFailure::new(STEP, format_args!("the order is {status:?}"));
            Err(challenge_failure(order).await.unwrap_or_else(unknown))
        }
        Err(error) => {
            let found = challenge_failure(order).await;
            Err(found.unwrap_or_else(|| OrderFailure::of(STEP)(error)))
        }
    }
}

/// Returns why the authority did not accept a challenge, if it says so.
async fn challenge_failure(order: &mut Order) -> Option<OrderFailure> {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        let problem = state.challenges.iter().find_map(|challenge| challenge.error.as_ref());
        if let Some(problem) = problem {
            let name = state.identifier().to_string();
            let text = format!("{name}: {}", problem_text(problem));
            return Some(OrderFailure::new("challenge", text));
        }
    }
    None
}

fn kind_of(challenge: AcmeChallenge) -> ChallengeType {
    match challenge {
        AcmeChallenge::Http => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn => ChallengeType::TlsAlpn01,
    }
}

fn patience() -> RetryPolicy {
    RetryPolicy::new()
        .initial_delay(Duration::from_millis(500))
        .backoff(1.5)
        .timeout(Duration::from_millis(ACME_POLL_MS_MAX))
}

/// Creates the certificate that answers a challenge of the type tls-alpn-01 (RFC 8737 §3).
fn challenge_identity(name: &str, proof: &KeyAuthorization) -> Result<Identity, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    let extension = CustomExtension::new_acme_identifier(proof.digest().as_ref());
    params.custom_extensions = vec![extension];
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(Identity { chain: vec![certificate.der().clone()], key, staple: None })
}

/// Checks that a certificate can be used for the site. Its key is checked when it is read.
fn check(chain: &str, terms: &AcmeTerms) -> Result<(), String> {
    if chain.len() > CERTIFICATE_BYTES_MAX / 2 {
        return Err(format!("the chain has {} bytes", chain.len()));
    }
    if chain.contains("PRIVATE KEY") {
        return Err("the chain has a private key".to_owned());
    }
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let certificates = certificates.map_err(|error| format!("the chain is malformed: {error}"))?;
    let first = certificates.first().ok_or("the chain is empty")?;
    if let Some(name) = terms.names.iter().find(|name| !is_for_name(first, name)) {
        return Err(format!("it is not for the name {name}"));
    }
    let (from, until) = validity(first).ok_or("its dates cannot be read")?;
    // The clocks of this server and of the authority may differ a little.
    match until <= clock::unix_seconds().max(from) {
        true => Err("it has expired already".to_owned()),
        false => Ok(()),
    }
}
