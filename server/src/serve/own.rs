//! A client's own exchange with the origin, shared with nobody: its body goes up while the
//! answer comes down.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use forebay_http::authority::Authority;
use forebay_http::fields::FieldBlock;
use forebay_http::framing::BodyFraming;
use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::policy::invalidate::{TargetUri, invalidated_targets, invalidates};
use forebay_http::target::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Answered, Broken, Passed, Relay, Reply, serve_pass};
use crate::accept::Client;
use crate::buffers::Input;
use crate::config::Config;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::{
    Asked, Exchange, InterimQueue, OriginAnswer, Outbound, Progress, Purpose, Upload, UploadSource,
    exchange,
};
use crate::key::{Place, write_key};
use crate::out::Out;
use crate::parse::{BodyPart, ReplyForm, Request, RequestBody};

/// A request of this kind, copied out of the buffers that its body comes through.
pub(crate) struct Own<'c> {
    asked: Asked,
    form: ReplyForm,
    framing: BodyFraming,
    place: Place<'c>,
    /// What an unsafe request may change.
    target: Option<Target>,
    interim: InterimQueue,
}

/// Host and path of a request, as they are keyed.
struct Target {
    host: Option<Vec<u8>>,
    path_query: Vec<u8>,
}

impl<'c> Own<'c> {
    /// Copies a request.
    ///
    /// # Errors
    /// Its target can't be forwarded.
    pub(crate) fn copy(
        client: &Client,
        request: &Request<'_>,
        place: Place<'c>,
        interim: InterimQueue,
    ) -> Result<Own<'c>, Fault> {
        let is_safe = request.head.method().is_safe();
        Ok(Own {
            asked: Asked::copy(request, client.peer.ip())?,
            form: request.form,
            framing: request.framing,
            place,
            target: (!is_safe).then(|| Target::of(request)),
            interim,
        })
    }
}

impl Target {
    fn of(request: &Request<'_>) -> Target {
        let mut host = Vec::new();
        let named = request.write_host(&mut host);
        Target { host: named.then_some(host), path_query: request.target.path_query.to_vec() }
    }
}

/// Forwards the request as it stands and passes its answer on; `unread` tells whether some of the
/// request's body has not been read.
///
/// # Errors
/// See [`serve_pass`]; also faults of the request's body.
pub(crate) async fn serve_own(
    client: &Client,
    config: &Config,
    own: Own<'_>,
    (input, out): (&mut Input, &mut Out),
    cache: &mut CacheStatus,
    unread: &mut bool,
) -> Result<Answered, Broken> {
    let mut body =
        RequestBody::new(own.framing, config.server.body_bytes_max).map_err(Broken::Before)?;
    if body.is_whole() {
        return down(client, config, &own, None, out, cache).await;
    }
    let (source, upload, progress) = Upload::channel(match own.framing {
        BodyFraming::Length(length) => Some(length),
        _ => None,
    });
    let answered = {
        let mut up = pin!(up(client, &mut body, input, source));
        let mut down = pin!(down(client, config, &own, Some((upload, progress)), out, cache));
        let mut raised = None;
        poll_fn(|cx| {
            if raised.is_none()
                && let Poll::Ready(ended) = up.as_mut().poll(cx)
            {
                raised = Some(ended);
            }
            down.as_mut().poll(cx).map(|answered| match (answered, raised) {
                // The origin's exchange failed because the client's body did.
                (Err(Broken::Before(_)), Some(Err(fault))) => Err(Broken::Before(fault)),
                (answered, _) => answered,
            })
        })
        .await?
    };
    // The answer may have come early.
    *unread = !body.is_whole();
    Ok(answered)
}

/// Reads the client's body and hands it to the origin's connection, piece by piece.
async fn up(
    client: &Client,
    body: &mut RequestBody,
    input: &mut Input,
    source: UploadSource,
) -> Result<(), Fault> {
    loop {
        match body.next(client, input).await? {
            BodyPart::Data(bytes) => {
                if !source.data(bytes).await {
                    return Ok(());
                }
            }
            BodyPart::End(trailers) => {
                source.end(trailers.as_ref().map(header_map)).await;
                return Ok(());
            }
        }
    }
}

fn header_map(trailers: &FieldBlock) -> HeaderMap {
    let pairs = trailers.fields();
    let pairs = pairs.iter().filter_map(|field| {
        let name = HeaderName::from_bytes(field.name).ok()?;
        Some((name, HeaderValue::from_bytes(field.value).ok()?))
    });
    pairs.collect()
}

async fn down(
    client: &Client,
    config: &Config,
    own: &Own<'_>,
    upload: Option<(Upload, Progress)>,
    out: &mut Out,
    cache: &mut CacheStatus,
) -> Result<Answered, Broken> {
    let relay = Relay { client, form: own.form, queue: &own.interim };
    let request = Exchange {
        worker: &client.worker,
        origin: &own.place.site.origin,
        settings: &config.server,
        outbound: Outbound {
            asked: &own.asked,
            purpose: Purpose::Forward,
            via: &client.worker.via,
        },
        interim: &own.interim,
    };
    let answer = relay.until(out, exchange(&request, upload)).await?.map_err(Broken::Before)?;
    cache.fwd_status = Some(answer.head.status);
    invalidate(client, own, &answer);
    let reply = Reply { client, form: own.form, cache };
    serve_pass(&reply, out, Passed { answer }).await
}

/// Drops what an unsafe request has changed (RFC 9111 §4.4).
fn invalidate(client: &Client, own: &Own<'_>, answer: &OriginAnswer) {
    let Some(target) = &own.target else { return };
    if !invalidates(false, answer.head.status) {
        return;
    }
    let authority = target.host.as_deref().and_then(Authority::parse);
    let mut key = Vec::new();
    let mut purge = |path_query: &[u8]| {
        write_key(&mut key, own.place.site, authority, path_query);
        let purged = client.worker.store.purge(&key);
        client.worker.count_many(Counter::Invalidated, purged.records);
    };
    purge(&target.path_query);
    if let Some(authority) = authority {
        let path_query = &target.path_query;
        let target = TargetUri { scheme: Scheme::Http, authority, path_query };
        invalidated_targets(target, answer.head.block.fields()).for_each(|path| purge(&path));
    }
}
