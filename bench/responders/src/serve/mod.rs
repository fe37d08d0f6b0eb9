//! The engines: they move bytes between sockets and an [`Answer`](crate::answer::Answer).

pub(crate) mod epoll;
pub(crate) mod tokio;

/// The largest read, and the longest incomplete head. A connection that exceeds it is closed.
const INPUT_BYTES: usize = 16 * 1024;
