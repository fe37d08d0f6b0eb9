//! Checks that our names use one word for each idea, by a table of words to avoid.

use super::Problem;
use super::source::Source;

/// Words that our names avoid, with the words that they use instead.
const NOT_OURS: &[(&str, &str)] = &[
    ("alternate", "variant"),
    ("arena", "region"),
    ("asset", "stored response"),
    ("backend", "origin"),
    ("ban", "purge"),
    ("cacheable", "storable"),
    ("coalesce", "collapse"),
    ("cooldown", "inhibit_until"),
    ("downstream", "client"),
    ("expire", "evict, or stale"),
    ("expired", "stale"),
    ("expiry", "freshness_lifetime"),
    ("frontend", "client, or listener"),
    ("handler", "its task"),
    ("helper", "its task"),
    ("helpers", "their task"),
    ("manager", "its task"),
    ("partition", "shard"),
    ("recheck", "validate"),
    ("refresh", "validate"),
    ("remap", "site, or route"),
    ("slab", "segment"),
    ("stampede", "collapse"),
    ("stripe", "segment"),
    ("ttl", "freshness_lifetime"),
    ("upstream", "origin, or next_hop"),
    ("util", "its task"),
    ("utils", "their task"),
    ("variance", "secondary key"),
    ("vhost", "site"),
];

/// Names from the RFCs or std, which may contain the words that our names avoid.
const GIVEN: &[&str] = &["get_mut", "is_heuristically_cacheable"];

const KEYWORDS: &[&str] =
    &["const", "enum", "fn", "mod", "static", "struct", "trait", "type", "union"];

/// Checks the names that a file declares. In the table of settings that includes the settings.
pub(super) fn own_words(source: &Source) -> Vec<Problem> {
    let mut names = source.declared(KEYWORDS);
    if source.path.ends_with("config/table.rs") {
        names.extend(settings(source));
    }
    let mut problems = Vec::new();
    for (line, name) in names.into_iter().filter(|(_, name)| !GIVEN.contains(&name.as_str())) {
        let words = words_of(&name);
        for (word, ours) in NOT_OURS.iter().filter(|(word, _)| words.iter().any(|own| own == word))
        {
            let message = format!("{name}: not {word}; say {ours}");
            problems.push(Problem::new(&source.path, line + 1, "words", message));
        }
        if name.starts_with("get_") {
            let message = format!("{name}: the name of a getter must not begin with get_");
            problems.push(Problem::new(&source.path, line + 1, "words", message));
        }
    }
    problems
}

/// Returns the lines of the form `name: type = …`.
fn settings(source: &Source) -> Vec<(usize, String)> {
    let lines = source.code.iter().enumerate();
    lines
        .filter_map(|(index, line)| {
            let (name, rest) = line.trim().split_once(": ")?;
            let is_setting = rest.contains(" = ") && name.chars().all(super::source::is_word);
            is_setting.then(|| (index, name.to_string()))
        })
        .collect()
}

/// Splits a name into words: `head_bytes_max` and `HeadBytesMax` both become head, bytes, max.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        if c != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words
}
