//! The rest of a stored body, of which parts left the store while it was being sent: asked of the
//! origin.
//!
//! Only as a range of the very version whose beginning was sent, which a strong validator names
//! (RFC 9110 §13.1.5, §15.3.7.3): parts of two versions are never put together.

use std::ops::Range;

use forebay_http::fields::{FieldBlock, FieldId};
use forebay_http::policy::range::{RangeDecision, write_content_range};
use forebay_http::response::ResponseHead;
use forebay_http::write;

use super::growing::append;
use super::pass::next_or_flush;
use super::{Broken, Reply};
use crate::config::Config;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::{
    Exchange, InterimQueue, OriginAnswer, OriginPart, Outbound, OwnedRequest, Purpose, exchange,
};
use crate::key::RouteMatch;
use crate::parse::Request;
use crate::send_queue::{Lender, SendQueue};

/// Of what a rest is asked for, if one is needed.
pub(crate) struct RestOf<'a> {
    pub(crate) config: &'a Config,
    pub(crate) place: RouteMatch<'a>,
    pub(crate) request: &'a Request<'a>,
    /// The strong entity tag of the stored response; empty if it has none.
    pub(crate) tag: &'a [u8],
}

/// Which bytes are missing, of a body of which length.
pub(super) struct Missing {
    pub(super) part: Range<u64>,
    pub(super) body_bytes: u64,
    /// Does the answer go in chunks?
    pub(super) chunked: bool,
}

/// The rest cannot be had.
const CUT: Broken = Broken::Midway(Fault::HitCut);

impl RestOf<'_> {
    /// Sends what is missing, all of it; the last of it stays in the queue.
    ///
    /// # Errors
    /// The origin does not have this version, or does not say so; it, or the client, fails.
    pub(super) async fn send(
        &self,
        reply: &Reply<'_>,
        out: &mut SendQueue,
        missing: &Missing,
    ) -> Result<(), Broken> {
        let client = reply.client;
        if self.tag.is_empty() {
            return Err(CUT);
        }
        // What is there of the body does not wait for the origin, nor keeps memory of the store.
        client.flush(out).await.map_err(Broken::Midway)?;
        let mut answer = self.ask(reply, missing).await.map_err(|_| CUT)?;
        if !self.continues(&answer.head, missing) {
            return Err(CUT);
        }
        client.worker.count(Counter::HitsContinued);
        let mut left = missing.part.end - missing.part.start;
        loop {
            match next_or_flush(client, out, &mut answer.body, &mut true).await {
                Ok(OriginPart::Data(piece)) => {
                    left = left.checked_sub(piece.len() as u64).ok_or(CUT)?;
                    append(out, piece, missing.chunked, Lender::Origin);
                }
                Ok(OriginPart::End(_)) if left == 0 => return Ok(()),
                Ok(OriginPart::End(_)) => return Err(CUT),
                Err(Broken::Before(fault) | Broken::Midway(fault)) => {
                    return Err(Broken::Midway(fault));
                }
            }
            let permitted_by = answer.body.permitted_by();
            let flushed = permitted_by.sending(client, client.flush_if_full(out)).await;
            flushed.map_err(Broken::Midway)?;
        }
    }

    async fn ask(&self, reply: &Reply<'_>, missing: &Missing) -> Result<OriginAnswer, Fault> {
        let client = reply.client;
        let asked = OwnedRequest::copy(self.request, reply.rules)?;
        let mut range = b"bytes=".to_vec();
        write::decimal(&mut range, missing.part.start);
        range.push(b'-');
        write::decimal(&mut range, missing.part.end - 1);
        let mut fields = FieldBlock::new();
        fields.push(b"range", &range);
        fields.push(b"if-range", self.tag);
        let request = Exchange {
            worker: &client.worker,
            origin: &self.place.site.origin,
            settings: &self.config.server,
            outbound: Outbound {
                asked: &asked,
                purpose: Purpose::Rest(&fields),
                via: &client.worker.via_line,
                rules: *reply.rules,
            },
            // Nothing can go between two parts of a body.
            interim: &InterimQueue::new(),
        };
        exchange(&request, None).await
    }

    /// Is it exactly what is missing, and of this version?
    fn continues(&self, head: &ResponseHead, missing: &Missing) -> bool {
        let Missing { part, body_bytes, .. } = missing;
        let mut wanted = Vec::new();
        let part = RangeDecision::Part { first: part.start, last: part.end - 1 };
        write_content_range(part, *body_bytes, &mut wanted);
        let fields = head.block.fields();
        head.status == 206
            && fields.only(FieldId::ContentRange) == Some(&wanted)
            && fields.only(FieldId::Etag) == Some(self.tag)
    }
}
