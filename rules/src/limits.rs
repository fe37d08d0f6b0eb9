//! Limits of the language, each with its reason. None is a setting: a file beyond them is most
//! likely not a rule file.

/// Bytes of a file: enough for four thousand rules of usual size.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Bytes of a line: enough for a set of some thousand addresses. People cannot read longer lines.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Rules in a file. Every request evaluates each rule of its hook.
pub const RULES_PER_FILE_MAX: usize = 4096;

/// Conditions of a rule, including those of its branches and nested `if`s. They form a tree as deep
/// as its number of members, which recursive functions walk.
pub const CONDITIONS_PER_RULE_MAX: usize = 256;

/// Depth of nested `if`s and of nested `%{GROUP}`s. The language promises ten.
pub const NESTING_MAX: usize = 10;

/// Bytes of a compiled regex. A Unicode class takes some KiB; only nested counted repetitions take
/// more than this.
pub const REGEX_BYTES_MAX: usize = 1 << 20;

/// Bytes of all compiled regexes of a file, counted in steps of [`REGEX_SIZES`]. Thousands of
/// regexes near their own limit would take gigabytes, and half a minute to read.
pub const REGEXES_BYTES_MAX: usize = 32 << 20;

/// Size limits that are tried for a regex, in this order; the regex is charged the sum of the tried
/// ones. Even the smallest regex takes some KiB.
pub const REGEX_SIZES: [usize; 4] = [4 << 10, 32 << 10, 256 << 10, REGEX_BYTES_MAX];

/// Findings that are reported; the last one says that there are more.
pub const FINDINGS_MAX: usize = 200;

/// Bytes of a regex's lazily built automaton, per worker. Requests fill it; beyond this size it is
/// cleared and built again.
pub const REGEX_CACHE_BYTES_MAX: usize = 256 << 10;

/// Bytes of field lines that rules may add to a head beyond the limit for received heads.
pub const RULED_BYTES_MAX: u32 = 64 << 10;

/// Field lines that rules may add.
pub const RULED_LINE_COUNT_MAX: u32 = 1000;
