//! Sends and receives bytes and descriptors over a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};
use rustix::process::geteuid;

use crate::limits::UPGRADE_DESCRIPTORS_MAX;

/// Memory for the descriptors of one message.
const SPACE_BYTES: usize = rustix::cmsg_space!(ScmRights(UPGRADE_DESCRIPTORS_MAX));

/// Whether the process at the other end runs as our user.
pub(super) fn is_of_our_user(socket: impl AsFd) -> bool {
    sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == geteuid())
}

/// Sends a whole message, with descriptors.
///
/// # Errors
/// The other end is closed, or the message does not fit into the socket's buffer.
pub(super) fn send(
    socket: impl AsFd,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); SPACE_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    let sent = rustix::io::retry_on_intr(|| {
        sendmsg(&socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)
    })?;
    // The kernel accepts a message of this size as a whole, or not at all.
    if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Fills `bytes`, and appends the descriptors that come with them. Returns false if the other end
/// closed before the first byte.
///
/// # Errors
/// The other end closed within the message, a read timed out, or the process has too many open
/// files to receive the descriptors.
pub(super) fn receive(
    socket: impl AsFd,
    bytes: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<bool> {
    let mut filled = 0;
    while let Some(rest @ [_, ..]) = bytes.get_mut(filled..) {
        let mut space = [MaybeUninit::uninit(); SPACE_BYTES];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::io::retry_on_intr(|| {
            recvmsg(&socket, &mut [IoSliceMut::new(rest)], &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                descriptors.extend(passed);
            }
        }
        if got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other(
                "this process has too many open files to receive descriptors",
            ));
        }
        match got.bytes {
            0 if filled == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_arrive_in_their_order_with_the_bytes_that_they_came_with() {
        let (one, other) = UnixStream::pair().unwrap();
        assert!(is_of_our_user(&one));
        let files: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap().0).collect();
        let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        send(&one, b"plain", &[]).unwrap();
        send(&one, b"first", &borrowed[..1]).unwrap();
        send(&one, b"more", &borrowed[1..]).unwrap();
        drop(one);
        let mut passed = Vec::new();
        for (text, count) in [("plain", 0), ("first", 1), ("more", 3)] {
            let mut bytes = vec![0; text.len()];
            assert!(receive(&other, &mut bytes, &mut passed).unwrap(), "{text}");
            assert_eq!((bytes, passed.len()), (text.as_bytes().to_vec(), count));
        }
        for (file, passed) in files.iter().zip(&passed) {
            let inode = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).unwrap().st_ino;
            assert_eq!(inode(file.as_fd()), inode(passed.as_fd()));
            let flags = rustix::io::fcntl_getfd(passed).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        assert!(!receive(&other, &mut [0], &mut passed).unwrap(), "it is closed");
    }

    /// The handover depends on this behaviour of the kernel.
    #[test]
    fn after_closing_its_reading_side_a_process_gets_only_the_bytes_sent_before() {
        let (one, other) = UnixStream::pair().unwrap();
        send(&one, b"before", &[]).unwrap();
        other.shutdown(std::net::Shutdown::Read).unwrap();
        assert!(send(&one, b"after", &[]).is_err());
        let mut bytes = [0; 6];
        assert!(receive(&other, &mut bytes, &mut Vec::new()).unwrap());
        assert_eq!(&bytes, b"before");
        assert!(!receive(&other, &mut [0], &mut Vec::new()).unwrap());
    }
}
