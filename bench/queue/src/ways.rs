//! Transports of a query and its answer between two processes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::data::{Asked, digest};
use crate::mq::{MESSAGE_BYTES, Queue};
use crate::system::{Cost, Usage, stay_on};
use crate::table::Table;

/// The transport of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
pub(crate) enum Way {
    /// Two POSIX message queues, one for each direction.
    MessageQueue,
    /// A pair of Unix sockets that preserve the boundaries of messages.
    SocketPair,
    /// No transport: the querying process reads the map itself.
    SharedMap,
}

/// Whether the two processes share a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Place {
    OneProcessor,
    TwoProcessors,
}

/// The arguments of the process that answers.
#[derive(Args)]
pub(crate) struct Role {
    #[arg(long)]
    way: Way,
    #[arg(long)]
    processor: usize,
    #[arg(long)]
    map: PathBuf,
    /// The name of the queues.
    #[arg(long)]
    name: String,
}

/// Returns all cases that this machine can run, and prints which cases are left out.
pub(crate) fn all(processors: &[usize]) -> Vec<(Way, Place)> {
    let mut places = vec![Place::OneProcessor];
    if processors.len() > 1 {
        places.push(Place::TwoProcessors);
    } else {
        eprintln!("this process has only one processor: the cases with two are left out");
    }
    let mut ways = vec![Way::SocketPair];
    match Queue::create(&name_of(0)) {
        Ok(_) => ways.push(Way::MessageQueue),
        Err(error) => eprintln!("the cases with message queues are left out: {error}"),
    }
    let asked = ways.iter().flat_map(|way| places.iter().map(move |place| (*way, *place)));
    asked.chain([(Way::SharedMap, Place::OneProcessor)]).collect()
}

fn name_of(direction: usize) -> String {
    format!("/forebay-bench-queue-{}-{direction}", std::process::id())
}

/// Sends all queries. Returns the cost of both processes, and a checksum of the answers.
pub(crate) fn ask(
    way: Way,
    processors: (usize, usize),
    table: &Table,
    (folder, asked): (&Path, &[Asked]),
) -> Result<(Cost, u64), String> {
    let (ours, theirs) = processors;
    if !stay_on(ours) {
        return Err(format!("this process may not use processor {ours}"));
    }
    let keys = || asked.iter().map(|asked| &asked.key[..]);
    if way == Way::SharedMap {
        let before = Usage::now();
        let sum = keys().map(|key| table.look(key)).fold(0, u64::wrapping_add);
        return Ok((Usage::now().since(before), sum));
    }
    let mut answerer = Answerer::start(way, theirs, folder).map_err(|error| error.to_string())?;
    let before = Usage::now();
    let sum = keys().map(|key| answerer.ask(key)).sum::<io::Result<u64>>();
    let cost = Usage::now().since(before);
    let sum = sum.map_err(|error| error.to_string())?;
    let theirs = answerer.end().map_err(|error| error.to_string())?;
    let (cpu_ns, switches) = (cost.cpu_ns + theirs.cpu_ns, cost.switches + theirs.switches);
    Ok((Cost { cpu_ns, switches, ..cost }, sum))
}

/// One end of a transport.
enum End {
    Sockets(UnixDatagram),
    Queues { out: Queue, back: Queue },
}

impl End {
    fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            End::Sockets(socket) => socket.send(message).map(|_| ()),
            End::Queues { out, .. } => out.send(message),
        }
    }

    fn receive(&self, room: &mut [u8; MESSAGE_BYTES]) -> io::Result<usize> {
        match self {
            End::Sockets(socket) => socket.recv(room),
            End::Queues { back, .. } => back.receive(room),
        }
    }
}

/// The answering process, as the querying process sees it.
struct Answerer {
    child: Child,
    end: End,
    room: Box<[u8; MESSAGE_BYTES]>,
}

/// A message that is not a query. It asks for the cost so far, or for the end.
const COST: &[u8] = b"cost";
const END: &[u8] = b"end";

impl Answerer {
    fn start(way: Way, processor: usize, folder: &Path) -> io::Result<Answerer> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("answer").arg("--map").arg(folder.join("map"));
        command.args(["--name", &name_of(0)]);
        let name = way.to_possible_value().map(|name| name.get_name().to_owned());
        command.args(["--way", &name.unwrap_or_default()]);
        command.args(["--processor", &processor.to_string()]);
        let end = if way == Way::SocketPair {
            let (ours, theirs) = UnixDatagram::pair()?;
            command.stdin(Stdio::from(OwnedFd::from(theirs)));
            End::Sockets(ours)
        } else {
            let (out, back) =
                (Queue::create(&name_of(0))?, Queue::create(&(name_of(0) + "-back"))?);
            command.stdin(Stdio::null());
            End::Queues { out, back }
        };
        let child = command.spawn()?;
        let mut answerer = Answerer { child, end, room: Box::new([0; MESSAGE_BYTES]) };
        // The other process has started, and counts its cost from here.
        answerer.cost()?;
        Ok(answerer)
    }

    fn ask(&mut self, key: &[u8]) -> io::Result<u64> {
        self.end.send(key)?;
        let count = self.end.receive(&mut self.room)?;
        Ok(digest(&self.room[..count]))
    }

    fn cost(&mut self) -> io::Result<Cost> {
        self.end.send(COST)?;
        let count = self.end.receive(&mut self.room)?;
        let text = String::from_utf8_lossy(&self.room[..count]);
        let asked: Vec<f64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [cpu_ns, switches] = asked[..] else {
            return Err(io::Error::other(format!("the other process answered {text:?}")));
        };
        Ok(Cost { wall_ns: 0.0, cpu_ns, switches })
    }

    fn end(mut self) -> io::Result<Cost> {
        let cost = self.cost()?;
        self.end.send(END)?;
        self.child.wait()?;
        Ok(cost)
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The work of the answering process.
pub(crate) fn answer(role: &Role) -> Result<(), String> {
    if !stay_on(role.processor) {
        return Err(format!("this process may not use processor {}", role.processor));
    }
    let table = Table::attach(&role.map)?;
    answer_all(role, &table).map_err(|error| error.to_string())
}

fn answer_all(role: &Role, table: &Table) -> io::Result<()> {
    let end = match role.way {
        Way::SocketPair => {
            let socket = io::stdin().as_fd().try_clone_to_owned()?;
            End::Sockets(UnixDatagram::from(socket))
        }
        Way::MessageQueue | Way::SharedMap => {
            let back = Queue::open(&role.name)?;
            End::Queues { out: Queue::open(&format!("{}-back", role.name))?, back }
        }
    };
    let mut room = [0; MESSAGE_BYTES];
    let (mut answer, mut before) = (Vec::new(), Usage::now());
    loop {
        let count = end.receive(&mut room)?;
        match &room[..count] {
            END => return Ok(()),
            COST => {
                let cost = Usage::now().since(before);
                end.send(format!("{} {}", cost.cpu_ns, cost.switches).as_bytes())?;
                before = Usage::now();
            }
            key => {
                table.answer(key, &mut answer);
                end.send(&answer)?;
            }
        }
    }
}
