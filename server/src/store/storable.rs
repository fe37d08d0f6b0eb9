//! Decides whether the response of an origin is stored, and makes its record.

use forebay_cache::{
    Fill, FillRefused, Leader, LongBody, RecordTags, RecordTimes, TagsError, VariantKey,
};
use forebay_http::date::write_date;
use forebay_http::fields::{FieldBlock, FieldId};
use forebay_http::policy::compression::{BodyForm, note_coding};
use forebay_http::policy::exchange::{CacheRules, ClientRequest, OriginResponse, ResponseTiming};
use forebay_http::policy::freshness::with_jitter;
use forebay_http::policy::meta::{STORED_META_BYTES, StoredMeta};
use forebay_http::policy::reason::Reason;
use forebay_http::policy::storable::{NotStorable, storable};
use forebay_http::policy::update::{may_update, merge_304};
use forebay_http::policy::vary::{
    COOKIE_PREFIX, FieldNames, Vary, names_with, vary_names, write_selector,
};
use forebay_http::response::ResponseHead;
use forebay_rules::ast::{Hook, HttpControl};

use super::compress::{NegotiatedForm, keep_coding, renewed_form};
use super::decoder::BodyDecoder;
use super::encoder::BodyEncoder;
use super::tags::{record_tags, renewed_tags};
use crate::accept::ClientNetwork;
use crate::clock;
use crate::config::{ForwardedField, RouteSettings, SetCookie};
use crate::counters::Counter;
use crate::events::Event;
use crate::forwarding::CONDITIONS;
use crate::key::RouteMatch;
use crate::lookup::Stale;
use crate::rules::HookContext;

/// The context that, together with a response, decides whether and how the response is stored.
pub(crate) struct StoreContext<'a> {
    pub(crate) hook: HookContext<'a>,
    /// The network of the client that sent the request.
    pub(crate) network: ClientNetwork,
    pub(crate) route: RouteMatch<'a>,
    pub(crate) request: ClientRequest<'a>,
    /// The request's path and query, for the log.
    pub(crate) path_query: &'a [u8],
}

/// A record that is about to be stored, without its body.
pub(crate) struct NewRecord {
    head: Vec<u8>,
    tags: RecordTags,
    base: Option<VariantKey>,
    times: RecordTimes,
    encoder: Option<BodyEncoder>,
    decoder: Option<BodyDecoder>,
}

/// A stored head after the changes of a 304.
pub(crate) struct MergedHead {
    pub(crate) head: Vec<u8>,
    /// The new tags; `None` if the tags stay as they are.
    pub(crate) tags: Option<RecordTags>,
    pub(crate) times: RecordTimes,
    /// The reason why the head must not be stored; `None` if it may be stored. A head that must not
    /// be stored is sent only to the client of this request.
    pub(crate) refused: Option<NotStored>,
}

/// The reason why a response is not stored.
pub(crate) struct NotStored {
    /// The reason for Cache-Status and for counters.
    pub(crate) detail: Reason,
    /// Whether the next response for the key will probably not be stored either.
    pub(crate) lasts: bool,
}

impl NewRecord {
    /// Returns the encoder through which the body has to pass, if it is compressed.
    pub(crate) fn take_encoder(&mut self) -> Option<BodyEncoder> {
        self.encoder.take()
    }

    /// Returns the decoder through which the body has to pass, if it is decompressed.
    pub(crate) fn take_decoder(&mut self) -> Option<BodyDecoder> {
        self.decoder.take()
    }

    /// Begins to store the record; `body_bytes` is the length of the body in the stored form, if it
    /// is known.
    ///
    /// # Errors
    /// The store refuses the record. The error contains the leader, so that it can tell its
    /// followers.
    pub(crate) fn begin(
        self,
        leader: Leader,
        body_bytes: Option<u64>,
    ) -> Result<Fill, (Leader, NotStored)> {
        let begun = leader.begin(&self.head, self.base, body_bytes, self.times);
        let mut fill = begun.map_err(|(leader, refused)| (leader, NotStored::by(refused)))?;
        fill.tag(self.tags);
        Ok(fill)
    }

