//! A client's own exchange with the origin, shared with nobody: its body goes up while the
//! answer comes down.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use forebay_http::framing::BodyFraming;
use forebay_http::policy::cache_status::CacheStatus;

use super::{Answered, Broken, Relay, Reply, serve_pass};
use crate::accept::Client;
use crate::buffers::Input;
use crate::config::Config;
use crate::fault::Fault;
use crate::fetch::{
    Asked, Exchange, InterimQueue, Outbound, Progress, Purpose, Upload, exchange, send_body,
};
use crate::key::Place;
use crate::out::Out;
use crate::parse::{ReplyForm, Request, RequestBody};
use crate::store::{UnsafeTarget, notice_storable};

/// A request of this kind, copied out of the buffers that its body comes through.
pub(crate) struct Own<'c> {
    asked: Asked,
    form: ReplyForm,
    framing: BodyFraming,
    expects_continue: bool,
    place: Place<'c>,
    /// What an unsafe request may change.
    target: Option<UnsafeTarget>,
    /// The key under which the answer would be shared if it turned out storable.
    shared_key: Option<Vec<u8>>,
    interim: InterimQueue,
}

impl<'c> Own<'c> {
    /// Copies a request; `shared_key` if only an earlier answer keeps its own from being shared.
    ///
    /// # Errors
    /// Its target can't be forwarded.
    pub(crate) fn copy(
        client: &Client,
        request: &Request<'_>,
        place: Place<'c>,
        shared_key: Option<Vec<u8>>,
        interim: InterimQueue,
    ) -> Result<Own<'c>, Fault> {
        Ok(Own {
            asked: Asked::copy(request, client.peer.ip())?,
            form: request.form,
            framing: request.framing,
            expects_continue: request.expects_continue,
            place,
            target: UnsafeTarget::of(request),
            shared_key,
            interim,
        })
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
        RequestBody::new(own.framing, own.expects_continue, config.server.body_bytes_max)
            .map_err(Broken::Before)?;
    if body.is_whole() {
        return down(client, config, &own, None, out, cache).await;
    }
    let (source, upload, progress) = Upload::channel(match own.framing {
        BodyFraming::Length(length) => Some(length),
        _ => None,
    });
    let answered = {
        let mut up = pin!(send_body(client, &mut body, input, source));
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
    if let Some(target) = &own.target {
        target.invalidate(&client.worker, own.place.site, &answer.head);
    }
    if let Some(key) = &own.shared_key {
        notice_storable(&client.worker, own.place, &own.asked, key, &answer);
    }
    let reply = Reply { client, form: own.form, cache };
    serve_pass(&reply, out, answer).await
}
