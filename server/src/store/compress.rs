//! Decides whether a response is compressed when it is stored, and with which coding.

use std::io;

use forebay_http::fields::{FieldBlock, FieldId};
use forebay_http::policy::compression::{
    BodyForm, NotCompressed, compressible, first_coding, negotiated_fields, note_coding,
    renewed_fields,
};
use forebay_http::policy::exchange::ResponseTiming;
use forebay_http::policy::meta::StoredMeta;
use forebay_http::response::ResponseHead;

use super::StoreContext;
use super::decoder::BodyDecoder;
use super::encoder::{BodyEncoder, Places};
use super::storable::secondary_names;
use crate::config::ContentCoding;
use crate::counters::Counter;
use crate::lookup::Stale;

/// The form in which a response is stored whose coding this server chooses.
pub(super) struct NegotiatedForm {
    pub(super) block: FieldBlock,
    /// The encoder of the body, if the body is compressed.
    pub(super) encoder: Option<BodyEncoder>,
    /// The decoder of the body, if the body is decompressed.
    pub(super) decoder: Option<BodyDecoder>,
}

impl NegotiatedForm {
    fn plain(block: FieldBlock) -> NegotiatedForm {
        NegotiatedForm { block, encoder: None, decoder: None }
    }

    /// Returns the form of the body.
    pub(super) fn body_form(&self) -> BodyForm<'static> {
        match (&self.encoder, &self.decoder) {
            (Some(_), _) => BodyForm::Compressed(b""),
            (None, Some(_)) => BodyForm::Decompressed,
            (None, None) => BodyForm::Original,
        }
    }
}

impl StoreContext<'_> {
    /// Returns the form in which the whole response is stored if this server chooses its coding.
    /// Returns `None` if the response is stored as the origin sent it, for any request. Counts the
    /// reason if the response is not compressed.
    ///
    /// A reason that lies in the request keeps only this variant uncompressed: `Vary` lets other
    /// clients get another variant. `may_encode` is false if the request has Range.
    pub(super) fn negotiated_form(
        &self,
        head: &ResponseHead,
        timing: &ResponseTiming,
        may_encode: bool,
    ) -> Option<NegotiatedForm> {
        let settings = self.settings();
        if settings.compress.is_empty() {
            return None;
        }
        let fields = head.block.fields();
        let names = secondary_names(&head.block, settings)?;
        let size = (head.status, head.content_length);
        if let Err(why) = compressible(size, fields, &names, &settings.compression_rules()) {
            if may_encode {
                self.hook.worker.count(counter_of(why));
            }
            return None;
        }
        let plain = negotiated_fields(fields, BodyForm::Original);
        // With Accept-Encoding in Vary, there may be too many names for a secondary key.
        secondary_names(&plain, settings)?;
        if !may_encode {
            return Some(NegotiatedForm::plain(plain));
        }
        if self.may_be_for_one_client(head, timing) {
            self.hook.worker.count(Counter::CompressPersonal);
            return Some(NegotiatedForm::plain(plain));
        }
        let asked =
            first_coding(self.request.fields).and_then(|name| settings.compress.named(name));
        let Some(coding) = asked else {
            self.hook.worker.count(Counter::CompressNotAccepted);
            return Some(NegotiatedForm::plain(plain));
        };
        match self.open_encoder((coding, head.content_length)) {
            Ok(Some(encoder)) => {
                let form = BodyForm::Compressed(coding.name().as_bytes());
                let block = negotiated_fields(fields, form);
                Some(NegotiatedForm { block, encoder: Some(encoder), decoder: None })
            }
            Ok(None) => {
                self.hook.worker.count(Counter::CompressBusy);
                Some(NegotiatedForm::plain(plain))
            }
            Err(_) => {
                self.hook.worker.count(Counter::CompressFailed);
                Some(NegotiatedForm::plain(plain))
            }
        }
    }

    /// Whether the response answers a request with Cookie, Authorization or the certificate of a
    /// client, and is validated before each use, as a page with the secrets of one client is. The
    /// length of such a page must not show how much of it repeats text that an attacker has put
    /// into the request.
    fn may_be_for_one_client(&self, head: &ResponseHead, timing: &ResponseTiming) -> bool {
        let is_authorized = self.request.directives.is_authorized;
        if !is_authorized && !self.request.fields.contains(FieldId::Cookie) {
            return false;
        }
        let rules = self.settings().cache_rules(true);
        let meta = StoredMeta::new(head.status, &head.block, timing, &rules);
        meta.no_cache || meta.lifetime_s == 0
    }

    fn open_encoder(&self, form: (ContentCoding, Option<u64>)) -> io::Result<Option<BodyEncoder>> {
        let config = self.hook.config;
        let places = Places {
            all: config.server.compressions_max as usize,
            are_shared: config.sites.iter().len() > 1,
        };
        BodyEncoder::open(self.hook.worker, form, &self.route.site.name, &places)
    }
}

/// Returns the fields that a 304 has merged into a stored response, in the form in which they are
/// stored. Returns `None` if the stored body must not be used with them.
pub(super) fn renewed_form(stale: &Stale, merged: FieldBlock) -> Option<FieldBlock> {
    match stale.meta.is_negotiated {
        true => renewed_fields(&stale.meta, merged.fields()),
        false => Some(merged),
    }
}

/// Copies the facts about the coding of the body from the metadata of a stored response (`stored`)
/// to the metadata of the renewed response (`meta`). `update` has the fields of the 304.
pub(super) fn keep_coding(meta: &mut StoredMeta, stored: &StoredMeta, update: &FieldBlock) {
    if !stored.is_negotiated {
        return;
    }
    note_coding(meta, update.fields(), stored.form(b""));
    if !update.fields().contains(FieldId::Etag) {
        meta.is_weakened = stored.is_weakened;
    }
}

fn counter_of(why: NotCompressed) -> Counter {
    match why {
        NotCompressed::Status => Counter::CompressStatus,
        NotCompressed::Type => Counter::CompressType,
        NotCompressed::Small => Counter::CompressSmall,
        NotCompressed::Encoded => Counter::CompressEncoded,
        NotCompressed::NoTransform => Counter::CompressNoTransform,
        NotCompressed::OriginVaries => Counter::CompressOriginVaries,
        NotCompressed::Personal => Counter::CompressPersonal,
        NotCompressed::Digest => Counter::CompressDigest,
    }
}
