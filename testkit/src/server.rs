//! Launches the binary under test, waits until it listens, and never leaves it behind.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::Pid;
pub use rustix::process::Signal;

use crate::clock::{PATIENCE, holds_within};
use crate::origin::Origin;
use crate::script::locked;

/// How to start the server.
#[derive(Debug)]
pub struct ServerBuilder {
    program: PathBuf,
    arguments: Vec<String>,
    folder: Folder,
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    program: PathBuf,
    address: SocketAddr,
    folder: Folder,
    errors: Arc<Mutex<String>>,
}

impl ServerBuilder {
    /// `program` is `env!("CARGO_BIN_EXE_forebay")`.
    pub fn new(program: &str) -> ServerBuilder {
        let folder = Folder::new();
        let admin = folder.path("admin.sock").display().to_string();
        let runtime_dir = folder.path("run").display().to_string();
        let builder =
            ServerBuilder { program: program.into(), arguments: vec!["serve".into()], folder };
        // Nothing is shared with another server, so that tests run side by side.
        builder
            .flag("--listen", "127.0.0.1:0")
            .flag("--admin", &admin)
            .flag("--runtime-dir", &runtime_dir)
    }

    /// Everything goes to this origin.
    pub fn origin(self, origin: &Origin) -> ServerBuilder {
        let url = format!("http://{}", origin.address());
        self.flag("--origin", &url)
    }

    /// One more flag with its value.
    pub fn flag(mut self, name: &str, value: &str) -> ServerBuilder {
        self.arguments.extend([name.to_string(), value.to_string()]);
        self
    }

    /// Writes a configuration file and uses it.
    pub fn config(self, text: &str) -> ServerBuilder {
        let path = self.folder.path("forebay.toml");
        std::fs::write(&path, text).expect("the folder is ours");
        let path = path.display().to_string();
        self.flag("--config", &path)
    }

    /// Starts it and waits until it listens.
    pub fn start(self) -> Server {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let errors = Arc::new(Mutex::new(String::new()));
        collect(child.stderr.take().expect("it is piped"), Arc::clone(&errors));
        let lines = lines_of(child.stdout.take().expect("it is piped"));
        let Some(address) = listening_address(&lines) else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{:?} does not listen: {}", self.arguments, locked(&errors));
        };
        Server { child, program: self.program, address, folder: self.folder, errors }
    }

    /// Runs it to its end, for a start that must be refused.
    pub fn run(self) -> Output {
        let command = Command::new(&self.program).args(&self.arguments).output();
        command.expect("the binary was built")
    }
}

impl Server {
    /// In front of this origin, with two workers and every setting at its default.
    pub fn before(program: &str, origin: &Origin) -> Server {
        ServerBuilder::new(program).origin(origin).flag("--workers", "2").start()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The admin socket's path.
    pub fn admin(&self) -> PathBuf {
        self.folder.path("admin.sock")
    }

    /// What it has written to standard error so far.
    pub fn errors(&self) -> String {
        locked(&self.errors).clone()
    }

    /// Writes a new configuration file over the old one.
    pub fn write_config(&self, text: &str) {
        std::fs::write(self.folder.path("forebay.toml"), text).expect("the folder is ours");
    }

    /// Runs a client command of the binary against this server's admin socket.
    pub fn command(&self, arguments: &[&str]) -> Output {
        let admin = self.admin();
        let command =
            Command::new(&self.program).args(arguments).arg("--admin").arg(admin).output();
        command.expect("the binary was built")
    }

    /// Every counter.
    pub fn stats(&self) -> BTreeMap<String, f64> {
        let output = self.command(&["stats", "--json"]);
        let text = String::from_utf8_lossy(&output.stdout);
        parse_counters(&text)
            .unwrap_or_else(|| panic!("stats printed {text:?}, {:?}", output.status))
    }

    /// One counter; panics if there is none of this name.
    pub fn stat(&self, name: &str) -> f64 {
        let stats = self.stats();
        *stats.get(name).unwrap_or_else(|| panic!("no counter {name} in {:?}", stats.keys()))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        rustix::process::kill_process(pid.expect("a process id"), signal).expect("it runs");
    }

    /// How it ended, `None` if it still runs when [`PATIENCE`] is over.
    pub fn wait(&mut self) -> Option<ExitStatus> {
        let mut status = None;
        holds_within(PATIENCE, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        });
        status
    }

    /// SIGTERM, then how it ended.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- standard error of the server:\n{}---", self.errors());
        }
    }
}

/// A temporary folder, removed when dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Relaxed);
        // A socket's path has little room: the name is kept short.
        let path = std::env::temp_dir().join(format!("fb-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::join(&self.0, name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // Read on even if nobody listens: a full pipe would block the server.
            let _ = sender.send(line);
        }
    });
    receiver
}

fn collect(stream: impl Read + Send + 'static, into: Arc<Mutex<String>>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut text = locked(&into);
            text.push_str(&line);
            text.push('\n');
        }
    });
}

fn listening_address(lines: &Receiver<String>) -> Option<SocketAddr> {
    loop {
        let line = lines.recv_timeout(PATIENCE).ok()?;
        if let Some(address) = line.strip_prefix("listening on http://") {
            return address.trim().trim_end_matches('/').parse().ok();
        }
    }
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
