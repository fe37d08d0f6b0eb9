//! Which process wrote a file, told apart from a later one with the same number.

use std::fs;

/// A process: its number, when it started, and on which boot of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    /// Process number.
    pub pid: u32,
    /// When it started, in clock ticks since boot; 0 when the system does not tell.
    pub start_ticks: u64,
    /// The kernel's random id of this boot; zeros when the system does not tell.
    pub boot_id: [u8; 16],
}

impl Writer {
    /// The process that calls this.
    pub fn this_process() -> Self {
        let pid = std::process::id();
        Writer { pid, start_ticks: start_ticks(pid.into()).unwrap_or(0), boot_id: boot_id() }
    }

    /// Whether that process still runs on this machine, as far as this process can see it: from
    /// another pid namespace it looks dead.
    pub fn is_alive(&self) -> bool {
        self.boot_id == boot_id() && start_ticks(self.pid.into()) == Some(self.start_ticks)
    }
}

/// Field 22 of `/proc/PID/stat`. The second field is the program's name in parentheses, and may
/// itself hold spaces and parentheses, so fields are counted after the last one.
pub(crate) fn start_ticks(pid: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Zeros when the system does not tell.
pub(crate) fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    parse_boot_id(text.trim()).unwrap_or_default()
}

/// Bytes that can be had without swapping, as the kernel estimates; `None` if it does not tell.
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
    // In the order in which the digits are written, so that a dump of the file shows the same id.
    Some(std::array::from_fn(|i| (number >> (8 * (15 - i))) as u8))
}

#[cfg(test)]
mod tests {
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
}
