//! Two processes on one map: the cost of an operation of one process while the other process works.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::child::What;
use crate::data::Data;
use crate::engines::{Engine, Shared, Work};
use crate::report::{Figure, Sample};
use crate::rounds::Amounts;
use crate::time::cpu_ns;

/// Another process that works on the same map.
pub(crate) struct Other {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// The work that the other process did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) count: f64,
    pub(crate) cpu_ns: f64,
}

impl Other {
    /// Starts the process, which then waits for `go`.
    pub(crate) fn start(
        what: What,
        engine: Shared,
        folder: &Path,
        data: &Data,
    ) -> Result<Other, String> {
        let say = |error: std::io::Error| format!("cannot run the second process: {error}");
        let mut command = Command::new(std::env::current_exe().map_err(say)?);
        command.arg("child");
        command.args(["--what", if_is(what), "--engine", if_is(engine)]);
        command.arg("--folder").arg(folder);
        command.args(["--key-count", &data.keys.len().to_string()]);
        command.args(["--bytes", &data.value_bytes.to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(say)?;
        let stdout = child.stdout.take().ok_or("the other process has no output")?;
        let mut other = Other { child, stdout: BufReader::new(stdout) };
        match other.line()?.as_str() {
            "ready" => Ok(other),
            said => Err(format!("the other process printed {said:?} instead of ready")),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn go(&mut self) -> Result<(), String> {
        let stdin = self.child.stdin.as_mut().ok_or("the other process was already told to end")?;
        stdin.write_all(b"go\n").map_err(|error| format!("cannot run the second process: {error}"))
    }

    pub(crate) fn end(mut self) -> Result<Done, String> {
        drop(self.child.stdin.take());
        let line = self.line()?;
        self.child.wait().map_err(|error| error.to_string())?;
        let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [count, cpu_ns] = numbers[..] else {
            return Err(format!("the other process printed {line:?}"));
        };
        Ok(Done { count, cpu_ns })
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The name that clap gives to the value.
fn if_is(value: impl clap::ValueEnum) -> &'static str {
    let name = value.to_possible_value().map(|value| value.get_name().to_owned());
    Box::leak(name.unwrap_or_default().into_boxed_str())
}

/// The work of this process, and the work of the other process at the same time.
const PAIRS: [(Work, What); 4] = [
    (Work::Get, What::Read),
    (Work::Get, What::Write),
    (Work::Range, What::Write),
    (Work::Insert, What::Read),
];

pub(crate) fn measure(
    engines: &mut [Box<dyn Engine>],
    data: &Data,
    amounts: Amounts,
    rounds: usize,
    (folder, samples): (&Path, &mut Vec<Sample>),
) -> Result<(), String> {
    for round in 1..=rounds {
        eprintln!("{} bytes, two processes: round {round} of {rounds}", data.value_bytes);
        for (work, what) in PAIRS {
            let count = amounts.of(work);
            let asked = data.draw(count, round as u64 + 1000);
            let mut answers = Vec::new();
            for engine in engines.iter_mut() {
                let Some(shared) = engine.shared() else { continue };
                let mut other = Other::start(what, shared, folder, data)?;
                other.go()?;
                let (ns, answer) = cpu_ns(|| engine.run(work, data, &asked));
                let done = other.end()?;
                answers.push(answer);
                let mut add = |figure, value| {
                    samples.push(Sample::new(figure, engine.name(), data, value));
                };
                add(Figure::With(work, what), ns / count as f64);
                add(Figure::Other(work, what), done.cpu_ns / done.count.max(1.0));
            }
            // LMDB does not report whether a stored value replaced another one.
            let is_same = work == Work::Insert || answers.is_sorted_by(|one, two| one == two);
            assert!(is_same, "{work:?}: {answers:?}");
        }
    }
    Ok(())
}
