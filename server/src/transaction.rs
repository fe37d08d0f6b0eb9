//! One request of a client, from its head to its entry in the access log.
//!
//! The steps of `flow.rs` complete a transaction: rules may replace the request, routing sets the
//! route, and the key is written once. Later steps only read the request, the route and the key.

use std::cell::OnceCell;
use std::rc::Rc;

use forebay_cache::{Follower, StoreWorker};
use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::policy::reason::Reason;
use forebay_http::policy::reuse::ForwardReason;
use forebay_http::policy::stale::StaleCause;
use forebay_http::target::Scheme;
use forebay_rules::apply::{AnswerHead, OwnAnswer, RequestText, RequestView, RuledRequest};
use forebay_rules::ast::{Hook, HttpControl};

use crate::accept::Client;
use crate::buffers::{BodyInput, TransactionBuffers};
use crate::clock;
use crate::concurrency::ConcurrencyGuard;
use crate::config::{Config, Route, RuleSet};
use crate::counters::Counter;
use crate::fault::Fault;
use crate::interim::InterimQueue;
use crate::key::{
    KeyText, NormalText, RouteMatch, has_other_source, match_route, write_key, write_normal_key,
};
use crate::log::{Access, LogOwner, shortened};
use crate::login::with_other_credentials;
use crate::lookup::{Hit, LookupMode, LookupQuery, LookupResult, bypass, lookup, lookup_stale};
use crate::parse::{Request, RequestBody, ResponseForm};
use crate::rules::{HookContext, RuleState, view_of, view_without_rules};
use crate::signature::without_signature;
use crate::trace::{RequestStep, Trace};
use crate::transport::tls::ClientCertificate;
use crate::worker::Worker;

/// One request of a client.
pub(crate) struct Transaction<'t> {
    pub(crate) client: &'t Client,
    pub(crate) config: &'t Rc<Config>,
    /// The request as the client sent it.
    received: Request<'t>,
    /// The request after changes by rules, and in its normal form as soon as that has been
    /// computed.
    pub(crate) request: Request<'t>,
    route: Option<RouteMatch<'t>>,
    /// The reason why the request bypasses the cache, if it does. Rules may also forbid a stored
    /// response: see `is_ruled_out`.
    bypass: Option<(ForwardReason, Reason)>,
    /// Whether the request is in the normal form of its route.
    is_normal: bool,
    /// The key; empty until it is written.
    pub(crate) key: &'t [u8],
    /// The request's selectors, if the resource has variants.
    pub(crate) variant: &'t mut Vec<u8>,
    /// The strong entity tag of a response whose body is sent in fragments.
    pub(crate) tag: &'t mut Vec<u8>,
    /// The follower of the fetch of a response's first part, if this request started that fetch.
    /// The fetch is not abandoned while the request holds the follower.
    pub(crate) first_part: Option<Follower>,
    pub(crate) rule_state: RuleState,
    pub(crate) cache_status: CacheStatus,
    /// Whether bytes of the request's body are unread, or bytes for the tunnel that a CONNECT asks
    /// for. They would be parsed as the next request, so the connection ends after this one.
    pub(crate) has_unread_body: bool,
    pub(crate) log: Access,
    /// Counts the request as in progress, if its route limits these requests. Every end of the
    /// transaction drops it.
    pub(crate) in_progress: Option<ConcurrencyGuard<'t>>,
    unused: UnusedBuffers<'t>,
    /// The queue of interim responses, if the request has waited for anything.
    interim: OnceCell<InterimQueue>,
}

/// Buffers that no step has used yet.
struct UnusedBuffers<'t> {
    key: Option<&'t mut Vec<u8>>,
    pre_remap: Option<&'t mut RequestText>,
    plain: Option<&'t mut RequestText>,
    post_remap: Option<&'t mut RequestText>,
    normal: Option<&'t mut NormalText>,
    body: Option<BodyInput<'t>>,
}

