//! Launches the binary under test, waits until it listens, and never leaves it behind.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::process::Pid;
pub use rustix::process::Signal;

use crate::clock::{PATIENCE, holds_within};
use crate::origin::Origin;
use crate::script::locked;

/// How to start the server.
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    program: PathBuf,
    command: String,
    flags: Vec<(String, String)>,
    switches: Vec<String>,
    variables: Vec<(String, String)>,
    folder: Arc<Folder>,
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    process: Process,
    builder: ServerBuilder,
    address: SocketAddr,
    admin: PathBuf,
}

impl ServerBuilder {
    /// `program` is `env!("CARGO_BIN_EXE_forebay")`.
    pub fn new(program: &str) -> ServerBuilder {
        let builder = ServerBuilder::bare(program, "serve");
        let admin = builder.path("admin.sock").display().to_string();
        let runtime_dir = builder.path("run").display().to_string();
        // Nothing is shared with another server, so that tests run side by side.
        builder
            .flag("--listen", "127.0.0.1:0")
            .flag("--admin", &admin)
            .flag("--runtime-dir", &runtime_dir)
    }

    /// A command without any flag, to test its defaults.
    pub fn bare(program: &str, command: &str) -> ServerBuilder {
        ServerBuilder {
            program: program.into(),
            command: command.into(),
            flags: Vec::new(),
            switches: Vec::new(),
            variables: Vec::new(),
            folder: Arc::new(Folder::new()),
        }
    }

    /// Everything goes to this origin.
    pub fn origin(self, origin: &Origin) -> ServerBuilder {
        let url = format!("http://{}", origin.address());
        self.flag("--origin", &url)
    }

    /// A flag with its value, in the place of an earlier value.
    pub fn flag(mut self, name: &str, value: &str) -> ServerBuilder {
        self.flags.retain(|(other, _)| other != name);
        self.flags.push((name.into(), value.into()));
        self
    }

    /// A flag without a value.
    pub fn switch(mut self, name: &str) -> ServerBuilder {
        self.switches.push(name.into());
        self
    }

    /// An environment variable of the process.
    pub fn variable(mut self, name: &str, value: &str) -> ServerBuilder {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Writes a configuration file and uses it.
    pub fn config(self, text: &str) -> ServerBuilder {
        let path = self.path("forebay.toml");
        std::fs::write(&path, text).expect("the folder is ours");
        let path = path.display().to_string();
        self.flag("--config", &path)
    }

    /// A path in the server's own temporary folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// Starts it and waits until it listens.
    pub fn start(self) -> Server {
        let mut process = self.spawn();
        let mut places = None;
        holds_within(PATIENCE, || {
            places = announced(&locked(&process.output.text));
            places.is_some() || process.has_ended()
        });
        let Some((address, admin)) = places else {
            process.end();
            panic!("{self:?} does not listen: {}", locked(&process.errors.text));
        };
        Server { process, builder: self, address, admin }
    }

    /// Runs it to its end, for a start that must be refused.
    pub fn run(self) -> Output {
        let mut process = self.spawn();
        assert!(holds_within(PATIENCE, || process.has_ended()), "{self:?} does not end");
        process.end();
        let bytes = |captured: &CapturedOutput| locked(&captured.text).clone().into_bytes();
        let (stdout, stderr) = (bytes(&process.output), bytes(&process.errors));
        let status = process.child.wait().expect("it has ended");
        Output { status, stdout, stderr }
    }

    /// As it would be started, without looking after it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(&self.command)
            .args(self.flags.iter().flat_map(|(name, value)| [name, value]))
            .args(&self.switches)
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    fn spawn(&self) -> Process {
        let mut child = self
            .command()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let output = CapturedOutput::of(child.stdout.take().expect("it is piped"));
        let errors = CapturedOutput::of(child.stderr.take().expect("it is piped"));
        Process { child, output, errors }
    }
}

impl Server {
    /// In front of this origin, with two workers and every setting at its default.
    pub fn before(program: &str, origin: &Origin) -> Server {
        ServerBuilder::new(program).origin(origin).flag("--workers", "2").start()
    }

    /// A server with the same flags that takes over from this one.
    pub fn successor(&self) -> ServerBuilder {
        let mut builder = self.builder.clone();
        builder.variables.clear();
        builder.switches.retain(|switch| switch != "--upgrade");
        builder.flag("--listen", &self.address.to_string()).switch("--upgrade")
    }

    /// A server with the same flags, for when this one has ended.
    pub fn again(&self) -> ServerBuilder {
        self.builder.clone()
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        !self.process.has_ended()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its admin interface is, as it says: a socket's path or an address.
    pub fn admin(&self) -> PathBuf {
        self.admin.clone()
    }

    /// A path in the server's own temporary folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.builder.path(name)
    }

    /// Its standard output so far; all of it once [`Server::wait`] has returned.
    pub fn output(&self) -> String {
        locked(&self.process.output.text).clone()
    }

