//! Decides whether the content coding of a response is taken off for a client that does not accept
//! it. Such a response is stored as a variant of its own.

use forebay_http::fields::Fields;
use forebay_http::policy::accept_encoding::accepts_coding;
use forebay_http::policy::compression::{
    BodyForm, forbids_transforming, negotiated_fields, varies_by_coding,
};
use forebay_http::policy::decompression::removable_coding;
use forebay_http::policy::reason::Reason;
use forebay_http::policy::storable::NotStorable;
use forebay_http::response::ResponseHead;

use super::compress::NegotiatedForm;
use super::decoder::BodyDecoder;
use super::storable::secondary_names;
use super::{NotStored, StoreContext};
use crate::config::{ContentCoding, RouteSettings};
use crate::counters::Counter;

/// The treatment of a response's content coding on the way to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodingUse {
    /// The response has no coding that this server can take off, or must not be changed. All
    /// clients get it as the origin sent it.
    Untouched,
    /// The same, but the client does not accept the coding. The reason is `no-transform`.
    Forbidden,
    /// The client accepts the coding. Other clients may get another form.
    Accepted,
    /// The client does not accept the coding, so it is taken off.
    Removed(ContentCoding),
}

/// Decides how the content coding of a response to a request with these fields is treated.
pub(crate) fn coding_use(
    settings: &RouteSettings,
    request: Fields<'_>,
    (status, fields): (u16, Fields<'_>),
) -> CodingUse {
    if !settings.decompress {
        return CodingUse::Untouched;
    }
    let name = removable_coding(status, fields);
    let Some((name, coding)) = name.and_then(|name| Some((name, ContentCoding::of_name(name)?)))
    else {
        return CodingUse::Untouched;
    };
    let is_accepted =
        accepts_coding(request, name) || accepts_coding(request, coding.name().as_bytes());
    match (is_accepted, forbids_transforming(fields)) {
        (true, true) => CodingUse::Untouched,
        (true, false) => CodingUse::Accepted,
        (false, is_forbidden) if is_forbidden || forbids_transforming(request) => {
            CodingUse::Forbidden
        }
        (false, _) => CodingUse::Removed(coding),
    }
}

impl StoreContext<'_> {
    /// Returns the form in which a response with a content coding is stored, if this server takes
    /// codings off. `None` if all clients get the response as the origin sent it.
    ///
    /// # Errors
    /// This client needs the response without its coding, and it cannot be stored so.
    pub(super) fn decompressed_form(
        &self,
        head: &ResponseHead,
        is_part: bool,
    ) -> Result<Option<NegotiatedForm>, NotStored> {
        let (settings, fields) = (self.settings(), head.block.fields());
        let (worker, config) = (self.hook.worker, self.hook.config);
        let (form, coding) = match coding_use(settings, self.request.fields, (head.status, fields))
        {
            CodingUse::Untouched | CodingUse::Forbidden => return Ok(None),
            // The origin has already said that it has other forms for other clients.
            CodingUse::Accepted if varies_by_coding(fields) => return Ok(None),
            CodingUse::Accepted => (BodyForm::Original, None),
            CodingUse::Removed(_) if is_part => return Err(NotStored::ENCODED_PART),
            CodingUse::Removed(coding) => (BodyForm::Decompressed, Some(coding)),
        };
        let block = negotiated_fields(fields, form);
        // With Accept-Encoding in Vary, there may be too many names for a secondary key.
        if secondary_names(&block, settings).is_none() {
            return Err(NotStored::why(NotStorable::Vary, head.status));
        }
        let decoder = match coding {
            None => None,
            Some(coding) => {
                let owner = (&*self.route.site.name, self.network);
                let opened = BodyDecoder::open(worker, (config, coding), owner, true);
                // The counter counts the response when it is on its way to its client.
                Some(opened.map_err(|_| NotStored { detail: Reason::NoRoom, lasts: false })?)
            }
        };
        Ok(Some(NegotiatedForm { block, encoder: None, decoder }))
    }

    /// Whether a response with this head is a part of a body whose coding its client does not
    /// accept. Only the whole body can be decoded.
    pub(crate) fn needs_whole(&self, head: &ResponseHead) -> bool {
        head.status == 206 && self.takes_coding_off((200, head.block.fields()))
    }

    /// Whether a response with this status and these fields is decompressed for its client.
    pub(crate) fn takes_coding_off(&self, response: (u16, Fields<'_>)) -> bool {
        let coding_use = coding_use(self.settings(), self.request.fields, response);
        matches!(coding_use, CodingUse::Removed(_))
    }

    /// Whether this request could get a response in another form than the origin sends. If so, the
    /// range of the request may count the bytes of that form.
    pub(crate) fn may_take_coding_off(&self) -> bool {
        let accepts =
            |coding: ContentCoding| accepts_coding(self.request.fields, coding.name().as_bytes());
        let is_forbidden = forbids_transforming(self.request.fields);
        self.settings().decompress && !is_forbidden && !ContentCoding::ALL.into_iter().all(accepts)
    }

    /// Counts a response that is being stored and keeps a coding which its client does not accept.
    pub(crate) fn count_kept_coding(&self, head: &ResponseHead) {
        let form = (head.status, head.block.fields());
        let coding_use = coding_use(self.settings(), self.request.fields, form);
        if coding_use == CodingUse::Forbidden {
            self.hook.worker.count(Counter::DecompressNoTransform);
        }
    }
}
