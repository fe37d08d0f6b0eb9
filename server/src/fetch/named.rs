//! A 304 that names a stored variant other than the one that the request selects.
//!
//! The request to the origin had the tags of several variants. The variant whose strong tag is in
//! the 304 answers the request (RFC 9111 §4.3.4), and is updated with the fields of the 304. A copy
//! of the variant is stored, which similar requests select from now on.

use forebay_cache::{ConfirmedVariant, DeclineReason, Leader, RecordVersion, VariantKey};
use forebay_http::fields::FieldBlock;
use forebay_http::policy::reason::Reason;
use forebay_http::policy::update::names_variant;
use forebay_http::policy::vary::split_selector;
use tokio::sync::oneshot;

use super::answer::OriginAnswer;
use super::lead::{FetchOutcome, FetchTask, report};
use crate::counters::Counter;
use crate::lookup::OtherVariant;
use crate::store::{MergedHead, NotStored};
use crate::trace::{RequestStep, StoreStep};

/// A stored variant that the request does not select, but that the origin has confirmed for it.
pub(super) struct NamedVariant {
    pub(super) selector: Vec<u8>,
    pub(super) version: RecordVersion,
}

/// The origin's confirmation of a variant.
pub(super) struct VariantConfirmation {
    variant: NamedVariant,
    renewed: MergedHead,
    /// The key of the variant's copy: the variant's field names, and the selector of the request.
    copy: VariantKey,
    /// Field lines that are meant only for the client that sent the request.
    own_lines: FieldBlock,
}

impl FetchTask {
    /// Returns the variant that a 304 names; `None` if the 304 names none of the variants whose
    /// tags were sent, or changes the names in Vary.
    pub(super) fn variant_named_by(
        &self,
        answer: &OriginAnswer,
    ) -> Option<Box<VariantConfirmation>> {
        let update = &answer.head.block;
        let is_named = |other: &&OtherVariant| {
            names_variant(&other.stale.meta, other.stale.block(), update.fields())
        };
        let other = self.others.iter().find(is_named)?;
        let context = self.store_context();
        let renewed = context.renewed_head(&other.stale, update, &answer.timing())?;
        let copy = context.base(&FieldBlock::parse(other.stale.lines())?)?;
        // The variant was stored under `names`. They differ from the names of its copy if the
        // settings have changed since.
        let (names, _) = split_selector(&other.selector)?;
        if names.as_bytes() != copy.names {
            return None;
        }
        let variant = NamedVariant { selector: other.selector.clone(), version: other.known() };
        let own_lines = context.own_lines_of_304(update);
        Some(Box::new(VariantConfirmation { variant, renewed, copy, own_lines }))
    }

    /// Stores a copy of the variant for similar requests. If that is not possible, only this
    /// request uses the variant.
    // RFC: 9111-4.3.4-2
    pub(super) fn confirm_variant(
        &self,
        confirmation: VariantConfirmation,
        leader: Leader,
        outcome: oneshot::Sender<FetchOutcome>,
    ) {
        let VariantConfirmation { mut variant, renewed, copy, own_lines } = confirmation;
        self.worker.count(Counter::Validated);
        self.worker.count(Counter::VariantsNamed);
        let progress = self.rule_state.progress();
        let (leader, why) = match renewed.refused {
            Some(why) => (leader, why),
            None => {
                let confirmed = ConfirmedVariant {
                    selector: &variant.selector,
                    known: variant.version,
                    copy: &copy,
                };
                let changes = (&*renewed.head, renewed.times, renewed.tags.as_ref());
                match leader.validated_variant(&confirmed, changes) {
                    Ok(()) => {
                        self.trace.step(|| RequestStep::Store(StoreStep::Renewed));
                        self.worker.notify_stored();
                        let (fwd_status, first_part) = (304, None);
                        let stored =
                            FetchOutcome::Stored { fwd_status, progress, own_lines, first_part };
                        return report(outcome, stored);
                    }
                    Err((leader, renewed)) => {
                        variant.version = renewed.unwrap_or(variant.version);
                        (leader, NotStored { detail: Reason::NoRoom, lasts: false })
                    }
                }
            }
        };
        self.trace_not_stored(&why);
        // For this request the origin no longer selects the response that the request selects in
        // the store.
        if self.answers_for_all() {
            leader.forget_known();
        }
        leader.decline_once(DeclineReason::Code(why.detail.code()));
        let confirmed = FetchOutcome::Confirmed {
            head: renewed.head,
            own_lines,
            progress,
            detail: why.detail,
            variant: Some(variant),
            is_outdated: false,
        };
        report(outcome, confirmed);
    }
}
