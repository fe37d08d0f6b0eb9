//! A setting, and how its value is read from TOML or from a flag.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeValue};

use super::suggest::{nearest, value_hint};
use super::units::{self, UnitError};

/// One setting: everything about it that `--help`, `docs/settings.md`, `config --defaults` and the
/// reader of configuration files need.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Name in the configuration file, such as `idle_ms_max`.
    pub name: &'static str,
    /// Type and limits of the value.
    pub kind: SettingKind,
    /// The default, in the syntax of a flag; `None` if a value is required.
    pub default: Option<&'static str>,
    /// The sections in which the setting may be given.
    pub scope: SettingScope,
    /// Whether a reload applies a new value; otherwise a restart is needed.
    pub reloads: bool,
    /// The meaning of the setting, in one or more sentences.
    pub doc: &'static str,
    /// The reason for the default or for the limits.
    pub reason: &'static str,
}

/// The sections in which a setting may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingScope {
    /// Before the first section; not as a flag.
    File,
    /// Before the first section.
    Server,
    /// In `[[site]]`.
    Site,
    /// In `[[site]]`; also before the first section, as a default for sites.
    PerSite,
    /// In `[[site.route]]`; also before the first section and in `[[site]]`, as a default for
    /// routes.
    Route,
    /// In `[[site.route]]` only.
    OneRoute,
    /// Before the first section, in `[[site]]` and in `[[site.route]]`; the values of all levels
    /// apply together.
    Everywhere,
}

/// Type of a value, with its limits.
#[derive(Clone, Copy, Debug)]
pub enum SettingKind {
    /// `"64KiB"` or a number of bytes.
    Bytes {
        /// Smallest allowed value.
        min: u64,
        /// Largest allowed value.
        max: u64,
    },
    /// `"250ms"` or a number of milliseconds.
    Milliseconds {
        /// Smallest allowed value.
        min: u64,
        /// Largest allowed value.
        max: u64,
    },
    /// `"10s"` or a number of seconds.
    Seconds {
        /// Smallest allowed value.
        min: u64,
        /// Largest allowed value.
        max: u64,
    },
    /// A whole number.
    Count {
        /// Smallest allowed value.
        min: u64,
        /// Largest allowed value.
        max: u64,
        /// The unit of the count, for messages.
        unit: &'static str,
    },
    /// `true` or `false`.
    Bool,
    /// One of the given words.
    Choice(&'static [&'static str]),
    /// Text; the Rust type of the setting parses it.
    Text {
        /// Placeholder for the value in `--help`, such as `IP:PORT`.
        hint: &'static str,
        /// A description of valid values, for a message.
        expected: &'static str,
    },
    /// An array of texts.
    Texts {
        /// A description of valid values, for a message.
        expected: &'static str,
    },
}

