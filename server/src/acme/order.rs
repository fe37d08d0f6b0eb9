//! One order of a certificate (RFC 8555 §7.4).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, KeyAuthorization, NewOrder,
    Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::certificate_file::usable_certificate;
use super::challenges::{Challenges, HttpAnswer, TlsAnswer};
use super::failure::{OrderFailure, problem_kind, problem_text};
use super::renewal::identifier;
use super::schedule::renewal_time;
use crate::clock;
use crate::config::{AcmeChallenge, AcmeTerms, Identity, is_for_name};
use crate::limits::{
    ACME_CLOCK_S_MAX, ACME_POLL_MS_MAX, ACME_TOKEN_BYTES_MAX, CERTIFICATE_BYTES_MAX,
};
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
    let pem = format!("{}\n{}", key.serialize_pem().trim_end(), chain);
    let checked = check(&chain, &pem, terms, clock::unix_seconds());
    checked.map_err(|why| OrderFailure::new("certificate", why))?;
    Ok(pem)
}

/// Creates the order. It names the certificate that it replaces, if the authority can make use of
/// that (RFC 9773 §5).
async fn new_order(
    account: &Account,
    names: &[Identifier],
    previous: Option<&CertificateDer<'static>>,
) -> Result<Order, OrderFailure> {
    let failed = OrderFailure::of("new order");
    if let Some(id) = previous.and_then(identifier) {
        match account.new_order(&NewOrder::new(names).replaces(id)).await {
            Ok(order) => return Ok(order),
            Err(error) if may_be_of_previous(&error) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    account.new_order(&NewOrder::new(names)).await.map_err(failed)
}

/// Whether the reason of an error may be the certificate that an order replaces: it may be one of
/// another authority or of another account, or one that is replaced already.
fn may_be_of_previous(error: &Error) -> bool {
    const KINDS: &[&str] = &["alreadyReplaced", "malformed", "unauthorized", "notFound"];
    match error {
        Error::Unsupported(_) => true,
        Error::Api(problem) => {
            let kind = problem_kind(problem);
            matches!(problem.status, Some(404 | 409)) || kind.is_some_and(|k| KINDS.contains(&k))
        }
        // The authority ignores the field. The text is that of the ACME client.
        Error::Other(why) => why.to_string().starts_with("replaces field mismatch"),
        _ => false,
    }
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

/// Checks that a certificate can be used for the site. `pem` has its key, too.
fn check(chain: &str, pem: &str, terms: &AcmeTerms, now: u64) -> Result<(), String> {
    if chain.len() > CERTIFICATE_BYTES_MAX / 2 {
        return Err(format!("the chain has {} bytes", chain.len()));
    }
    if chain.contains("PRIVATE KEY") {
        return Err("the chain has a private key".to_owned());
    }
    let first = usable_certificate(pem.as_bytes())?;
    if let Some(name) = terms.names.iter().find(|name| !is_for_name(&first, name)) {
        return Err(format!("it is not for the name {name}"));
    }
    let (from, until) = validity(&first).ok_or("its dates cannot be read")?;
    // The clocks of this server and of the authority may differ a little.
    if from > now + ACME_CLOCK_S_MAX {
        return Err("it is not valid yet".to_owned());
    }
    if until <= now.max(from) {
        return Err("it has expired already".to_owned());
    }
    match renewal_time((from, until), None, &terms.site) <= now {
        true => Err("its renewal would be due at once".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use instant_acme::Problem;
    use rcgen::{Certificate, date_time_ymd};

    use super::*;

    const DAY: u64 = 86_400;
    /// The first day of 2026.
    const YEAR_2026: u64 = 1_767_225_600;

    fn issue(key: &KeyPair) -> Certificate {
        let mut params = CertificateParams::new(vec!["a.org".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2026, 4, 1);
        params.self_signed(key).expect("it is signed")
    }

    #[test]
    fn a_certificate_that_cannot_be_used_does_not_replace_another() {
        let terms = |name: &str| AcmeTerms {
            site: "a".to_owned(),
            names: vec![name.to_owned()],
            challenge: AcmeChallenge::Http,
            file: "a.pem".into(),
        };
        let key = KeyPair::generate().expect("a key");
        let other = KeyPair::generate().expect("a key").serialize_pem();
        let (chain, key) = (issue(&key).pem(), key.serialize_pem());
        let broken = chain.replace("MII", "AAA");
        let early = YEAR_2026 - ACME_CLOCK_S_MAX;
        let cases = [
            (&chain, &key, "a.org", YEAR_2026, ""),
            (&chain, &key, "a.org", early, ""),
            (&chain, &key, "a.org", early - 1, "not valid yet"),
            (&chain, &key, "a.org", YEAR_2026 + 61 * DAY, "due at once"),
            (&chain, &key, "a.org", YEAR_2026 + 91 * DAY, "has expired"),
            (&chain, &key, "b.org", YEAR_2026, "not for the name b.org"),
            (&chain, &other, "a.org", YEAR_2026, "cannot be used"),
            (&broken, &key, "a.org", YEAR_2026, "cannot be used"),
            (&String::new(), &key, "a.org", YEAR_2026, "the chain is empty"),
            (&other, &key, "a.org", YEAR_2026, "has a private key"),
        ];
        for (chain, key, name, now, expected) in cases {
            let found = check(chain, &format!("{key}{chain}"), &terms(name), now);
            let text = found.err().unwrap_or_default();
            let is_good =
                if expected.is_empty() { text.is_empty() } else { text.contains(expected) };
            assert!(is_good, "{expected:?}: {text}");
        }
    }

    #[test]
    fn an_order_is_repeated_only_if_the_previous_certificate_may_be_the_reason() {
        let api = |kind: &str, status: u16| {
            let text =
                format!(r#"{{"type": "urn:ietf:params:acme:error:{kind}", "status": {status}}}"#);
            Error::Api(serde_json::from_str::<Problem>(&text).expect("a problem"))
        };
        for (error, expected) in [
            (api("alreadyReplaced", 409), true),
            (api("malformed", 400), true),
            (api("unauthorized", 403), true),
            (api("rateLimited", 429), false),
            (api("serverInternal", 500), false),
            (api("accountDoesNotExist", 400), false),
            (Error::Unsupported("ARI"), true),
            (Error::Other("cannot connect".into()), false),
        ] {
            assert_eq!(may_be_of_previous(&error), expected, "{error}");
        }
    }
}
