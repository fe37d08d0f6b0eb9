//! POSIX message queues.

use std::ffi::CString;
use std::io;

/// A queue, open for sending and receiving.
#[derive(Debug)]
pub(crate) struct Queue {
    descriptor: libc::mqd_t,
    name: CString,
    is_maker: bool,
}

/// The size of a message buffer, which is longer than any query or answer.
pub(crate) const MESSAGE_BYTES: usize = 4096;

impl Queue {
    /// Makes a queue of this name. Dropping it removes the queue.
    pub(crate) fn create(name: &str) -> io::Result<Queue> {
        // SAFETY: all-zero bytes are a valid value of this struct of numbers.
        let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
        attributes.mq_maxmsg = 4;
        attributes.mq_msgsize = MESSAGE_BYTES as libc::c_long;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        let name = CString::new(name)?;
        // SAFETY: name and attributes are valid during the call; a mode follows the flags.
        let descriptor =
            unsafe { libc::mq_open(name.as_ptr(), flags, 0o600, &raw const attributes) };
        Queue::of(descriptor, name, true)
    }

    pub(crate) fn open(name: &str) -> io::Result<Queue> {
        let name = CString::new(name)?;
        // SAFETY: the name is valid during the call.
        let descriptor = unsafe { libc::mq_open(name.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        Queue::of(descriptor, name, false)
    }

    fn of(descriptor: libc::mqd_t, name: CString, is_maker: bool) -> io::Result<Queue> {
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Queue { descriptor, name, is_maker })
    }

    pub(crate) fn send(&self, message: &[u8]) -> io::Result<()> {
        let first = message.as_ptr().cast();
        // SAFETY: `message` has this many readable bytes.
        match unsafe { libc::mq_send(self.descriptor, first, message.len(), 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn receive(&self, room: &mut [u8; MESSAGE_BYTES]) -> io::Result<usize> {
        let first = room.as_mut_ptr().cast();
        let mut priority = 0;
        // SAFETY: `room` has this many writable bytes.
        let count =
            unsafe { libc::mq_receive(self.descriptor, first, MESSAGE_BYTES, &raw mut priority) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open and belongs to this queue.
        let _ = unsafe { libc::mq_close(self.descriptor) };
        if self.is_maker {
            // SAFETY: the name is valid during the call.
            let _ = unsafe { libc::mq_unlink(self.name.as_ptr()) };
        }
    }
}
