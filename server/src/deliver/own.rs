//! A client's own exchange with the origin, shared with nobody: its body goes up while the
//! answer comes down.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use forebay_http::framing::BodyFraming;
use forebay_http::policy::cache_status::CacheStatus;
use forebay_rules::apply::RequestView;

use super::{Answered, Broken, Relay, Reply, deliver_pass};
use crate::accept::Client;
use crate::buffers::Input;
use crate::config::Config;
use crate::fault::Fault;
use crate::fetch::{
    Exchange, InterimQueue, OriginAnswer, Outbound, OwnedRequest, Purpose, Upload, UploadProgress,
    exchange, send_body,
};
use crate::key::RouteMatch;
use crate::parse::{Request, RequestBody, ResponseForm};
use crate::rules::{HookContext, RuleState};
use crate::send_queue::SendQueue;
use crate::store::{UnsafeTarget, notice_storable};

/// A request of this kind, copied out of the buffers that its body comes through.
pub(crate) struct Own<'c> {
    asked: OwnedRequest,
    form: ResponseForm,
    framing: BodyFraming,
    expects_continue: bool,
    place: RouteMatch<'c>,
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
        ruling: &HookContext<'_>,
        request: &Request<'_>,
        place: RouteMatch<'c>,
        shared_key: Option<Vec<u8>>,
        interim: InterimQueue,
    ) -> Result<Own<'c>, Fault> {
        Ok(Own {
            asked: OwnedRequest::copy(request, ruling)?,
            form: request.form,
            framing: request.framing,
            expects_continue: request.expects_continue,
            place,
            target: UnsafeTarget::of(request),
            shared_key,
            interim,
        })
    }

    /// What the request carries from hook to hook.
    pub(crate) fn rule_state(&self) -> &RuleState {
        &self.asked.rule_state
    }

    /// What rules see of it.
    pub(crate) fn view(&self) -> RequestView<'_> {
        self.asked.view()
    }

    fn ruling<'a>(&'a self, client: &'a Client, config: &'a Config) -> HookContext<'a> {
        HookContext {
            worker: &client.worker,
            client: Some(client),
            config,
            rules: config.rules_of(Some(self.place.route)),
            origin: Some(&self.place.site.origin),
            rule_state: self.rule_state(),
            view: self.view(),
        }
    }
}

/// Forwards the request as it stands and passes its answer on; `unread` tells whether some of the
/// request's body has not been read.
///
/// # Errors
/// See [`deliver_pass`]; also faults of the request's body.
pub(crate) async fn deliver_own(
    client: &Client,
    config: &Config,
    own: &Own<'_>,
    (input, out): (&mut Input, &mut SendQueue),
    cache: &mut CacheStatus,
    unread: &mut bool,
) -> Result<Answered, Broken> {
    let mut body =
        RequestBody::new(own.framing, own.expects_continue, config.server.body_bytes_max)
            .map_err(Broken::Before)?;
    if body.is_whole() {
        let answer = ask(client, config, own, None, out).await?;
        return pass(client, config, own, answer, (out, cache)).await;
    }
    let (source, upload, progress) = Upload::channel(match own.framing {
        BodyFraming::Length(length) => Some(length),
        _ => None,
    });
    let answered = {
        let mut up = Up { body: pin!(send_body(client, &mut body, input, source)), ended: None };
        let upload = Some((upload, progress));
        let answer = up.until_answer(ask(client, config, own, upload, out)).await?;
        up.beside(pass(client, config, own, answer, (out, cache))).await?
    };
    // The answer may have come early.
    *unread = !body.is_whole();
    Ok(answered)
}

/// A body on its way to the origin, polled beside what is done with the answer.
struct Up<'f, F> {
    body: Pin<&'f mut F>,
    ended: Option<Result<(), Fault>>,
}

impl<F: Future<Output = Result<(), Fault>>> Up<'_, F> {
    fn poll(&mut self, cx: &mut Context<'_>) {
        if self.ended.is_none()
            && let Poll::Ready(ended) = self.body.as_mut().poll(cx)
        {
            self.ended = Some(ended);
        }
    }

    /// Waits for the answer; a body that fails is the end of the exchange, for no origin can
    /// answer to a part of a request.
    async fn until_answer<T>(
        &mut self,
        answer: impl Future<Output = Result<T, Broken>>,
    ) -> Result<T, Broken> {
        let mut answer = pin!(answer);
        poll_fn(|cx| {
            self.poll(cx);
            match self.ended {
                Some(Err(fault)) => Poll::Ready(Err(Broken::Before(fault))),
                _ => answer.as_mut().poll(cx),
            }
        })
        .await
    }

    /// Runs `work` to its end; the body goes on as far as the origin takes it.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.poll(cx);
            work.as_mut().poll(cx)
        })
        .await
    }
}

/// Asks the origin; what comes before the answer is passed on.
async fn ask(
    client: &Client,
    config: &Config,
    own: &Own<'_>,
    upload: Option<(Upload, UploadProgress)>,
    out: &mut SendQueue,
) -> Result<OriginAnswer, Broken> {
    let relay = Relay { client, form: own.form, queue: &own.interim };
    let request = Exchange {
        worker: &client.worker,
        origin: &own.place.site.origin,
        settings: &config.server,
        outbound: Outbound {
            asked: &own.asked,
            purpose: Purpose::Forward,
            via: &client.worker.via_line,
            rules: own.ruling(client, config),
        },
        interim: &own.interim,
    };
    relay.until(out, exchange(&request, upload)).await?.map_err(Broken::Before)
}

/// Passes the answer on, after what it means for the store has been done.
async fn pass(
    client: &Client,
    config: &Config,
    own: &Own<'_>,
    mut answer: OriginAnswer,
    (out, cache): (&mut SendQueue, &mut CacheStatus),
) -> Result<Answered, Broken> {
    cache.fwd_status = Some(answer.received_status);
    if let Some(target) = &own.target {
        target.invalidate(&client.worker, own.place, &answer).await;
    }
    if let Some(key) = &own.shared_key {
        notice_storable(&client.worker, own.place, &own.asked, key, &answer);
    }
    answer.head.block.remove(own.place.route.settings.hidden_fields());
    let rules = &own.ruling(client, config);
    let reply = Reply { client, form: own.form, cache, rules };
    deliver_pass(&reply, out, answer).await
}
