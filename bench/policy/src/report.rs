//! Results as tables in Markdown.

use std::fmt::Write;

use crate::policies::segments::Costs;
use crate::policies::{REFERENCE, SINGLE};
use crate::study::{OURS, Row};

/// Returns the hit ratios of all policies, and the difference of the segments from the reference.
pub(crate) fn hit_ratios(rows: &[Row]) -> String {
    let mut text = String::from("| trace | budget |");
    let names = || SINGLE.iter().map(|entry| entry.name).chain([OURS]);
    names().for_each(|name| push(&mut text, format_args!(" {name} |")));
    push(&mut text, format_args!(" {OURS} − {REFERENCE} |\n|---|--:|"));
    names().chain([""]).for_each(|_| text.push_str("--:|"));
    text.push('\n');
    for row in rows {
        push(&mut text, format_args!("| {} | {} % |", row.trace, row.budget_percent));
        for score in names().map(|name| row.score(name)) {
            match score {
                Some(score) => push(&mut text, format_args!(" {:.2} |", score.hit_percent)),
                None => text.push_str(" – |"),
            }
        }
        let gain = row.gain(OURS).unwrap_or_default();
        push(&mut text, format_args!(" {} |\n", signed(gain)));
    }
    text
}

/// Returns the costs of the segments other than misses.
pub(crate) fn costs(rows: &[Row]) -> String {
    let mut text = String::from(
        "| trace | budget | hits by bytes − S3-FIFO | copied ÷ inserted bytes | fresh | stale | \
         dead | dead at most | drained in a row at most |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let (Some(score), Some(reference)) = (row.score(OURS), row.score(REFERENCE)) else {
            continue;
        };
        let Some(costs) = &score.costs else {
            continue;
        };
        push(&mut text, format_args!("| {} | {} % |", row.trace, row.budget_percent));
        let bytes = score.byte_hit_percent - reference.byte_hit_percent;
        push(&mut text, format_args!(" {} | {:.2} |", signed(bytes), costs.copied_ratio()));
        let (fresh, stale) = (costs.fresh_percent(), costs.stale_percent());
        push(&mut text, format_args!(" {fresh:.1} % | {stale:.1} % |"));
        push(&mut text, format_args!(" {:.1} % |", costs.dead_percent()));
        let (dead, drained) = (costs.dead_percent_max, costs.drained_in_a_row_max);
        push(&mut text, format_args!(" {dead:.1} % | {drained} |\n"));
    }
    text
}

/// Returns one line for each configuration, with its effect on all traces together.
pub(crate) fn sweep(rows: &[Row], forms: &[String]) -> String {
    let mut text = String::from(
        "| form | mean − S3-FIFO | worst | of | by bytes, mean | copied ÷ inserted, mean | most | \
         fresh | stale | dead | dead at most | in a row |\n\
         |---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for form in forms {
        let gains = || rows.iter().filter_map(|row| Some((row.gain(form)?, row)));
        let Some((worst, row)) = gains().min_by(|one, other| one.0.total_cmp(&other.0)) else {
            continue;
        };
        let mean_gain = mean(gains().map(|(gain, _)| gain));
        push(&mut text, format_args!("| {form} | {} |", signed(mean_gain)));
        push(&mut text, format_args!(" {} |", signed(worst)));
        push(&mut text, format_args!(" {}, {} % |", row.trace, row.budget_percent));
        let bytes = rows.iter().filter_map(|row| {
            Some(row.score(form)?.byte_hit_percent - row.score(REFERENCE)?.byte_hit_percent)
        });
        push(&mut text, format_args!(" {} |", signed(mean(bytes))));
        let costs: Vec<Costs> = rows.iter().filter_map(|row| row.score(form)?.costs).collect();
        text.push_str(&cost_cells(&costs));
    }
    text
}

fn cost_cells(costs: &[Costs]) -> String {
    let copied = costs.iter().map(Costs::copied_ratio);
    let copied_max = copied.clone().fold(0.0, f64::max);
    let fresh = mean(costs.iter().map(Costs::fresh_percent));
    let stale = mean(costs.iter().map(Costs::stale_percent));
    let dead = mean(costs.iter().map(Costs::dead_percent));
    let dead_max = costs.iter().map(|costs| costs.dead_percent_max).fold(0.0, f64::max);
    let in_a_row = costs.iter().map(|costs| costs.drained_in_a_row_max).max().unwrap_or(0);
    format!(
        " {:.2} | {copied_max:.2} | {fresh:.1} % | {stale:.1} % | {dead:.1} % | {dead_max:.1} % | \
         {in_a_row} |\n",
        mean(copied)
    )
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

/// Formats a number with its sign, and with the minus character of typography.
fn signed(value: f64) -> String {
    format!("{value:+.2}").replace('-', "−")
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _ = text.write_fmt(arguments);
}