/// A value as it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RawValue<'a> {
    /// The value of a flag: text, whatever the type of the setting.
    Flag(&'a str),
    /// TOML string.
    Text(&'a str),
    /// TOML integer; `i128::MAX` stands for a number outside the range of `i128`.
    Integer(i128),
    /// TOML boolean.
    Bool(bool),
    /// TOML array.
    Array(&'a DeArray<'a>),
    /// A value of another TOML type: the type's name with its article.
    Other(&'static str),
}

/// An error of a value, without its position, which the reader adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueProblem {
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
    pub(crate) hint: Option<String>,
    /// Whether the value may be a secret, so that its line is shown without it.
    pub(crate) is_secret: bool,
    /// The bytes of the value of an unknown setting, which may be a secret. They are hidden
    /// wherever their line is shown. An empty range stands for the line behind its next `=`.
    pub(crate) hidden: Option<Range<usize>>,
}

/// A type of setting values, which are read from a file or a flag.
pub(crate) trait Readable: Sized {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem>;
}

impl ValueProblem {
    pub(crate) fn new(message: impl Into<String>) -> ValueProblem {
        let message = message.into();
        ValueProblem { message, expected: None, hint: None, is_secret: false, hidden: None }
    }

    /// Hides the value in the line that is shown.
    pub(crate) fn secret(self) -> ValueProblem {
        ValueProblem { is_secret: true, ..self }
    }

    /// Hides these bytes in every line that is shown.
    pub(crate) fn hide(self, value: Range<usize>) -> ValueProblem {
        ValueProblem { hidden: Some(value), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> ValueProblem {
        ValueProblem { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn expected(self, expected: impl Into<String>) -> ValueProblem {
        ValueProblem { expected: Some(expected.into()), ..self }
    }
}

impl Setting {
    /// Returns the name of the flag, without the leading dashes.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Returns a problem with this setting's value, including a description of valid values.
    pub(crate) fn problem(&self, what: impl std::fmt::Display) -> ValueProblem {
        ValueProblem::new(format!("`{}` {what}", self.name)).expected(self.kind.expected())
    }

    fn wrong_type(&self, raw: RawValue<'_>) -> ValueProblem {
        let found = match raw {
            RawValue::Flag(_) | RawValue::Text(_) => "text",
            RawValue::Integer(_) => "a number",
            RawValue::Bool(_) => "a boolean",
            RawValue::Array(_) => "an array",
            RawValue::Other(name) => name,
        };
        self.with_value_hint(self.problem(format_args!("cannot be {found}")), raw)
    }

    /// Adds the hint for a value that is a typical mistake with this setting.
    fn with_value_hint(&self, problem: ValueProblem, raw: RawValue<'_>) -> ValueProblem {
        match value_hint(self.name, raw) {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }

    /// Returns the text of a value; a value of another type is a problem.
    pub(crate) fn text<'a>(&self, raw: RawValue<'a>) -> Result<&'a str, ValueProblem> {
        match raw {
            RawValue::Flag("") | RawValue::Text("") => Err(self.problem("is empty")),
            RawValue::Flag(text) | RawValue::Text(text) => Ok(text),
            RawValue::Integer(_) => {
                Err(self.wrong_type(raw).hint("put the value in double quotes"))
            }
            RawValue::Bool(false) if self.kind.expected().contains("off") => {
                Err(self.wrong_type(raw).hint("write \"off\""))
            }
            RawValue::Array(array) => {
                let problem = self.wrong_type(raw);
                let mut texts = array.iter().map(|element| element.get_ref().as_str());
                match (texts.next().flatten(), texts.next()) {
                    (Some(text), None) => Err(problem.hint(format!("write {text:?}"))),
                    _ => Err(problem),
                }
            }
            RawValue::Bool(_) | RawValue::Other(_) => Err(self.wrong_type(raw)),
        }
    }

    /// Returns the texts of a [`SettingKind::Texts`]. In a flag, commas separate the texts, and
    /// `none` means an empty list.
    pub(crate) fn texts<'a>(&self, raw: RawValue<'a>) -> Result<Vec<&'a str>, ValueProblem> {
        match raw {
            RawValue::Flag("none") => Ok(Vec::new()),
            RawValue::Flag(text) => {
                Ok(text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect())
            }
            RawValue::Array(array) => array.iter().map(|element| self.element(element)).collect(),
            RawValue::Text(text) => {
                Err(self.problem("is not an array").hint(format!("write [{text:?}]")))
            }
            _ => Err(self.problem("is not an array")),
        }
    }

    fn element<'a>(&self, element: &'a Spanned<DeValue<'a>>) -> Result<&'a str, ValueProblem> {
        match element.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self
                .problem("has an element that is not text")
                .hint("put each element in double quotes")),
        }
    }

    /// Returns the index of the value among the words of a [`SettingKind::Choice`].
    pub(crate) fn choice(&self, raw: RawValue<'_>) -> Result<usize, ValueProblem> {
        let SettingKind::Choice(words) = self.kind else {
            return Err(self.wrong_type(raw));
        };
        let text = self.text(raw)?;
        words.iter().position(|word| *word == text).ok_or_else(|| {
            let problem = self.problem(format_args!("cannot be {text:?}"));
            let lower = text.to_ascii_lowercase();
            // `warning` stands for `warn`, and `err` for `error`.
            let is_part = |word: &&str| {
                lower.len() > 2 && (lower.starts_with(*word) || word.starts_with(&lower))
            };
            let near = nearest(&lower, words.iter().copied());
            match near.or_else(|| words.iter().copied().find(is_part)) {
                Some(word) => problem.hint(format!("did you mean {word:?}?")),
                None => problem,
            }
        })
    }

    fn number(&self, raw: RawValue<'_>) -> Result<u64, ValueProblem> {
        let Some((min, max)) = self.kind.range() else {
            return Err(self.wrong_type(raw));
        };
        let (value, shown) = match raw {
            RawValue::Integer(number) => (number, number.to_string()),
            RawValue::Text(text) | RawValue::Flag(text) => {
                (self.quantity(text, raw)?.into(), text.to_owned())
            }
            RawValue::Bool(_) | RawValue::Array(_) | RawValue::Other(_) => {
                return Err(self.wrong_type(raw));
            }
        };
        match u64::try_from(value) {
            Ok(value) if (min..=max).contains(&value) => Ok(value),
            _ if value < i128::from(min) => {
                let problem = self.problem(format_args!("is too small: {shown}"));
                let mib = u64::try_from(value).ok().and_then(|value| value.checked_mul(1 << 20));
                let mib = mib.filter(|mib| (min..=max).contains(mib));
                match (self.kind, raw, mib) {
                    (SettingKind::Bytes { .. }, RawValue::Integer(_), Some(_)) => Err(problem
                        .hint(format!(
                            "a number without a unit counts bytes; did you mean \"{shown}MiB\"?"
                        ))),
                    _ => Err(self.with_value_hint(problem, raw)),
                }
            }
            _ => Err(self.problem(format_args!("is too large: {shown}"))),
        }
    }

    fn quantity(&self, text: &str, raw: RawValue<'_>) -> Result<u64, ValueProblem> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = match self.kind {
            SettingKind::Bytes { .. } => units::parse_bytes(text),
            SettingKind::Milliseconds { .. } | SettingKind::Seconds { .. }
                if is_number && !matches!(text, "" | "0") && matches!(raw, RawValue::Text(_)) =>
            {
                let problem = self.problem(format_args!("has no unit: {text:?}"));
                let or_ms = match self.kind {
                    SettingKind::Milliseconds { .. } => {
                        format!(", or \"{text}ms\" for milliseconds")
                    }
                    _ => String::new(),
                };
                return Err(problem.hint(format!("write \"{text}s\" for seconds{or_ms}")));
            }
            SettingKind::Milliseconds { .. } => units::parse_duration(text, "ms"),
            SettingKind::Seconds { .. } => match units::parse_duration(text, "s") {
                Ok(ms) if ms % 1000 != 0 => {
                    let problem =
                        self.problem(format_args!("is not a whole number of seconds: {text:?}"));
                    return Err(problem.hint("write a number of seconds, such as \"1s\""));
                }
                parsed => parsed.map(|ms| ms / 1000),
            },
            _ => match (text.parse::<u64>(), raw) {
                (Ok(_), RawValue::Text(_)) => {
                    let hint = format!("write {text} without quotes");
                    return Err(self.wrong_type(raw).hint(hint));
                }
                (parsed, _) => parsed.map_err(|_| UnitError::NotANumber),
            },
        };
        parsed.map_err(|error| self.unit_problem(text, error))
    }

    fn unit_problem(&self, text: &str, error: UnitError) -> ValueProblem {
        match error {
            UnitError::TooLarge => self.problem(format_args!("is too large: {text}")),
            UnitError::Unit(Some(meant)) => self
                .problem(format_args!("has an unknown unit: {text:?}"))
                .hint(format!("did you mean {meant:?}?")),
            UnitError::Unit(None) => self
                .problem(format_args!("has an unknown unit: {text:?}"))
                .hint(self.meant(text).unwrap_or(self.kind.units().to_owned())),
            UnitError::NotANumber => {
                let problem = self.problem(format_args!("is not a whole number: {text:?}"));
                match self.kind {
                    SettingKind::Count { .. } => match text {
                        "auto" | "default" => {
                            problem.hint("to get the default, leave the setting out")
                        }
                        "max" | "unlimited" | "none" => {
                            let most = self.kind.range().map_or(u64::MAX, |(_, max)| max);
                            problem.hint(format!("the largest value is {most}"))
                        }
                        _ => problem.hint("write a number without quotes and without a unit"),
                    },
                    _ => problem.hint(self.meant(text).unwrap_or(self.kind.units().to_owned())),
                }
            }
        }
    }

    /// Returns a hint with the quantity that a text such as `1.5GiB` or `1h30m` means, if it is
    /// an allowed value.
    fn meant(&self, text: &str) -> Option<String> {
        let (min, max) = self.kind.range()?;
        let meant = match self.kind {
            SettingKind::Bytes { .. } => units::meant_bytes(text)?,
            _ => units::meant_duration(text)?,
        };
        let unit = if matches!(self.kind, SettingKind::Seconds { .. }) { 1000 } else { 1 };
        let is_allowed = meant.is_multiple_of(unit) && (min..=max).contains(&(meant / unit));
        is_allowed.then(|| format!("did you mean \"{}\"?", self.kind.show(meant / unit)))
    }
}