    /// Stores the record without its body, whose fragments are fetched when they are needed.
    ///
    /// # Errors
    /// The store refuses the record. The error contains the leader.
    pub(crate) fn begin_partial(self, leader: Leader, body: &LongBody) -> Result<(), Leader> {
        leader.store_partial(&self.head, self.base.as_ref(), body, (self.times, &self.tags))
    }
}

impl StoreContext<'_> {
    pub(super) fn settings(&self) -> &RouteSettings {
        &self.route.route.settings
    }

    /// Whether the request has a cookie, so that a new response may be meant for its client alone.
    fn has_cookie(&self) -> bool {
        self.request.fields.contains(FieldId::Cookie)
    }

    /// Returns those header lines of a response that are sent only to the client that started the
    /// fetch.
    pub(crate) fn own_lines(&self, block: &FieldBlock) -> FieldBlock {
        let mut own = FieldBlock::new();
        if self.settings().set_cookie == SetCookie::Strip {
            let fields = block.fields().iter();
            fields.filter(|field| field.id == FieldId::SetCookie).for_each(|f| own.push_field(f));
        }
        own
    }

    /// Returns the cookies of a 304. They are sent only to the client whose request led to the
    /// validation.
    pub(crate) fn own_lines_of_304(&self, block: &FieldBlock) -> FieldBlock {
        let mut own = FieldBlock::new();
        let cookies = block.fields().iter().filter(|field| field.id == FieldId::SetCookie);
        cookies.for_each(|field| own.push_field(field));
        own
    }

    /// Makes the record of a response. If this server may compress the response (`may_encode`), the
    /// record can have an encoder, through which the body has to pass.
    ///
    /// # Errors
    /// The response must not be stored, or does not fit.
    pub(crate) fn new_record(
        &self,
        head: &ResponseHead,
        timing: &ResponseTiming,
        may_encode: bool,
    ) -> Result<NewRecord, NotStored> {
        let length = head.content_length;
        let tags = self.checked_tags(head)?;
        if length.is_some_and(|length| length > self.settings().object_bytes_max) {
            // Reasons that follow from the meaning of the response take precedence.
            return Err(NotStored::by(FillRefused::TooLarge));
        }
        let form = match self.decompressed_form(head, false)? {
            Some(form) => Some(form),
            None => self.negotiated_form(head, timing, may_encode),
        };
        Ok(self.record_of(head, timing, tags, form))
    }

    /// Makes the record of a response of which only parts are stored. So the length of the whole
    /// response does not matter. Requests without a range may get the response compressed, unless
    /// it `is_too_long` to be fetched in one piece.
    ///
    /// # Errors
    /// The response must not be stored.
    pub(crate) fn new_partial_record(
        &self,
        head: &ResponseHead,
        timing: &ResponseTiming,
        is_too_long: bool,
    ) -> Result<NewRecord, NotStored> {
        let tags = self.checked_tags(head)?;
        let form = match self.decompressed_form(head, true)? {
            Some(form) => Some(form),
            None if is_too_long => None,
            None => self.negotiated_form(head, timing, false),
        };
        Ok(self.record_of(head, timing, tags, form))
    }

    /// Checks whether a response may be stored, and returns its tags.
    fn checked_tags(&self, head: &ResponseHead) -> Result<RecordTags, NotStored> {
        let (status, block) = (head.status, &head.block);
        permitted_by_rules(&self.hook, block, (self.settings(), false))?;
        check(self, status, block, &self.settings().cache_rules(self.has_cookie()))?;
        record_tags(block.fields(), self.settings())
            .map_err(|error| self.refused_tags(error, status))
    }

    /// Makes the record of a response that may be stored.
    fn record_of(
        &self,
        head: &ResponseHead,
        timing: &ResponseTiming,
        tags: RecordTags,
        form: Option<NegotiatedForm>,
    ) -> NewRecord {
        let answers_cookie = self.has_cookie();
        let block = form.as_ref().map_or(&head.block, |form| &form.block);
        let body_form = form.as_ref().map(NegotiatedForm::body_form);
        let stored = stored_lines(block, timing, self.settings());
        let sets_cookie = block.fields().contains(FieldId::SetCookie);
        let rules = self.settings().cache_rules(answers_cookie);
        let rules = if sets_cookie { rules.for_cookie_setting() } else { rules };
        let mut meta = StoredMeta::new(head.status, &stored, timing, &rules);
        // The length of a body that this server changes is known only at its end.
        let is_original = body_form.is_none_or(|form| form == BodyForm::Original);
        meta.body_bytes = head.content_length.filter(|_| is_original);
        meta.sets_cookie = sets_cookie;
        mark_personal(&mut meta, answers_cookie);
        if let Some(form) = body_form {
            note_coding(&mut meta, head.block.fields(), form);
        }
        self.shorten(&mut meta);
        let (head, times) = (stored_head(&meta, &stored), times(&meta));
        let base = self.base(block);
        let (encoder, decoder) = form.map(|form| (form.encoder, form.decoder)).unzip();
        let (encoder, decoder) = (encoder.flatten(), decoder.flatten());
        NewRecord { head, tags, base, times, encoder, decoder }
    }

    /// Merges a 304 with the fields of `update` into a stored head (RFC 9111 §4.3.4). Returns
    /// `None` if the 304 refers to another response or changes Vary. A cookie in this request does
    /// not matter, because the stored body was made for another request.
    pub(crate) fn renewed_head(
        &self,
        stale: &Stale,
        update: &FieldBlock,
        timing: &ResponseTiming,
    ) -> Option<MergedHead> {
        let status = stale.meta.status;
        if !may_update(&stale.meta, stale.block(), update.fields()) {
            return None;
        }
        let stored = FieldBlock::parse(stale.lines())?;
        let merged = renewed_form(stale, merge_304(&stored, update.fields()))?;
        let sets_cookie = stale.meta.sets_cookie || update.fields().contains(FieldId::SetCookie);
        let rules = self.settings().cache_rules(stale.meta.answers_cookie);
        let rules = if sets_cookie { rules.for_cookie_setting() } else { rules };
        let settings = (self.settings(), stale.meta.is_negotiated);
        let checked = check(self, status, &merged, &rules)
            .and_then(|()| permitted_by_rules(&self.hook, &merged, settings));
        if vary_names(merged.fields()) != vary_names(stored.fields()) {
            return None;
        }
        let block = stored_lines(&merged, timing, self.settings());
        let mut meta = StoredMeta::new(status, &block, timing, &rules);
        (meta.body_bytes, meta.sets_cookie) = (stale.meta.body_bytes, sets_cookie);
        keep_coding(&mut meta, &stale.meta, update);
        mark_personal(&mut meta, stale.meta.answers_cookie);
        self.shorten(&mut meta);
        let tags = renewed_tags(&stale.tags, merged.fields(), self.settings()).ok()?;
        let (head, times) = (stored_head(&meta, &block), times(&meta));
        Some(MergedHead { head, tags, times, refused: checked.err() })
    }

    /// Shortens the freshness lifetime by the route's jitter.
    fn shorten(&self, meta: &mut StoredMeta) {
        let percent = self.settings().freshness_jitter_percent;
        if percent > 0 {
            let random = self.hook.worker.random();
            meta.lifetime_s = with_jitter(meta.lifetime_s, meta.initial_age_s, percent, random);
        }
    }

    fn refused_tags(&self, error: TagsError, status: u16) -> NotStored {
        let worker = self.hook.worker;
        let (site, path) = (&self.route.site.name, self.path_query.escape_ascii());
        worker.count(Counter::TagsRefused);
        worker.event(Event::TagsRefused, &format_args!("{site} {path}: {error}"));
        NotStored { detail: Reason::Tags, lasts: status < 400 }
    }

    /// Returns the Vary field names of a response, and this request's selector for them; `None` if
    /// the response does not vary.
    pub(crate) fn base(&self, block: &FieldBlock) -> Option<VariantKey> {
        let names = secondary_names(block, self.settings()).filter(|names| !names.is_empty())?;
        let mut variant = Vec::new();
        write_selector(&names, self.request.fields, &mut variant)?;
        Some(VariantKey { names, variant })
    }
}

