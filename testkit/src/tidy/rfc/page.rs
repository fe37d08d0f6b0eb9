//! Writes the page of requirements.

use std::collections::BTreeSet;

use super::Conformance;
use super::table::{Deviation, Requirement, Rfc, RfcSection};
use super::tags::RequirementTag;

const INTRO: &str = include_str!("intro.md");

pub(super) fn page(conformance: &Conformance) -> String {
    let rfcs = &conformance.rfcs;
    let mut page = format!("{INTRO}\n{}", summary(rfcs));
    for (deviation, title) in [
        (Deviation::NotFollowed, "Not followed"),
        (Deviation::Exception, "Followed with an exception"),
    ] {
        page += &format!("\n## {title}\n\n{}", deviations(rfcs, deviation));
    }
    for rfc in rfcs {
        page += &format!("\n## RFC {}: {}\n", rfc.number, rfc.title);
        for section in &rfc.sections {
            page += &table(conformance, section);
        }
    }
    page
}

fn summary(rfcs: &[Rfc]) -> String {
    let mut rows = String::from(
        "| RFC | requirements | followed | with an exception | not followed | not applicable |\n\
         |---|--:|--:|--:|--:|--:|\n",
    );
    let row = |name: &str, requirements: &[&Requirement]| {
        let of = |wanted| requirements.iter().filter(|one| one.deviation == wanted).count();
        format!(
            "| {name} | {} | {} | {} | {} | {} |\n",
            requirements.len(),
            of(None),
            of(Some(Deviation::Exception)),
            of(Some(Deviation::NotFollowed)),
            of(Some(Deviation::NotApplicable)),
        )
    };
    for rfc in rfcs {
        let name = format!("{} {}", rfc.number, rfc.title);
        rows += &row(&name, &rfc.requirements().collect::<Vec<_>>());
    }
    let all: Vec<_> = rfcs.iter().flat_map(Rfc::requirements).collect();
    rows + &row("all", &all)
}

fn deviations(rfcs: &[Rfc], wanted: Deviation) -> String {
    let all = rfcs.iter().flat_map(Rfc::requirements);
    let lines = all
        .filter(|one| one.deviation == Some(wanted))
        .map(|one| format!("- {}: {} {} *{}*\n", one.id, one.level, one.text, one.reason));
    let lines: String = lines.collect();
    if lines.is_empty() { "None.\n".into() } else { lines }
}

fn table(conformance: &Conformance, section: &RfcSection) -> String {
    let mut table = format!(
        "\n### §{} {}\n\n| | requirement | code | test |\n|---|---|---|---|\n",
        section.number, section.title
    );
    for requirement in &section.requirements {
        table += &row(conformance, requirement);
    }
    table
}

fn row(conformance: &Conformance, requirement: &Requirement) -> String {
    let Requirement { id, level, text, deviation, reason, .. } = requirement;
    let name = Deviation::ALL.iter().find(|(known, _)| Some(*known) == *deviation);
    let reason = name.map(|(_, name)| format!(" *{name}: {reason}*")).unwrap_or_default();
    let links = |is_test| links(conformance.tags_of(id, is_test));
    format!("| {id} | **{level}** {text}{reason} | {} | {} |\n", links(false), links(true))
}

fn links<'a>(tags: impl Iterator<Item = &'a RequirementTag>) -> String {
    let links: BTreeSet<String> = tags.map(link).collect();
    links.into_iter().collect::<Vec<_>>().join(", ")
}

/// Returns a link from `docs/` to the file of a tag.
fn link(tag: &RequirementTag) -> String {
    let file = tag.path.rsplit('/').next().unwrap_or_default();
    let name = match &tag.item {
        None => file.to_string(),
        Some(vector) if vector.contains(' ') => format!("{file}: {}", vector.replace('|', "\\|")),
        Some(item) => format!("{file}: `{item}`"),
    };
    format!("[{name}](../{})", tag.path)
}
