//! `proxy_pass` with a path, which takes the place of the location's prefix.

use super::location::{LocationKind, NginxLocation};
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Writes the settings for the path that the origin gets.
///
/// # Errors
/// The reason for which routes cannot rewrite the path.
pub(super) fn write(
    source: &NginxSource<'_>,
    location: &NginxLocation<'_>,
    pass: &NginxDirective,
    path: &str,
    table: &mut TomlTable,
) -> Result<(), &'static str> {
    let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,:@".contains(&byte);
    let has_dots = path.split('/').any(|part| matches!(part, "." | ".."));
    if !path.bytes().all(is_path) || path.contains("//") || has_dots {
        return Err("the path of the URL has other characters than routes can add");
    }
    let own = location.path.as_str();
    let added = match location.kind {
        LocationKind::Regex => return Err("the path of the URL is that of no prefix"),
        LocationKind::Exact => {
            path.strip_suffix(own).ok_or("the path of one location cannot be replaced")?
        }
        _ if own.ends_with('/') && !path.ends_with('/') => {
            return Err("the path of the URL does not end with a slash, as the location does");
        }
        _ => path.trim_end_matches('/'),
    };
    let is_prefix = location.kind != LocationKind::Exact;
    if is_prefix && !own.ends_with('/') && path.ends_with('/') {
        let advice = "the origin gets one slash behind the path; nginx sends two, because the path \
                      of the URL ends with a slash, and the location does not";
        source.note(pass, advice);
    }
    if is_prefix && own != "/" {
        table.raw("origin_strip_prefix", "true");
    }
    if !added.is_empty() {
        table.text("origin_add_prefix", added);
    }
    Ok(())
}