/// Records that this response could have been stored, so that the next requests for the key are
/// collapsed again. The request was passed through because an earlier response for its key could
/// not be stored.
pub(crate) fn note_storable(context: &StoreContext<'_>, key: &[u8], head: &ResponseHead) {
    let settings = context.settings();
    let rules = settings.cache_rules(context.has_cookie());
    let is_storable = check(context, head.status, &head.block, &rules).is_ok();
    if is_storable && record_tags(head.block.fields(), settings).is_ok() {
        context.hook.worker.store.forget_declined(key);
    }
}

impl NotStored {
    /// The reason if rules forbid storing. Rules may depend on the request, so the next response
    /// may be storable.
    const BY_RULES: NotStored = NotStored { detail: Reason::RuledOut, lasts: false };

    /// The reason if the page of `files_fallback` answers in place of a missing file.
    pub(crate) const FALLBACK: NotStored = NotStored { detail: Reason::Fallback, lasts: true };

    /// The reason if the response is a part of a body that would have to be decoded as a whole.
    pub(super) const ENCODED_PART: NotStored = NotStored { detail: Reason::Range, lasts: false };

    /// The reason if the response is an error of the origin, and a stored response may be served in
    /// its place.
    pub(crate) const FAILURE: NotStored = NotStored { detail: Reason::OriginFailed, lasts: false };

