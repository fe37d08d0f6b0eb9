//! Limits of the language. None of them is a setting, because a file that exceeds them is most
//! likely not a rule file.

/// Largest size of a file in bytes, which is enough for four thousand rules of usual size.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Largest length of a line in bytes, which is enough for a set of a few thousand addresses.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Largest number of rules in a file. A request may evaluate all rules of each hook that it passes.
pub const RULES_PER_FILE_MAX: usize = 4096;

/// Largest number of conditions in a rule, including those of its branches and nested `if`s. The
/// conditions form a tree that may be as deep as their number, and recursive functions walk that
/// tree.
pub const CONDITIONS_PER_RULE_MAX: usize = 256;

/// Largest depth of nested `if`s, and of nested `%{GROUP}`s. The language promises ten levels.
pub const NESTING_MAX: usize = 10;

/// Largest size of a compiled regex in bytes. A Unicode class takes a few KiB; only nested counted
/// repetitions exceed the limit.
pub const REGEX_BYTES_MAX: usize = 1 << 20;

/// Largest total size of all compiled regexes of a file in bytes, counted in steps of
/// [`REGEX_SIZES`]. Thousands of regexes near the limit for one regex would take gigabytes, and
/// half a minute to compile.
pub const REGEXES_BYTES_MAX: usize = 32 << 20;

/// Size limits in bytes that are tried for a regex, in this order. The regex is charged the sum of
/// the limits that were tried. Even the smallest regex takes a few KiB.
pub const REGEX_SIZES: [usize; 4] = [4 << 10, 32 << 10, 256 << 10, REGEX_BYTES_MAX];

/// Largest number of reported findings. One more finding says that the rest is omitted.
pub const FINDINGS_MAX: usize = 200;

/// Largest size in bytes of a regex's lazily built automaton, which each worker has. Requests
/// extend the automaton; when it exceeds this size, it is cleared and built again.
pub const REGEX_CACHE_BYTES_MAX: usize = 256 << 10;

/// Number of bytes by which the field lines of a head may exceed the limit for received heads after
/// rules have run.
pub const RULED_BYTES_MAX: u32 = 64 << 10;

/// Number of field lines by which a head may exceed the limit for received heads after rules have
/// run.
pub const RULED_LINE_COUNT_MAX: u32 = 1000;
