//! The code in this process's memory, for tools that translate return addresses to names.

use forebay_sync::profile::Profile;

/// A range of code in memory that is mapped from a file.
#[derive(Debug, PartialEq, Eq)]
struct Module<'a> {
    start: u64,
    end: u64,
    file_offset: u64,
    path: &'a str,
}

impl<'a> Module<'a> {
    /// Parses a line of `/proc/PID/maps`; `None` if the line cannot be parsed, or is not about code
    /// of a file.
    fn parse(line: &'a str) -> Option<Module<'a>> {
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let is_code = fields.next()?.as_bytes().get(2) == Some(&b'x');
        let file_offset = hex(fields.next()?)?;
        let path = fields.nth(2)?.trim_start();
        let module = Module { start: hex(start)?, end: hex(end)?, file_offset, path };
        (is_code && path.starts_with('/')).then_some(module)
    }
}

/// Reports all programs and libraries in memory to a profile. Lines of the system's list that
/// cannot be parsed are left out, so tools have no names for those addresses.
pub(crate) fn tell(profile: &Profile) {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    for module in maps.lines().filter_map(Module::parse) {
        profile.add_module(module.start, module.end, module.file_offset, module.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_a_module_and_nothing_else_is() {
        let module = Module { start: 0x7f00, end: 0x8f00, file_offset: 16, path: "/usr/a b.so" };
        for (line, expected) in [
            ("7f00-8f00 r-xp 00000010 fe:01 123                    /usr/a b.so", Some(module)),
            ("7f00-8f00 r--p 00000010 fe:01 123                    /usr/a b.so", None),
            ("7f00-8f00 r-xp 00000000 00:00 0                      [vdso]", None),
            ("7f00-8f00 r-xp 00000000 00:00 0 ", None),
            ("7f00-8f00 r-xp 00000000 00:00 0", None),
            ("7f00 r-xp 00000010 fe:01 123                         /usr/a", None),
            ("7f00-8f0g r-xp 00000010 fe:01 123                    /usr/a", None),
            ("", None),
        ] {
            assert_eq!(Module::parse(line), expected, "{line:?}");
        }
    }
}
