//! Several parts of one body, sent as multipart/byteranges (RFC 9110 §15.3.7.2).

use std::ops::Range;

use forebay_http::framing::BodyFraming;
use forebay_http::policy::multipart::Multipart;

use super::Delivered;
use super::head::{Head, HeadContext, WrittenHead};
use crate::secret::secret_number;
use crate::send_queue::SendQueue;
use crate::transaction::Transaction;

/// The parts of a body that are still to be sent.
#[derive(Debug)]
pub(super) struct MultipartBody {
    form: Multipart,
    /// The index of the next part.
    next: usize,
}

impl MultipartBody {
    /// Creates the body for a response with these parts of a body of `body_bytes`. `block` is the
    /// stored field block.
    pub(super) fn new(parts: Vec<Range<u64>>, body_bytes: u64, block: &[u8]) -> MultipartBody {
        let form = Multipart::new(parts, body_bytes, block, secret_number());
        MultipartBody { form, next: 0 }
    }

    /// Appends the head of the response, with a stored field block and its age. `own_lines` are
    /// meant only for this client.
    pub(super) fn queue_head(
        &self,
        transaction: &Transaction<'_>,
        queue: &mut SendQueue,
        (block, age): (&[u8], u32),
        own_lines: &[u8],
    ) -> Delivered {
        let body_bytes = self.form.content_bytes();
        let framing = BodyFraming::Length(body_bytes);
        let mut lines = Vec::with_capacity(block.len());
        self.form.write_block(block, &mut lines);
        let head = Head { status: 206, block: &lines, age: Some(age), framing };
        let context = HeadContext::of(transaction);
        let WrittenHead { status, keep_alive } = head.write_with(&context, queue.text(), |text| {
            text.extend_from_slice(own_lines);
        });
        Delivered { status, body_bytes, keep_alive }
    }

    /// Appends the head of the next part, and returns the range of the body that follows it. After
    /// the last part, appends the closing boundary and returns `None`.
    pub(super) fn begin_part(&mut self, queue: &mut SendQueue) -> Option<Range<u64>> {
        let part = self.form.range(self.next);
        match part {
            Some(_) => self.form.write_part_head(self.next, queue.text()),
            None => self.form.write_end(queue.text()),
        }
        self.next += 1;
        part
    }
}
