//! Standard output: a disk that is full or a reader that stalls does not end a server that has
//! started, and stalls only its access log.

use std::fs::File;
use std::process::{Child, ExitStatus, Stdio};

use forebay_testkit::pipe::full_pipe;
use forebay_testkit::{Client, Origin, Server, ServerBuilder, eventually};
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn start(origin: &Origin) -> Server {
    ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "1").start()
}

/// A process that takes over from `old`, and is killed when dropped.
struct Successor(Child);

impl Successor {
    /// Starts a process with this standard output, and waits until it has taken over.
    fn start(old: &mut Server, flags: &[(&str, &str)], stdout: impl Into<Stdio>) -> Successor {
        let builder = flags
            .iter()
            .fold(old.successor(), |builder, (name, value)| builder.flag(name, value))
            .command()
            .stdout(stdout)
            .stderr(Stdio::null())
            .spawn();
        let successor = Successor(builder.expect("the binary was built"));
        assert!(old.wait().is_some_and(|status| status.success()), "{}", old.errors());
        successor
    }

    fn stop(&mut self) -> ExitStatus {
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(id, Signal::TERM).expect("it is ours");
        let mut status = None;
        eventually("it ends", || {
            status = self.0.try_wait().expect("it is ours");
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn assert_serves(old: &Server, requests: usize) {
    let mut client = Client::connect(old.address());
    for _ in 0..requests {
        assert_eq!(client.ask("GET", "/", &[]).expect("served").status, 200);
    }
}

#[test]
fn a_full_disk_or_a_closed_pipe_at_standard_output_does_not_end_an_upgrade() {
    let (reader, closed) = std::io::pipe().expect("a pipe");
    drop(reader);
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    for (name, stdout) in [("full", Stdio::from(full)), ("closed", Stdio::from(closed))] {
        let origin = Origin::echo();
        let mut old = start(&origin);
        let mut new = Successor::start(&mut old, &[], stdout);
        assert_serves(&old, 3);
        assert!(old.stat("upgrades_total") >= 1.0, "{name}");
        let status = new.stop();
        assert!(status.success(), "{name}: {status}");
    }
}

#[test]
fn a_reader_of_standard_output_that_stalls_delays_neither_admin_nor_the_stop() {
    for flags in [&[][..], &[("--access-log", "-")]] {
        let origin = Origin::echo();
        let (_reader, writer) = full_pipe();
        let mut old = start(&origin);
        let mut new = Successor::start(&mut old, flags, writer);
        // By now the thread of the log waits for the reader.
        assert_serves(&old, 100);
        assert!(old.stat("requests_total") >= 100.0, "{flags:?}");
        let status = new.stop();
        assert!(status.success(), "{flags:?}: {status}");
    }
}
