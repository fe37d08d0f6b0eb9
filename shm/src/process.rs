//! The identity of the process that wrote a file, distinct from a later process with the same
//! number.

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use crate::map::{WORD_BYTES, Words};

/// The identity of a process: its number, its start time, and the boot of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    /// The process number.
    pub pid: u32,
    /// The start time of the process, in clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
    /// The kernel's random id of this boot; zeros if unknown.
    pub boot_id: [u8; 16],
}

impl Writer {
    /// The calling process.
    pub fn this_process() -> Self {
        let pid = std::process::id();
        Writer { pid, start_ticks: start_ticks(pid.into()).unwrap_or(0), boot_id: boot_id() }
    }

    /// Whether the process still runs on this machine. A process of another pid namespace looks
    /// dead.
    pub fn is_alive(&self) -> bool {
        let stat = stat_fields(self.pid.into());
        self.boot_id == boot_id()
            && stat.is_some_and(|stat| {
                start_ticks_in(&stat) == Some(self.start_ticks) && !has_ended(&stat)
            })
    }
}

/// The number of this process, without a system call: for code that checks at each operation
/// whether it runs in a forked child.
#[inline]
pub fn process_id() -> u32 {
    static PAGE: OnceLock<Option<Words>> = OnceLock::new();
    let Some(page) = PAGE.get_or_init(page_of_this_process) else {
        return std::process::id();
    };
    let word = &page.all()[0];
    match word.load(Relaxed) {
        0 => {
            let pid = std::process::id();
            word.store(pid.into(), Relaxed);
            pid
        }
        pid => pid as u32,
    }
}

/// A page that the kernel clears in children.
fn page_of_this_process() -> Option<Words> {
    let page = Words::anonymous(&[], WORD_BYTES).ok()?;
    page.clear_in_children().ok().map(|()| page)
}

/// The start time of a process in clock ticks since boot: field 22 of `/proc/PID/stat`.
pub(crate) fn start_ticks(pid: u64) -> Option<u64> {
    start_ticks_in(&stat_fields(pid)?)
}

/// Fields 3 and following of `/proc/PID/stat`. The second field is the program's name in
/// parentheses, and may itself contain spaces and parentheses. So the fields are counted from the
/// last closing parenthesis.
fn stat_fields(pid: u64) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')').map(|(_, fields)| fields.to_owned())
}

fn start_ticks_in(fields: &str) -> Option<u64> {
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether the process has ended. The number of a process stays in use after its end, until the
/// parent has waited for it.
fn has_ended(fields: &str) -> bool {
    matches!(fields.split_ascii_whitespace().next(), Some("Z" | "X"))
}

/// The kernel's random id of this boot; zeros if unknown.
pub(crate) fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    parse_boot_id(text.trim()).unwrap_or_default()
}

/// The bytes that are available without swapping, by the kernel's estimate; `None` if unknown.
#[cfg(not(loom))]
pub(crate) fn available_memory() -> Option<u64> {
    parse_available(&fs::read_to_string("/proc/meminfo").ok()?)
}

#[cfg(not(loom))]
fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    // In the order of the written digits, so that a dump of the file shows the same id.
    Some(std::array::from_fn(|i| (number >> (8 * (15 - i))) as u8))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::*;

    #[test]
    fn a_boot_id_keeps_the_order_of_its_digits() {
        let id = parse_boot_id("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        assert_eq!(id[..4], [0x00, 0x11, 0x22, 0x33]);
        assert_eq!(id[15], 0xff);
        assert_eq!(parse_boot_id("not an id"), None);
    }

    #[cfg(not(loom))]
    #[test]
    fn available_memory_is_read_in_bytes() {
        let text = "MemTotal:  16 kB\nMemAvailable:     8123 kB\nBuffers: 1 kB\n";
        assert_eq!(parse_available(text), Some(8123 * 1024));
        assert_eq!(parse_available("MemTotal:  16 kB\n"), None);
        assert!(available_memory().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn this_process_is_alive_and_its_namesake_of_another_time_is_not() {
        let us = Writer::this_process();
        assert_ne!(us.start_ticks, 0);
        assert!(us.is_alive());
        assert!(!Writer { start_ticks: us.start_ticks + 1, ..us }.is_alive());
        assert!(!Writer { boot_id: [7; 16], ..us }.is_alive());
    }

    #[test]
    fn a_process_that_nobody_has_waited_for_is_not_alive() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let start_ticks = start_ticks(pid.into()).unwrap();
        let writer = Writer { pid, start_ticks, boot_id: boot_id() };
        assert!(writer.is_alive());
        drop(child.stdin.take());
        let left = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), left).unwrap();
        assert!(!writer.is_alive());
        assert_eq!(
            super::start_ticks(pid.into()),
            Some(start_ticks),
            "the parent has not waited for the process"
        );
        child.wait().unwrap();
    }
}
