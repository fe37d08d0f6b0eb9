//! Step two: turns bytes from the client into a checked request.

mod body;
mod next;
mod request;

pub(crate) use body::{BodyPart, RequestBody};
pub(crate) use next::{head_limits, next_head};
pub(crate) use request::{Request, ResponseForm, accepts_trailers, explicit_port};
