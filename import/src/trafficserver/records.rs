//! `records.config` and `records.yaml`.

use std::collections::BTreeMap;

use super::lines::ConfigLine;
use super::source::SourceLine;
use super::yaml::{YamlNode, YamlValue};
use crate::ImportError;

/// Beginning of the names of all settings.
const PREFIX: &str = "proxy.config.";

/// Settings without their prefix `proxy.config.`.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordValues {
    values: BTreeMap<String, (String, SourceLine)>,
}

impl RecordValues {
    /// Reads the lines of `records.config`. A later line replaces an earlier one.
    ///
    /// # Errors
    /// A line is no setting.
    pub(super) fn read(&mut self, lines: &[ConfigLine]) -> Result<(), ImportError> {
        for line in lines {
            let is_local = line.word(0) == "LOCAL";
            let is_kind = matches!(line.word(2), "INT" | "FLOAT" | "STRING" | "COUNTER");
            if !(is_local || line.word(0) == "CONFIG") || !is_kind {
                let message = "expected CONFIG, a name, INT, FLOAT or STRING, and a value";
                return Err(line.at.error(1, message));
            }
            let value = line.words.get(3..).unwrap_or_default().join(" ");
            self.set(line.word(1), &value, &line.at);
        }
        Ok(())
    }

    /// Reads `records.yaml`: maps below `records` (10.0) or `ts`.
    ///
    /// # Errors
    /// The file has another form.
    pub(super) fn read_yaml(&mut self, root: &YamlNode) -> Result<(), ImportError> {
        let Some(records) = root.get("records").or_else(|| root.get("ts")) else {
            return Err(root.at.error(1, "expected a map with the name `records`"));
        };
        let mut open = vec![(String::new(), records)];
        while let Some((prefix, node)) = open.pop() {
            match &node.value {
                YamlValue::Map(pairs) => {
                    let inner = pairs.iter().rev();
                    open.extend(inner.map(|(name, node)| (format!("{prefix}{name}."), node)));
                }
                YamlValue::Text(text) => {
                    self.set(prefix.trim_end_matches('.'), text, &node.at);
                }
                YamlValue::List(list) => {
                    let texts: Vec<_> = list.iter().map(YamlNode::text).collect();
                    self.set(prefix.trim_end_matches('.'), &texts.join(" "), &node.at);
                }
            }
        }
        Ok(())
    }

    pub(super) fn set(&mut self, name: &str, value: &str, at: &SourceLine) {
        let name = name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
        let value = if matches!(value, "NULL" | "~" | "null") { "" } else { value };
        self.values.insert(name, (value.trim().to_owned(), at.clone()));
    }

    /// The value of a setting, or its default.
    pub(super) fn text<'r>(&'r self, name: &str, default: &'r str) -> &'r str {
        self.values.get(name).map_or(default, |(value, _)| value)
    }

    /// The value of a number or a switch; a number may have the unit K, M, G or T.
    pub(super) fn number(&self, name: &str, default: i64) -> i64 {
        self.own_number(name).unwrap_or(default)
    }

    /// The value, if the files have one that is a number.
    pub(super) fn own_number(&self, name: &str) -> Option<i64> {
        self.values.get(name).and_then(|(value, _)| number(value))
    }

    pub(super) fn line(&self, name: &str) -> Option<&SourceLine> {
        self.values.get(name).map(|(_, at)| at)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str, &SourceLine)> {
        self.values.iter().map(|(name, (value, at))| (name.as_str(), value.as_str(), at))
    }
}

/// A number with a unit, or the value of a switch.
pub(super) fn number(text: &str) -> Option<i64> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" => return Some(1),
        "false" | "off" | "no" => return Some(0),
        _ => {}
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)?.to_ascii_uppercase().as_str() {
        "" => 1,
        "K" | "KB" => 1 << 10,
        "M" | "MB" => 1 << 20,
        "G" | "GB" => 1 << 30,
        "T" | "TB" => 1_i64 << 40,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(unit)
}
