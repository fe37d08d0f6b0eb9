//! The hosts of rules, some of which are regular expressions.

use forebay_rules::pattern::PatternCompiler;

/// The hosts to which a rule applies.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum RuleHosts {
    Name(String),
    /// Each name below this one.
    Below(String),
    /// Each host.
    Any,
    /// Each host without another rule for the path.
    Rest,
    /// Hosts that match an expression, which cannot be listed.
    Matching(String),
}

/// Names that one expression may stand for.
const NAMES_MAX: usize = 32;

/// Expressions that match each host.
const ANY: &[&str] = &["(.*)", ".*", "(.+)", ".+", "^.*$", "^(.*)$"];

/// Expressions before a name, which match each label or labels.
const LABELS: &[&str] =
    &["(.*)\\.", ".*\\.", "(.+)\\.", ".+\\.", "([^.]+)\\.", "[^.]+\\.", "([^.]*)\\.", "(\\w+)\\."];

impl RuleHosts {
    /// Whether each host of another pattern belongs to this one.
    pub(super) fn covers(&self, other: &RuleHosts) -> bool {
        match (self, other) {
            (RuleHosts::Any | RuleHosts::Rest, _) => true,
            (RuleHosts::Matching(regex), RuleHosts::Name(name)) => may_match(regex, name),
            // Some of these hosts may match.
            (RuleHosts::Matching(_), _) => true,
            (RuleHosts::Below(zone), RuleHosts::Name(name) | RuleHosts::Below(name)) => {
                self == other || name.strip_suffix(zone).is_some_and(|rest| rest.ends_with('.'))
            }
            _ => self == other,
        }
    }

    /// The name in `names` of a site.
    pub(super) fn site_name(&self) -> String {
        match self {
            RuleHosts::Name(name) => name.clone(),
            RuleHosts::Below(name) => format!("*.{name}"),
            RuleHosts::Any | RuleHosts::Rest | RuleHosts::Matching(_) => "*".to_owned(),
        }
    }
}

/// Whether an expression may match a host.
pub(super) fn may_match(regex: &str, name: &str) -> bool {
    let compiled = PatternCompiler::default().compile(&format!("(?i){regex}"), false);
    // An expression that cannot be compiled might match anything.
    compiled.ok().flatten().is_none_or(|regex| regex.is_match(name.as_bytes()))
}

/// The hosts of a regular expression; `None` if they cannot be enumerated.
pub(super) fn patterns(regex: &str) -> Option<Vec<RuleHosts>> {
    if ANY.contains(&regex) {
        return Some(vec![RuleHosts::Any]);
    }
    let text = regex.strip_prefix('^').unwrap_or(regex);
    let text = text.strip_suffix('$').unwrap_or(text);
    if let Some(rest) = LABELS.iter().find_map(|labels| text.strip_prefix(labels)) {
        let names = enumerate(rest)?;
        return Some(names.into_iter().map(RuleHosts::Below).collect());
    }
    Some(enumerate(text)?.into_iter().map(RuleHosts::Name).collect())
}

/// The texts of an expression of literals and groups such as `(a|b)` and `(www\.)?`.
fn enumerate(text: &str) -> Option<Vec<String>> {
    let mut found = vec![String::new()];
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let choices = if c == '(' {
            let end = rest.find(')')?;
            let inner = rest.get(1..end)?;
            rest = rest.get(end + 1..)?;
            let inner = inner.strip_prefix("?:").unwrap_or(inner);
            let mut choices = Vec::new();
            for choice in inner.split('|') {
                choices.push(literal(choice)?);
            }
            if let Some(behind) = rest.strip_prefix('?') {
                rest = behind;
                choices.push(String::new());
            }
            choices
        } else {
            let end = rest.find('(').unwrap_or(rest.len());
            let choice = literal(rest.get(..end)?)?;
            rest = rest.get(end..)?;
            vec![choice]
        };
        let extended = found
            .iter()
            .flat_map(|head| choices.iter().map(move |choice| format!("{head}{choice}")));
        found = extended.collect();
        if found.len() > NAMES_MAX {
            return None;
        }
    }
    let is_name = |name: &String| {
        let is_label = |label: &str| !label.is_empty() && !label.starts_with('-');
        name.split('.').all(is_label)
    };
    found.sort();
    found.dedup();
    found.iter().all(is_name).then_some(found)
}

/// The text of an expression without operators. A dot stands for itself: that a name with another
/// character in its place matches too is a mistake in the source.
fn literal(text: &str) -> Option<String> {
    let text = text.replace("\\.", ".").replace("\\-", "-");
    let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    text.chars().all(is_name).then(|| text.to_ascii_lowercase())
}