    /// Its standard error so far.
    pub fn errors(&self) -> String {
        locked(&self.process.errors.text).clone()
    }

    /// Writes a new configuration file over the old one.
    pub fn write_config(&self, text: &str) {
        std::fs::write(self.path("forebay.toml"), text).expect("the folder is ours");
    }

    /// Runs a client command of the binary against this server's admin interface.
    pub fn command(&self, arguments: &[&str]) -> Output {
        let command = Command::new(&self.builder.program)
            .args(arguments)
            .arg("--admin")
            .arg(&self.admin)
            .output();
        command.expect("the binary was built")
    }

    /// Every counter.
    pub fn stats(&self) -> BTreeMap<String, f64> {
        let output = self.command(&["stats", "--json"]);
        let text = String::from_utf8_lossy(&output.stdout);
        parse_counters(&text)
            .unwrap_or_else(|| panic!("stats printed {text:?}, {:?}", output.status))
    }

    /// Memory that the process has, without the program itself.
    pub fn memory_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("it runs");
        let bytes = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let line = line.expect("it is there").trim().trim_end_matches(" kB");
            line.parse::<usize>().expect("a number") << 10
        };
        bytes("RssAnon:") + bytes("RssShmem:")
    }

    /// One counter; panics if there is none of this name.
    pub fn stat(&self, name: &str) -> f64 {
        let stats = self.stats();
        *stats.get(name).unwrap_or_else(|| panic!("no counter {name} in {:?}", stats.keys()))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.child.id()).ok().and_then(Pid::from_raw);
        rustix::process::kill_process(pid.expect("a process id"), signal).expect("it runs");
    }

    /// How it ended, `None` if it still runs when [`PATIENCE`] is over.
    pub fn wait(&mut self) -> Option<ExitStatus> {
        if !holds_within(PATIENCE, || self.process.has_ended()) {
            return None;
        }
        self.process.end();
        self.process.child.wait().ok()
    }

    /// SIGTERM, then how it ended.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.end();
        if thread::panicking() {
            eprintln!("--- standard error of the server:\n{}---", self.errors());
        }
    }
}

/// The child and its output.
#[derive(Debug)]
struct Process {
    child: Child,
    output: CapturedOutput,
    errors: CapturedOutput,
}

impl Process {
    fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Kills it if it still runs; afterwards all that it wrote is there.
    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The pipes end with the process.
        self.output.finish();
        self.errors.finish();
    }
}

/// The text of a stream; a thread reads it, since a full pipe would block the server.
#[derive(Debug)]
struct CapturedOutput {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl CapturedOutput {
    fn of(stream: impl Read + Send + 'static) -> CapturedOutput {
        let text = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&text);
        let reader = thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let mut text = locked(&into);
                text.push_str(&line);
                text.push('\n');
            }
        });
        CapturedOutput { text, reader: Some(reader) }
    }

    fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// A temporary folder, removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Default for Folder {
    fn default() -> Folder {
        Folder::new()
    }
}

impl Folder {
    /// A new, empty one.
    pub fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Relaxed);
        // A socket's path has little room: the name is kept short.
        let path = std::env::temp_dir().join(format!("fb-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        Path::join(&self.0, name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The two lines that say that the server is ready.
fn announced(output: &str) -> Option<(SocketAddr, PathBuf)> {
    let said = |prefix| output.lines().find_map(|line| line.strip_prefix(prefix));
    let address = said("listening on http://")?.trim_end_matches('/').parse().ok()?;
    Some((address, said("admin on ")?.into()))
}

/// Counters say that the parts of the cache's budget come to the budget, to the byte.
pub fn assert_adds_up(stats: &BTreeMap<String, f64>) {
    let parts = ["free", "live", "dead", "metadata", "growing", "pinned", "copied"];
    let sum: f64 = parts.iter().map(|part| stats[&format!("cache_{part}_bytes")]).sum();
    assert_eq!(stats["cache_budget_bytes"], sum, "{stats:#?}");
}

/// A flat JSON object of numbers.
fn parse_counters(text: &str) -> Option<BTreeMap<String, f64>> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let members = inside.split(',').filter(|member| !member.trim().is_empty());
    members
        .map(|member| {
            let (name, value) = member.split_once(':')?;
            let name = name.trim().strip_prefix('"')?.strip_suffix('"')?;
            Some((name.to_string(), value.trim().parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_a_flat_object() {
        let counters = parse_counters("{\"a\": 1,\n \"b_c\":2.5 }").expect("well-formed");
        assert_eq!(counters.get("a"), Some(&1.0));
        assert_eq!(counters.get("b_c"), Some(&2.5));
        assert!(parse_counters("{}").is_some_and(|counters| counters.is_empty()));
        for bad in ["", "[]", "{\"a\": x}", "{a: 1}"] {
            assert!(parse_counters(bad).is_none(), "{bad}");
        }
    }
}
