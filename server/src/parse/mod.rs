//! Step two: bytes become a checked request.

mod body;
mod buffers;
mod next;
mod request;

pub(crate) use body::{BodyPart, RequestBody};
pub(crate) use buffers::{BufferPool, Buffers, Input};
pub(crate) use next::next_head;
pub(crate) use request::{ReplyForm, Request, explicit_port};
