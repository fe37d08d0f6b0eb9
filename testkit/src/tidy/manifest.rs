//! Parses the dependencies in manifests, and checks that each line gives its reason.

use super::Problem;

/// One line that names a dependency.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// Line number, counted from 1.
    pub(super) line: usize,
    pub(super) section: Section,
    pub(super) has_reason: bool,
}

/// The kind of dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// A dependency of the crate itself or of its build script.
    Normal,
    /// A dependency of its tests.
    Dev,
}

/// Reports foreign dependencies without a reason in the same line or in the line above.
pub(super) fn reasons(path: &str, text: &str) -> Vec<Problem> {
    let unexplained = dependencies(text)
        .into_iter()
        .filter(|dependency| !dependency.has_reason && !dependency.name.starts_with("forebay"));
    unexplained
        .map(|dependency| {
            let message = format!("{} is a dependency without a reason", dependency.name);
            Problem::new(path, dependency.line, "reason", message)
        })
        .collect()
}

/// Returns the dependencies of all sections.
pub(super) fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut section = None;
    let (mut depth, mut above) = (0usize, "");
    for (index, line) in text.lines().enumerate() {
        let content = line.split(" #").next().unwrap_or_default();
        let is_start = depth == 0;
        let count = |marks: [char; 2]| content.matches(marks).count();
        if is_start && line.starts_with('[') {
            section = section_of(line);
        } else if is_start && let (Some(section), Some(name)) = (section, name_of(content)) {
            let has_reason = line.contains(" # ") || above.starts_with("# ");
            found.push(Dependency { name, line: index + 1, section, has_reason });
        }
        depth = (depth + count(['[', '{'])).saturating_sub(count([']', '}']));
        above = line;
    }
    found
}

fn section_of(header: &str) -> Option<Section> {
    let name = header.trim().trim_matches(['[', ']']);
    match name.rsplit('.').next().unwrap_or_default() {
        "dependencies" | "build-dependencies" => Some(Section::Normal),
        "dev-dependencies" => Some(Section::Dev),
        _ => None,
    }
}

fn name_of(line: &str) -> Option<String> {
    let (name, _) = line.split_once('=')?;
    let name = name.trim().split('.').next().unwrap_or_default().trim_matches('"');
    (!name.is_empty() && !name.starts_with('#')).then(|| name.to_string())
}