/// Everything from which a transaction is made.
pub(crate) struct TransactionStart<'t> {
    pub(crate) client: &'t Client,
    pub(crate) config: &'t Rc<Config>,
    pub(crate) received: Request<'t>,
    /// The input after the request's head.
    pub(crate) body: BodyInput<'t>,
    pub(crate) buffers: &'t mut TransactionBuffers,
    pub(crate) log: Access,
}

impl<'t> Transaction<'t> {
    /// Begins a transaction with a checked request.
    #[inline]
    pub(crate) fn begin(start: TransactionStart<'t>) -> Transaction<'t> {
        let TransactionStart { client, config, received, body, buffers, log } = start;
        let TransactionBuffers { key, variant, tag, pre_remap, plain, post_remap, normal } =
            buffers;
        Transaction {
            client,
            config,
            received,
            request: received,
            route: None,
            bypass: None,
            is_normal: false,
            key: &[],
            variant,
            tag,
            first_part: None,
            rule_state: RuleState::new(client, config.has_rules()),
            cache_status: CacheStatus::UNUSED,
            has_unread_body: received.has_body() || received.is_connect(),
            log,
            in_progress: None,
            unused: UnusedBuffers {
                key: Some(key),
                pre_remap: Some(pre_remap),
                plain: Some(plain),
                post_remap: Some(post_remap),
                normal: Some(normal),
                body: Some(body),
            },
            interim: OnceCell::new(),
        }
    }

    pub(crate) fn worker(&self) -> &'t Rc<Worker> {
        &self.client.worker
    }

    /// Returns the trace of the request.
    pub(crate) fn trace(&self) -> &Trace {
        &self.log.trace
    }

