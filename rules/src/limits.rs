//! Limits of the language, each with its reason. None is a setting: who needs more has, in all
//! likelihood, given the wrong file.

/// Bytes of a file. Four thousand rules of usual size; a larger file is some other file.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Bytes of a line: a set of some thousand addresses. Longer lines cannot be read by people.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Rules of a file. Each is looked at for every request at its hook.
pub const RULES_PER_FILE_MAX: usize = 4096;

/// Conditions of a rule, those of its branches and of its `if`s included. They are kept as a tree
/// that is as deep as it has members, and walked by functions that call themselves.
pub const CONDITIONS_PER_RULE_MAX: usize = 256;

/// Depth of `if` in `if`, and of `%{GROUP}` in `%{GROUP}`. Ten is what the language promises.
pub const NESTING_MAX: usize = 10;

/// Bytes of a compiled regex. A class of Unicode takes some KiB; what takes more than this has
/// counted repetitions in counted repetitions.
pub const REGEX_BYTES_MAX: usize = 1 << 20;

/// Bytes of all compiled regexes of a file, counted by [`REGEX_SIZES`]. Thousands of
/// regexes near their own limit would take gigabytes, and half a minute to read.
pub const REGEXES_BYTES_MAX: usize = 32 << 20;

/// Sizes that are tried for a regex, from the least; it counts as all of those together. Even the
/// smallest takes some KiB.
pub const REGEX_SIZES: [usize; 4] = [4 << 10, 32 << 10, 256 << 10, REGEX_BYTES_MAX];

/// Findings that are kept. More than anyone reads at once; the last one says that there are more.
pub const FINDINGS_MAX: usize = 200;

/// Bytes that a regex keeps of what it has worked out, each worker for itself: clients fill it, and
/// beyond it is thrown away and begun anew.
pub const REGEX_CACHE_BYTES_MAX: usize = 256 << 10;

/// Bytes of field lines that rules may add to a head, beyond what may be received.
pub const RULED_BYTES_MAX: u32 = 64 << 10;

/// Field lines that they may add.
pub const RULED_LINE_COUNT_MAX: u32 = 1000;
