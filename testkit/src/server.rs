//! Starts the server under test, waits until it listens, and ends it with the test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeWriter, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
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

/// The command line and the folder of a server to start.
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    program: PathBuf,
    command: String,
    flags: Vec<(String, String)>,
    switches: Vec<String>,
    variables: Vec<(String, String)>,
    errors_into: Option<Arc<PipeWriter>>,
    folder: Arc<Folder>,
}

/// A running server, killed when dropped.
#[derive(Debug)]
pub struct Server {
    process: Process,
    builder: ServerBuilder,
    address: SocketAddr,
    admin: PathBuf,
}

impl ServerBuilder {
    /// Makes a builder with the flags that most tests use. `program` is
    /// `env!("CARGO_BIN_EXE_forebay")`.
    pub fn new(program: &str) -> ServerBuilder {
        let builder = ServerBuilder::bare(program, "serve");
        let admin = builder.path("admin.sock").display().to_string();
        let runtime_dir = builder.path("run").display().to_string();
        // Servers share nothing, so that tests can run side by side.
        builder
            .flag("--listen", "127.0.0.1:0")
            .flag("--admin", &admin)
            .flag("--runtime-dir", &runtime_dir)
    }

    /// Makes a builder without flags, for tests of the defaults.
    pub fn bare(program: &str, command: &str) -> ServerBuilder {
        ServerBuilder {
            program: program.into(),
            command: command.into(),
            flags: Vec::new(),
            switches: Vec::new(),
            variables: Vec::new(),
            errors_into: None,
            folder: Arc::new(Folder::new()),
        }
    }

    /// Sends all requests to this origin.
    pub fn origin(self, origin: &Origin) -> ServerBuilder {
        let url = format!("http://{}", origin.address());
        self.flag("--origin", &url)
    }

    /// Sets a flag to a value; replaces an earlier value.
    pub fn flag(mut self, name: &str, value: &str) -> ServerBuilder {
        self.flags.retain(|(other, _)| other != name);
        self.flags.push((name.into(), value.into()));
        self
    }

    /// Adds a flag without a value.
    pub fn switch(mut self, name: &str) -> ServerBuilder {
        self.switches.push(name.into());
        self
    }

    /// Sets an environment variable of the process.
    pub fn variable(mut self, name: &str, value: &str) -> ServerBuilder {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Connects the standard error of the process to a pipe. [`Server::errors`] is empty then.
    pub fn errors_into(mut self, pipe: PipeWriter) -> ServerBuilder {
        self.errors_into = Some(Arc::new(pipe));
        self
    }

    /// Writes a configuration file and passes its path to the server.
    pub fn config(self, text: &str) -> ServerBuilder {
        let path = self.path("forebay.toml");
        std::fs::write(&path, text).expect("the temporary folder is writable");
        let path = path.display().to_string();
        self.flag("--config", &path)
    }

    /// A path in the server's own temporary folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// Starts the server and waits until it listens.
    pub fn start(self) -> Server {
        let mut process = self.spawn();
        let mut places = None;
        holds_within(PATIENCE, || {
            places = announced(&locked(&process.output.text));
            places.is_some() || process.has_ended()
        });
        let Some((address, admin)) = places else {
            process.end();
            panic!("{self:?} did not begin to listen: {}", locked(&process.errors.text));
        };
        Server { process, builder: self, address, admin }
    }

    /// Runs the program to its end, for a start that the server must refuse.
    pub fn run(self) -> Output {
        let mut process = self.spawn();
        assert!(holds_within(PATIENCE, || process.has_ended()), "{self:?} did not end");
        process.end();
        let bytes = |captured: &CapturedOutput| locked(&captured.text).clone().into_bytes();
        let (stdout, stderr) = (bytes(&process.output), bytes(&process.errors));
        let status = process.child.wait().expect("it has ended");
        Output { status, stdout, stderr }
    }

    /// The command that starts the server, without reading its output or ending it.
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
        let stderr = match &self.errors_into {
            Some(pipe) => Stdio::from(pipe.try_clone().expect("a descriptor is free")),
            None => Stdio::piped(),
        };
        let mut child = self
            .command()
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the binary was built");
        let output = CapturedOutput::of(child.stdout.take().expect("standard output is piped"));
        let errors = match child.stderr.take() {
            Some(errors) => CapturedOutput::of(errors),
            None => CapturedOutput::of(std::io::empty()),
        };
        Process { child, output, errors }
    }
}

impl Server {
    /// Starts a server in front of this origin, with two workers and all other settings at their
    /// defaults.
    pub fn before(program: &str, origin: &Origin) -> Server {
        ServerBuilder::new(program).origin(origin).flag("--workers", "2").start()
    }

