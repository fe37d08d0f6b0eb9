//! Takes the content coding off responses that are not stored, for clients that do not accept it.

use forebay_http::fields::FieldBlock;
use forebay_http::framing::BodyFraming;
use forebay_http::policy::compression::{BodyForm, negotiated_fields, varies_by_coding};
use forebay_http::policy::decompression::keep_tag_weak;

use crate::counters::Counter;
use crate::response::StreamedResponse;
use crate::store::{BodyDecoder, CodingUse, coding_use};
use crate::transaction::Transaction;

/// Brings a response into the form that its client accepts, if the settings of the route say so. If
/// the worker cannot decompress more responses, the response keeps its coding.
pub(super) fn decompress(transaction: &Transaction<'_>, streamed: &mut StreamedResponse<'_>) {
    let (worker, route) = (transaction.worker(), transaction.route());
    let settings = &route.route.settings;
    if !settings.decompress {
        return;
    }
    let request = transaction.request.head.fields();
    let answer = &mut streamed.answer;
    let head = &mut answer.head;
    if head.status == 304 {
        return keep_tag_weak(request, &mut head.block);
    }
    let fields = head.block.fields();
    let coding = match coding_use(settings, request, (head.status, fields)) {
        CodingUse::Untouched => return,
        CodingUse::Forbidden => return worker.count(Counter::DecompressNoTransform),
        CodingUse::Accepted => return note_other_forms(&mut head.block),
        CodingUse::Removed(coding) => coding,
    };
    // The answer to a HEAD has the fields of the answer to a GET.
    if head.framing != BodyFraming::None {
        let owner = (&*route.site.name, transaction.client.network());
        let form = (&**transaction.config, coding);
        match BodyDecoder::open(worker, form, owner, false) {
            Ok(decoder) => answer.body.decode_with(decoder),
            Err(counter) => {
                worker.count(counter);
                return note_other_forms(&mut head.block);
            }
        }
        head.framing = BodyFraming::Chunked;
    }
    head.block = negotiated_fields(fields, BodyForm::Decompressed);
    head.content_length = None;
}

/// Says in Vary that other clients may get another form.
fn note_other_forms(block: &mut FieldBlock) {
    if !varies_by_coding(block.fields()) {
        block.push(b"vary", b"accept-encoding");
    }
}