    pub(crate) fn store(&self) -> &'t StoreWorker {
        &self.client.worker.store
    }

    /// Returns the request as the client sent it.
    pub(crate) fn received(&self) -> &Request<'t> {
        &self.received
    }

    /// Returns the properties of the request that determine the response's form; rules do not
    /// change them.
    pub(crate) fn form(&self) -> ResponseForm {
        self.received.form
    }

    /// Returns the site and the route that serve the request.
    pub(crate) fn route(&self) -> RouteMatch<'t> {
        self.route.expect("the steps that need a route come after routing")
    }

    /// Returns the site and the route that serve the request; `None` before they are found.
    pub(crate) fn found_route(&self) -> Option<RouteMatch<'t>> {
        self.route
    }

    /// Returns the slot in which the request is counted; `None` before its site is found.
    #[inline]
    pub(crate) fn count_slot(&self) -> Option<u16> {
        self.route.map(|route| self.config.sites.count_slot(route.route.number))
    }

    /// Finds the site and the route of the request.
    ///
    /// # Errors
    /// [`Fault::NoSite`], [`Fault::AmbiguousPath`] or [`Fault::OtherCertificates`].
    pub(crate) fn find_route(&mut self) -> Result<RouteMatch<'t>, Fault> {
        assert!(self.route.is_none(), "a request is routed once");
        let buffer = self.unused.key.as_deref_mut().expect("routing comes before the key");
        let route = match_route(self.config, self.client.listener, &self.request, buffer)?;
        if self.client.scheme == Scheme::Https {
            check_certificates(self.client, route)?;
        }
        self.route = Some(route);
        self.begin_entry();
        self.trace().step(|| RequestStep::Route {
            site: route.site.name.clone(),
            shown_path: route.route.shown_path(),
        });
        Ok(route)
    }

    /// Returns the section whose access log has the request.
    #[inline]
    pub(crate) fn log_owner(&self) -> LogOwner<'t> {
        LogOwner { config: self.config, site: self.route.map(|route| route.site) }
    }

    /// Begins the access log entry, unless it has begun: once the site is known, or when the
    /// request ends before that.
    #[inline]
    pub(crate) fn begin_entry(&mut self) {
        let request = (self.client, self.received.head, self.rule_state.number());
        let owner = self.log_owner();
        self.log.begin_entry(request, owner);
    }

    /// Removes the Authorization field from the request, if the route uses the field itself, and
    /// puts the client's certificate in place of its Client-Cert field, if the route forwards it.
    ///
    /// # Errors
    /// [`Fault::Rules`]: rules have made a request that is not valid without the field.
    pub(crate) fn replace_credentials(
        &mut self,
        certificate: Option<&ClientCertificate>,
    ) -> Result<(), Fault> {
        let text = self.unused.plain.take().expect("the credentials of a request are used once");
        let limits = self.config.server.rule_limits().head;
        let route = self.route().route;
        let certificate = certificate.filter(|_| route.settings.forward_client_certificate);
        if let Some(request) =
            with_other_credentials(&self.request, (route, certificate), limits, text)?
        {
            self.request = request;
        }
        Ok(())
    }

    /// Removes the signature of a signed URL. Then decides whether the request bypasses the cache;
    /// if not, puts it into the normal form of its route. Without its signature, a request that
    /// bypasses the cache is forwarded as it was received. The decision need not be
    /// made again for the normal form, which bypasses the cache only if the request itself does.
    pub(crate) fn normalise(&mut self) {
        let text = self.unused.normal.take().expect("a request is normalised once");
        let route = self.route().route;
        let path_query = self.request.target.path_query;
        self.request.target.path_query = without_signature(path_query, &route.settings);
        self.bypass = self.bypass.or_else(|| bypass(&self.request, route));
        self.is_normal = self.bypass.is_none() && !self.is_ruled_out();
        if let Some(normal) = normal_request(text, &self.request, route, !self.is_normal) {
            self.request = normal;
            self.worker().count(Counter::RequestsNormalised);
        }
    }

    /// Whether rules forbid answering the request from the store.
    fn is_ruled_out(&self) -> bool {
        self.rule_state.is_off(HttpControl::RequestCacheable)
    }

    /// Writes the key of the request.
    pub(crate) fn write_key(&mut self) {
        let buffer = self.unused.key.take().expect("the key of a request is written once");
        let route = self.route.expect("routing comes before the key");
        let target = &self.request.target;
        match self.is_normal {
            true => write_normal_key(buffer, route, target.authority, target.path_query),
            false => write_key(buffer, route, target.authority, target.path_query),
        }
        self.key = buffer;
        self.trace().step(|| RequestStep::Key {
            url: shortened(KeyText::of(self.key).map(|text| text.url).unwrap_or_default()),
        });
    }

    /// Returns the key as text if the route's settings show it to clients.
    pub(crate) fn shown_key(&self) -> Option<String> {
        let route = self.route.filter(|route| route.route.settings.cache_status_key)?;
        let url = KeyText::of(self.key)?.url;
        Some(format!("{} {url}", route.site.name))
    }

    /// Looks up the response to the request; afterwards `variant` holds its selectors if the
    /// resource is known to have variants.
    pub(crate) fn look_up(&mut self) -> LookupResult<'t> {
        lookup(&self.lookup_query(), &self.request, self.variant)
    }

    /// Looks up a stored response that answers the request although it is stale.
    pub(crate) fn look_up_stale(&mut self, cause: StaleCause) -> Option<Hit<'t>> {
        lookup_stale(&self.lookup_query(), &self.request, self.variant, cause)
    }

    /// Returns the input of a lookup for this request.
    pub(crate) fn lookup_query(&self) -> LookupQuery<'t> {
        debug_assert!(!self.key.is_empty(), "a key is written before it is looked up");
        LookupQuery {
            store: self.store(),
            mode: LookupMode::Answer,
            is_used: self.client.worker.store_is_used(),
            bypass: self.bypass,
            is_ruled_out: self.is_ruled_out(),
            route: self.route().route,
            key: self.key,
            now: clock::unix_seconds(),
        }
    }

    /// Takes the request's body, to send it to the origin.
    ///
    /// # Errors
    /// [`Fault::RequestBodyTooLarge`]: Content-Length exceeds the limit.
    pub(crate) fn take_body(&mut self) -> Result<RequestBody<'t>, Fault> {
        let input = self.unused.body.take().expect("the body of a request is taken once");
        RequestBody::new(&self.request, self.route().route.settings.body_bytes_max, input)
    }

    /// Returns the queue of interim responses for the client.
    pub(crate) fn interim(&self) -> InterimQueue {
        self.interim.get_or_init(InterimQueue::new).clone()
    }

    /// Returns the values that the rules of this request see at a hook.
    #[inline]
    pub(crate) fn hook_context(&self) -> HookContext<'_> {
        let (worker, client, config) = (&self.client.worker, Some(self.client), self.config);
        HookContext::new(worker, client, config, self.route, &self.rule_state, self.view())
    }

    fn view(&self) -> RequestView<'t> {
        match self.config.has_rules() {
            true => view_of(&self.request, &self.received),
            false => view_without_rules(&self.request),
        }
    }

    fn rules(&self) -> &'t RuleSet {
        self.config.rules_of(self.route.map(|route| route.route))
    }

    /// Runs the rules of `hook`, which is `ReadRequest` or `Remap`. Rules may change the request.
    /// Returns a response if rules answer the request themselves.
    ///
    /// # Errors
    /// [`Fault::Rules`]: the result is not a valid request.
    pub(crate) fn run_request_rules(&mut self, hook: Hook) -> Result<Option<OwnAnswer>, Fault> {
        if !self.rules().program.has(hook) {
            return Ok(None);
        }
        let text = match hook {
            Hook::ReadRequest => self.unused.pre_remap.take(),
            _ => self.unused.post_remap.take(),
        };
        let text = text.expect("each request hook runs once for a request");
        let version = self.request.form.version;
        match self.hook_context().run_on_request(hook, version, text)? {
            RuledRequest::Same => {}
            RuledRequest::Changed(head) => {
                let changed =
                    Request::check(head, self.received.scheme).map_err(|_| Fault::Rules)?;
                self.request = Request { form: self.received.form, ..changed };
                if self.route.is_some_and(|route| has_other_source(route, &self.request)) {
                    self.bypass = Some((ForwardReason::Bypass, Reason::OtherOrigin));
                }
            }
            RuledRequest::Answer(answer) => return Ok(Some(answer)),
        }
        Ok(None)
    }

    /// Runs the rules on the response head at the end of `text`, which is complete except for its
    /// final empty line. Returns the status after changes by rules, and the body that rules set for
    /// a synthetic response.
    #[inline]
    pub(crate) fn run_response_rules(
        &self,
        text: &mut Vec<u8>,
        head: AnswerHead,
    ) -> (u16, Option<Box<[u8]>>) {
        match self.rules().program.has(Hook::SendResponse) {
            true => self.hook_context().run_on_response(text, head),
            false => (head.status, None),
        }
    }
}

/// Checks that the connection was opened with the certificates of the requested host's site. A
/// client may reuse a connection for every name in a certificate, but a request for another site
/// would evade the TLS settings of that site (RFC 9110 §7.4).
///
/// # Errors
/// [`Fault::OtherCertificates`]: the certificates of the site and of the connection differ.
fn check_certificates(client: &Client, route: RouteMatch<'_>) -> Result<(), Fault> {
    match client.tls_info().is_some_and(|info| info.certificates == route.site.certificates_id) {
        true => Ok(()),
        false => Err(Fault::OtherCertificates),
    }
}

/// Returns the normal form of a request; `None` if the request already has this form, or bypasses
/// the cache.
pub(crate) fn normal_request<'a>(
    text: &'a mut NormalText,
    request: &Request<'a>,
    route: &Route,
    bypasses: bool,
) -> Option<Request<'a>> {
    let settings = &route.settings;
    if settings.normalises() && !bypasses { text.normalise(request, settings) } else { None }
}
