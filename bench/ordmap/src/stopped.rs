//! Measures the memory that a stopped reader in another process keeps from being freed.

use std::path::Path;

use crate::child::What;
use crate::data::Data;
use crate::engines::{Engine, Work};
use crate::processes::Other;
use crate::report::{Figure, Sample};
use crate::rounds::Amounts;

pub(crate) fn measure(
    engines: &mut [Box<dyn Engine>],
    data: &Data,
    amounts: Amounts,
    folder: &Path,
    samples: &mut Vec<Sample>,
) -> Result<(), String> {
    for engine in engines.iter_mut() {
        let Some(shared) = engine.shared() else { continue };
        let changes = data.draw(amounts.changes, 5000);
        // These uncounted changes use up the free memory first.
        engine.run(Work::Insert, data, &changes);
        let mut grown = |engine: &mut Box<dyn Engine>, figure| {
            let before = engine.taken_bytes();
            engine.run(Work::Insert, data, &changes);
            let grown = engine.taken_bytes() as f64 - before as f64;
            let each = grown / changes.len() as f64;
            samples.push(Sample::new(figure, engine.name(), data, each));
        };
        grown(engine, Figure::GrownWithout);
        let reader = Other::start(What::Hold, shared, folder, data)?;
        signal(reader.pid(), libc::SIGSTOP);
        grown(engine, Figure::GrownBehind);
        signal(reader.pid(), libc::SIGCONT);
        reader.end()?;
    }
    Ok(())
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: `pid` is our child, for which we have not waited yet.
    let result = unsafe { libc::kill(pid as i32, signal) };
    assert_eq!(result, 0, "the child exists");
}
