//! Preserving the program's `errno`: after a hook it is as the real function left it.

/// Runs work that may change errno, such as waiting for another thread, and restores errno.
#[cold]
pub(crate) fn preserved<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the call only returns the address of errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: errno is this thread's own, and lives as long as the thread.
    let before = unsafe { errno.read() };
    let made = work();
    // SAFETY: as above.
    unsafe { errno.write(before) };
    made
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn errno_is_preserved() {
        let fail = |path: &std::ffi::CStr| {
            // SAFETY: the argument is a C string.
            assert_eq!(unsafe { libc::chdir(path.as_ptr()) }, -1);
        };
        fail(c"/no such directory");
        assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::ENOENT));
        preserved(|| fail(c"/dev/null"));
        assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::ENOENT));
    }
}