impl SettingKind {
    /// Returns the smallest and the largest allowed number; `None` if the value is not a number.
    pub fn range(&self) -> Option<(u64, u64)> {
        match *self {
            SettingKind::Bytes { min, max }
            | SettingKind::Milliseconds { min, max }
            | SettingKind::Seconds { min, max }
            | SettingKind::Count { min, max, .. } => Some((min, max)),
            _ => None,
        }
    }

    /// Returns a number of this kind as text, in its largest unit that gives a whole number:
    /// `64KiB`, `10s`.
    pub(crate) fn show(&self, value: u64) -> String {
        match self {
            SettingKind::Bytes { .. } => units::format_bytes(value),
            SettingKind::Milliseconds { .. } => units::format_duration(value),
            SettingKind::Seconds { .. } => units::format_duration(value.saturating_mul(1000)),
            _ => value.to_string(),
        }
    }

    /// Returns the placeholder for the value in `--help`, such as `SIZE`.
    pub fn value_hint(&self) -> String {
        match self {
            SettingKind::Bytes { .. } => "SIZE".to_owned(),
            SettingKind::Milliseconds { .. } | SettingKind::Seconds { .. } => "DURATION".to_owned(),
            SettingKind::Count { .. } => "N".to_owned(),
            SettingKind::Bool => "true|false".to_owned(),
            SettingKind::Choice(words) => words.join("|"),
            SettingKind::Text { hint, .. } => (*hint).to_owned(),
            SettingKind::Texts { .. } => "TEXT,…".to_owned(),
        }
    }

