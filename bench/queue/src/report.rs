//! The samples as a table in Markdown: medians, with the quartiles in brackets.

use serde::Serialize;

use crate::data::{Data, KEY_BYTES};
use crate::system::Cost;
use crate::ways::{Place, Way};

/// The cost of a query in one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) way: Way,
    pub(crate) place: Place,
    pub(crate) cost: Cost,
}

const ROWS: [(Way, Place, &str); 5] = [
    (Way::MessageQueue, Place::TwoProcessors, "message queue, two processors"),
    (Way::MessageQueue, Place::OneProcessor, "message queue, one processor"),
    (Way::SocketPair, Place::TwoProcessors, "pair of sockets, two processors"),
    (Way::SocketPair, Place::OneProcessor, "pair of sockets, one processor"),
    (Way::SharedMap, Place::OneProcessor, "map that both processes share"),
];

pub(crate) fn markdown(samples: &[Sample], data: &Data) -> String {
    let mut text = format!(
        "### A look-up in a map of {} keys of {KEY_BYTES} bytes, values of {}\n\n\
         | | ns until the answer | ns of both processes | context switches |\n\
         |---|--:|--:|--:|\n",
        data.keys.len(),
        data.value_bytes
    );
    for (way, place, name) in ROWS {
        let is_it = |sample: &&Sample| (sample.way, sample.place) == (way, place);
        let costs: Vec<Cost> = samples.iter().filter(is_it).map(|sample| sample.cost).collect();
        if costs.is_empty() {
            continue;
        }
        let cell = |number: fn(&Cost) -> f64| spread(costs.iter().map(number).collect());
        let cells =
            [cell(|cost| cost.wall_ns), cell(|cost| cost.cpu_ns), cell(|cost| cost.switches)];
        text += &format!("| {name} | {} |\n", cells.join(" | "));
    }
    text
}

fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (quarter, last) = (values.len() / 4, values.len() - 1);
    let short = |index: usize| match values[index] {
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    };
    format!("**{}** ({}–{})", short(values.len() / 2), short(quarter), short(last - quarter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_stand_beside_their_quartiles() {
        let sample = |wall_ns| Sample {
            way: Way::SharedMap,
            place: Place::OneProcessor,
            cost: Cost { wall_ns, cpu_ns: 4000.0, switches: 0.0 },
        };
        let samples = [5.0, 1.0, 2.0, 4.0, 3.0].map(|hundreds| sample(hundreds * 100.0));
        let want = "\
### A look-up in a map of 7 keys of 60 bytes, values of 8

| | ns until the answer | ns of both processes | context switches |
|---|--:|--:|--:|
| map that both processes share | **300** (200–400) | **4000** (4000–4000) | **0.00** (0.00–0.00) |
";
        assert_eq!(markdown(&samples, &Data::new(7, 8, 1)), want);
    }
}