    /// Builds a server with the same flags that takes over from this server.
    pub fn successor(&self) -> ServerBuilder {
        let mut builder = self.builder.clone();
        builder.variables.clear();
        builder.switches.retain(|switch| switch != "--upgrade");
        builder.flag("--listen", &self.address.to_string()).switch("--upgrade")
    }

    /// Builds a server with the same flags, to start after this server has ended.
    pub fn again(&self) -> ServerBuilder {
        self.builder.clone()
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Whether the process is still running.
    pub fn is_running(&mut self) -> bool {
        !self.process.has_ended()
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The first address on which the server listens for clients with TLS.
    pub fn tls_address(&self) -> SocketAddr {
        let output = self.output();
        let mut lines = output.lines();
        let address = lines.find_map(|line| line.strip_prefix("listening on https://"));
        address
            .and_then(|address| address.parse().ok())
            .expect("the server printed an address for TLS")
    }

    /// The admin interface as the server printed it: a socket's path or an address.
    pub fn admin(&self) -> PathBuf {
        self.admin.clone()
    }

    /// A path in the server's own temporary folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.builder.path(name)
    }

    /// The standard output so far. It is complete once [`Server::wait`] has returned.
    pub fn output(&self) -> String {
        locked(&self.process.output.text).clone()
    }

    /// The standard error so far.
    pub fn errors(&self) -> String {
        locked(&self.process.errors.text).clone()
    }

    /// Writes a new configuration file over the old one.
    pub fn write_config(&self, text: &str) {
        std::fs::write(self.path("forebay.toml"), text).expect("the temporary folder is writable");
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

    /// Returns every counter by name.
    pub fn stats(&self) -> BTreeMap<String, f64> {
        let output = self.command(&["stats", "--json"]);
        let text = String::from_utf8_lossy(&output.stdout);
        parse_counters(&text).unwrap_or_else(|| {
            let status = output.status;
            panic!(
                "`forebay stats --json` ended with {status} and printed {text:?}, which are \
                 not counters"
            )
        })
    }

    /// The process's anonymous and shared memory, without mapped files such as its executable.
    pub fn memory_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("it runs");
        let bytes = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let line = line.expect("/proc has the line").trim().trim_end_matches(" kB");
            line.parse::<usize>().expect("a number") << 10
        };
        bytes("RssAnon:") + bytes("RssShmem:")
    }

    /// Returns one counter. Panics if there is no counter of this name.
    pub fn stat(&self, name: &str) -> f64 {
        let stats = self.stats();
        *stats.get(name).unwrap_or_else(|| panic!("no counter {name} in {:?}", stats.keys()))
    }

    /// Returns the answer to `GET /metrics` at the socket of the admin interface.
    pub fn metrics(&self) -> String {
        let mut stream = UnixStream::connect(&self.admin).expect("it listens");
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.child.id()).ok().and_then(Pid::from_raw);
        rustix::process::kill_process(pid.expect("a process id"), signal).expect("it runs");
    }

    /// Waits until the process ends. Returns its status, or `None` if it still runs after
    /// [`PATIENCE`].
    pub fn wait(&mut self) -> Option<ExitStatus> {
        if !holds_within(PATIENCE, || self.process.has_ended()) {
            return None;
        }
        self.process.end();
        self.process.child.wait().ok()
    }

    /// Sends SIGTERM and waits for the process's end, as [`Server::wait`] does.
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

/// The child process and its output.
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

    /// Kills the process if it still runs, and waits until all its output has been read.
    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The pipes end with the process.
        self.output.finish();
        self.errors.finish();
    }
}

/// The text of a stream. A thread reads it, because a full pipe would block the server.
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
    /// Makes a new, empty folder.
    pub fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Relaxed);
        // The path of a socket is limited in length, so the name of its folder is short.
        let path = std::env::temp_dir().join(format!("fb-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        Path::join(&self.0, name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Parses the two lines that the server prints when it is ready: its address, and its admin
/// interface.
fn announced(output: &str) -> Option<(SocketAddr, PathBuf)> {
    let said = |prefix| output.lines().find_map(|line| line.strip_prefix(prefix));
    let address = said("listening on http://")?.trim_end_matches('/').parse().ok()?;
    Some((address, said("admin on ")?.into()))
}

/// Asserts that the counters of the parts of the cache's budget add up to the budget, to the byte.
pub fn assert_adds_up(stats: &BTreeMap<String, f64>) {
    let parts = ["free", "live", "dead", "metadata", "growing", "pinned", "copied"];
    let sum: f64 = parts.iter().map(|part| stats[&format!("cache_{part}_bytes")]).sum();
    assert_eq!(stats["cache_budget_bytes"], sum, "{stats:#?}");
}

/// Parses a flat JSON object of numbers.
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