    /// Returns a description of valid values, in words that can follow "expected:".
    pub(crate) fn expected(&self) -> String {
        let what = match self {
            SettingKind::Bytes { .. } => "a size",
            SettingKind::Milliseconds { .. } | SettingKind::Seconds { .. } => "a duration",
            SettingKind::Count { unit, .. } => unit,
            SettingKind::Bool => return "true or false".to_owned(),
            SettingKind::Choice(words) => return format!("one of {}", words.join(", ")),
            SettingKind::Text { expected, .. } | SettingKind::Texts { expected } => {
                return (*expected).to_owned();
            }
        };
        let (min, max) = self.range().unwrap_or_default();
        match self {
            SettingKind::Count { .. } => format!("{min} to {max} {what}").trim_end().to_owned(),
            _ => format!("{what} from {} to {}", self.show(min), self.show(max)),
        }
    }

    fn units(&self) -> &'static str {
        match self {
            SettingKind::Bytes { .. } => {
                "write a whole number and B, KiB, MiB, GiB or TiB, such as \"64KiB\""
            }
            _ => "write a whole number and ms, s, m, h or d, such as \"10s\"",
        }
    }

    /// Whether TOML needs quotes around values of this kind: words, text, and numbers with a unit.
    pub(crate) fn is_quoted(&self) -> bool {
        !matches!(self, SettingKind::Count { .. } | SettingKind::Bool | SettingKind::Texts { .. })
    }
}

macro_rules! readable_numbers {
    ($($type:ty),*) => {$(
        impl Readable for $type {
            fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
                let value = setting.number(raw)?;
                <$type>::try_from(value).map_err(|_| setting.problem("is too large"))
            }
        }
    )*};
}

readable_numbers!(u8, u16, u32, u64, usize);

impl Readable for bool {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        match raw {
            RawValue::Bool(value) => Ok(value),
            RawValue::Flag("true") => Ok(true),
            RawValue::Flag("false") => Ok(false),
            RawValue::Text("true" | "false") => {
                Err(setting.wrong_type(raw).hint("write the value without quotes"))
            }
            RawValue::Flag(text) => Err(setting.problem(format_args!("cannot be {text:?}"))),
            _ => Err(setting.wrong_type(raw)),
        }
    }
}