    pub(crate) fn by(refused: FillRefused) -> NotStored {
        match refused {
            FillRefused::TooLarge => NotStored { detail: Reason::TooLarge, lasts: true },
            FillRefused::NoRoom => NotStored { detail: Reason::NoRoom, lasts: false },
        }
    }

    /// Makes the refusal from its reason. The refusal lasts if the origin states the reason in a
    /// response without an error. If the reason depends on the request, or the response is an
    /// error, other requests must still be able to share the next response.
    pub(super) fn why(why: NotStorable, status: u16) -> NotStored {
        use NotStorable::{NoFreshness, NoStore, Private, SetCookie, Vary};
        let of_resource = matches!(why, NoStore | Private | Vary | SetCookie | NoFreshness);
        NotStored { detail: why.reason(), lasts: of_resource && status < 400 }
    }
}

/// Checks whether a response may be stored (RFC 9111 §3).
fn check(
    context: &StoreContext<'_>,
    status: u16,
    block: &FieldBlock,
    rules: &CacheRules<'_>,
) -> Result<(), NotStored> {
    let response = OriginResponse::new(status, block.fields(), rules.targets);
    if response.has_invalid_target {
        context.hook.worker.count(Counter::TargetedInvalid);
    }
    storable(&context.request, &response, rules, clock::unix_seconds())
        .map_err(|why| NotStored::why(why, status))?;
    if varies_by_hidden(block, context.settings())
        || secondary_names(block, context.settings()).is_none()
    {
        return Err(NotStored::why(NotStorable::Vary, status));
    }
    Ok(())
}

/// Whether the response varies by a field whose value at the origin does not follow from the fields
/// of the client's request. A secondary key made from the client's fields would then be wrong.
///
/// X-Forwarded-For ends with the client's address, and the preconditions of a fetch that fills the
/// store differ from those of the client's request. The origin gets an X-Request-Id of this server,
/// which is different in each request, unless the client's is in the key. Fields that are never
/// forwarded do no harm: the response is the same for all of their values, so it is also right for
/// the value in its secondary key.
fn varies_by_hidden(block: &FieldBlock, settings: &RouteSettings) -> bool {
    let Vary::Names(names) = vary_names(block.fields()) else { return false };
    let is_hidden = |name: &[u8]| {
        let id = FieldId::of(name);
        let is_own_id = ForwardedField::of(name) == Some(ForwardedField::RequestId);
        CONDITIONS.contains(id)
            || matches!(id, FieldId::ContentLength | FieldId::XForwardedFor)
            || is_own_id && !settings.key_fields.contains(name)
    };
    FieldNames::decode(&names).is_none_or(|names| names.iter().any(is_hidden))
}

/// Returns the names of the fields in a response's secondary key, which are those in Vary and those
/// that settings add; the list may be empty. Returns `None` if a secondary key cannot express the
/// names.
///
/// X-Forwarded-Proto is left out: the origin gets the scheme as its value, even if the client sends
/// another value, and the scheme is part of the key.
pub(super) fn secondary_names(block: &FieldBlock, settings: &RouteSettings) -> Option<Vec<u8>> {
    let names = names_with(&vary_names(block.fields()), settings.key_names())?;
    let is_kept = |name: &&[u8]| FieldId::of(name) != FieldId::XForwardedProto;
    let kept: Vec<_> = names.split(|byte| *byte == b',').filter(is_kept).collect();
    Some(kept.join(&b','))
}

