//! Flags, the default configuration file and `docs/settings.md`, generated from the table.

use std::fmt::Write;

use super::setting::{Setting, SettingKind};
use super::table::{
    self, INCLUDE, METHODS, PER_SITE, ROUTE, RULES, SERVER, SITE, WITH_COOKIES, WITH_FIELDS,
    WITH_QUERY,
};

/// A flag of `serve`, in the form that a command-line parser needs.
#[derive(Clone, Debug)]
pub struct Flag {
    /// The flag's name, without the leading dashes.
    pub name: String,
    /// Placeholder for the value.
    pub value_hint: String,
    /// Help text: the description of the setting, and its default.
    pub help: String,
    /// The setting that the flag sets.
    pub setting: &'static Setting,
}

/// Returns a flag for each setting that is allowed at the top of a configuration file.
pub fn flags() -> Vec<Flag> {
    let flag = |setting: &'static Setting| Flag {
        name: setting.flag(),
        value_hint: setting.kind.value_hint(),
        help: format!("{} [default: {}]", setting.doc, flag_default(setting)),
        setting,
    };
    table::top_level().map(flag).collect()
}

fn flag_default(setting: &Setting) -> &'static str {
    match (setting.kind, setting.default) {
        (SettingKind::Texts { .. }, Some("")) => "none",
        (_, default) => default.unwrap_or_default(),
    }
}

/// Returns a configuration file with every setting at its default, and one site as an example.
pub fn defaults_toml() -> String {
    let mut out = String::from(
        "# Every setting of Forebay with its default. Delete those that you do not change.\n",
    );
    let top = [&INCLUDE].into_iter().chain(table::top_level());
    top.for_each(|setting| write_setting(&mut out, setting, toml_default(setting)));
    out.push_str("\n# One section for each site.\n[[site]]\n");
    for setting in SITE {
        write_setting(&mut out, setting, example(setting).to_owned());
    }
    PER_SITE.iter().for_each(|setting| write_setting(&mut out, setting, toml_default(setting)));
    out.push_str(
        "\n# Settings for some paths of the site above. A setting that is left out here has the\n\
         # value that it has for the site.\n\
         [[site.route]]\n",
    );
    write_setting(&mut out, &table::PATH_PREFIX, example(&table::PATH_PREFIX).to_owned());
    write_setting(&mut out, &table::BEFORE_REGEX, toml_default(&table::BEFORE_REGEX));
    ROUTE.iter().for_each(|setting| write_setting(&mut out, setting, toml_default(setting)));
    out.push_str("\n# Another route of the site above, for one path.\n[[site.route]]\n");
    write_setting(&mut out, &table::PATH, example(&table::PATH).to_owned());
    out.push_str(
        "\n# Another route of the site above, for the paths of a pattern.\n[[site.route]]\n",
    );
    write_setting(&mut out, &table::PATH_REGEX, example(&table::PATH_REGEX).to_owned());
    out.push_str("\n# Another route of the site above, for some requests of its paths.\n");
    out.push_str("[[site.route]]\npath_prefix = \"/api/\"\n");
    for setting in [METHODS, WITH_FIELDS, WITH_QUERY, WITH_COOKIES] {
        write_setting(&mut out, &setting, example(&setting).to_owned());
    }
    out
}

fn write_setting(out: &mut String, setting: &Setting, value: String) {
    let _ = writeln!(out, "\n# {}\n# {}.", setting.doc, upper_first(&setting.kind.expected()));
    let _ = writeln!(out, "{} = {value}", setting.name);
}

fn toml_default(setting: &Setting) -> String {
    let default = setting.default.unwrap_or_default();
    if matches!(setting.kind, SettingKind::Texts { .. }) {
        let words: Vec<_> = default.split(',').filter(|word| !word.is_empty()).collect();
        return format!("{words:?}");
    }
    // The number 0 needs no unit, and so no quotes.
    match setting.kind.is_quoted() && default != "0" {
        true => format!("{default:?}"),
        false => default.to_owned(),
    }
}

fn example(setting: &Setting) -> &'static str {
    match setting.name {
        "name" => "\"example\"",
        "names" => "[\"example.org\", \"*.example.org\"]",
        "listen" => "[]",
        "origin" => "\"http://127.0.0.1:3000\"",
        "balance" => "\"round-robin\"",
        "path" => "\"/robots.txt\"",
        "methods" => "[\"POST\"]",
        "with_fields" => "[\"X-Api=2\"]",
        "with_query" => "[\"preview\"]",
        "with_cookies" => "[\"beta=1\"]",
        "path_regex" => "'\\.(jpg|png)$'",
        _ => "\"/static/\"",
    }
}

fn upper_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

/// The text of `docs/settings.md` above its tables.
const INTRODUCTION: &str = include_str!("settings_intro.md");

/// Returns the content of `docs/settings.md`.
pub fn settings_markdown() -> String {
    let mut out = INTRODUCTION.to_owned();
    markdown_table(&mut out, "Files: at the top of a file", &[INCLUDE]);
    markdown_table(&mut out, "The server: at the top of the file", SERVER);
    let per_site = "Logs and connections: at the top or in `[[site]]`; settings of origins also \
                    in a `[[site.route]]` with `origin`";
    markdown_table(&mut out, per_site, PER_SITE);
    markdown_table(&mut out, "Caching: at the top, in `[[site]]` or in `[[site.route]]`", ROUTE);
    markdown_table(&mut out, "Rules: at the top, in `[[site]]` and in `[[site.route]]`", &[RULES]);
    let site = "Sites: in `[[site]]`; `origin` and `balance` also in `[[site.route]]`";
    markdown_table(&mut out, site, SITE);
    let origins = "Origins: in `[[site.origin]]`, or in a table of the array `origin`";
    markdown_table(&mut out, origins, table::ORIGIN_TABLE);
    markdown_table(&mut out, "Routes: in `[[site.route]]`", table::ROUTE_ONLY);
    out
}

fn markdown_table(out: &mut String, title: &str, settings: &[Setting]) {
    let _ = writeln!(out, "\n## {title}\n");
    out.push_str("| setting | default | value | meaning | reason |\n|---|---|---|---|---|\n");
    for setting in settings {
        let default = setting.default.map_or("required".to_owned(), |text| match setting.kind {
            SettingKind::Texts { .. } => format!("`{}`", toml_default(setting)),
            _ => format!("`{text}`"),
        });
        let restart = if setting.reloads { "" } else { " *restart*" };
        let Setting { name, kind, doc, reason, .. } = setting;
        let value = value_column(kind);
        let _ = writeln!(out, "| `{name}`{restart} | {default} | {value} | {doc} | {reason} |");
    }
}

fn value_column(kind: &SettingKind) -> String {
    match kind {
        SettingKind::Choice(words) => format!("`{}`", words.join("`, `")),
        SettingKind::Bool => "`true`, `false`".to_owned(),
        SettingKind::Count { unit, .. } => {
            let (min, max) = kind.range().unwrap_or_default();
            format!("{min} to {max} {unit}")
        }
        _ => kind.expected(),
    }
}
