//! The engines: they move bytes between sockets and an [`Answer`](crate::answer::Answer).

pub(crate) mod epoll;
pub(crate) mod tokio;

/// Largest read, and most bytes of an incomplete head; a connection that sends more is closed.
const INPUT_BYTES: usize = 16 * 1024;