/// Checks whether header rules permit a response to be stored. Rules may forbid storing directly.
/// They also prevent it if they change a request field by which the response varies, because a
/// secondary key made from the client's fields would then be wrong.
/// That does not matter for Accept-Encoding if this server chose the coding of the response by the
/// client's field (`is_negotiated`).
fn permitted_by_rules(
    hook: &HookContext<'_>,
    block: &FieldBlock,
    (settings, is_negotiated): (&RouteSettings, bool),
) -> Result<(), NotStored> {
    let HookContext { rules, rule_state, .. } = hook;
    let is_forbidden = rule_state.is_on(HttpControl::ServerNoStore)
        || rule_state.is_off(HttpControl::ResponseCacheable);
    if is_forbidden {
        return Err(NotStored::BY_RULES);
    }
    let Some(names) = secondary_names(block, settings) else {
        return Ok(());
    };
    let changed = rules.program.changed_names(Hook::SendRequest);
    let is_changed =
        |name: &[u8]| changed.iter().any(|changed| changed.as_bytes().eq_ignore_ascii_case(name));
    let is_others = |name: &&[u8]| !is_negotiated || FieldId::of(name) != FieldId::AcceptEncoding;
    let names = names.split(|byte| *byte == b',').filter(is_others);
    let mut fields =
        names.map(|name| if name.starts_with(COOKIE_PREFIX) { b"cookie" } else { name });
    match fields.any(is_changed) {
        true => Err(NotStored::BY_RULES),
        false => Ok(()),
    }
}

/// Returns the header lines that are stored. Targeted fields that are meant only for this cache
/// come first: they are not sent to clients, but they apply again when a 304 without such fields
/// updates the response. Age, which is computed for each use, is left out, and so are tags and
/// lines that are meant for only one client. A Date is added if the origin sent none (RFC 9110
/// §6.6.1).
///
/// The Cache-Status of caches nearer to the origin is stored, because it precedes the member of
/// this cache in every hit (RFC 9211 §2).
// RFC: 9111-3.1-1, 9211-2-2, 9213-2.2-4
fn stored_lines(
    received: &FieldBlock,
    timing: &ResponseTiming,
    settings: &RouteSettings,
) -> FieldBlock {
    let hidden = settings.hidden_fields();
    let is_stripped = |id| id == FieldId::SetCookie && settings.set_cookie == SetCookie::Strip;
    let is_left_out = |id| id == FieldId::Age || hidden.contains(id) || is_stripped(id);
    let is_own = |name: &[u8]| settings.targeted_cache_control.is_own(name);
    let fields = received.fields().iter().filter(|field| !is_left_out(field.id));
    let (own, sent): (Vec<_>, Vec<_>) = fields.partition(|field| is_own(field.name));
    let mut block = FieldBlock::new();
    own.into_iter().chain(sent).for_each(|field| block.push_field(field));
    if !block.fields().contains(FieldId::Date) {
        block.push(b"date", &write_date(timing.response_time));
    }
    block
}

/// Records whether the body answers a request with a cookie. Such a response may be meant for one
/// client alone. If it also has no explicit lifetime, it is never used without validation, even if
/// the origin cannot be reached.
fn mark_personal(meta: &mut StoredMeta, answers_cookie: bool) {
    meta.answers_cookie = answers_cookie;
    meta.forbids_stale |= answers_cookie && meta.lifetime_s == 0;
}

fn times(meta: &StoredMeta) -> RecordTimes {
    // Unix seconds fit in 32 bits until 2106.
    let response_time = u32::try_from(meta.response_time).unwrap_or(u32::MAX);
    RecordTimes { response_time, stale_from: meta.stale_from() }
}

fn stored_head(meta: &StoredMeta, block: &FieldBlock) -> Vec<u8> {
    let mut head = Vec::with_capacity(STORED_META_BYTES + block.bytes().len());
    meta.encode(&mut head);
    head.extend_from_slice(block.bytes());
    head
}
