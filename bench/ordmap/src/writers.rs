//! Measures two processes that write into one map, with one lock and with a lock for each shard.

use std::path::Path;

use crate::child::What;
use crate::data::Data;
use crate::engines::{Engine, Form, Ours, Shared, Work};
use crate::processes::Other;
use crate::report::{Figure, Sample};
use crate::rounds::Amounts;
use crate::time::wall_ns;

/// The names of the columns, and the most shards of each map.
const MAPS: [(&str, u32); 2] = [("ordmap", 1), ("ordmap, 8 shards", 8)];

/// The number of uncounted rounds, in which a map is split.
const ROUNDS_BEFORE: usize = 8;

pub(crate) fn measure(
    data: &Data,
    amounts: Amounts,
    rounds: usize,
    folder: &Path,
    samples: &mut Vec<Sample>,
) -> Result<(), String> {
    for (name, shards_max) in MAPS {
        let folder = folder.join(format!("writers{shards_max}"));
        let mut ours = Ours::create_for(Form::Tree, &folder, data, shards_max);
        ours.run(Work::Insert, data, &data.pick(data.keys.len(), 0));
        for round in 0..ROUNDS_BEFORE + rounds {
            let asked = data.draw(4 * amounts.changes, round as u64 + 3000);
            let mut other = Other::start(What::Write, Shared::Ours, &folder, data)?;
            other.go()?;
            let (ns, _) = wall_ns(|| ours.run(Work::Insert, data, &asked));
            let count = asked.len() as f64 + other.end()?.count;
            if round >= ROUNDS_BEFORE {
                samples.push(Sample::new(Figure::TwoWriters, name, data, ns / count));
            }
        }
        eprintln!("{name}: two writers, {} shards", ours.shard_count());
    }
    Ok(())
}
