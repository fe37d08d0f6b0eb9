//! The oracle test by several processes on one region: in each turn another process plays some
//! steps, and the others learn the current state of the ordinary map.

use std::io::{BufReader, BufWriter, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use forebay_ordmap::{Entry, MapOptions, OrdConfig, OrdRegion};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::journal::{Change, read_changes, read_number, write_changes};
use crate::keys::Keys;
use crate::play::Play;
use crate::steps;
use forebay_testkit::Rng;

const PROCESSES: usize = 3;

/// Bytes of the hint table.
const HINT_BYTES: u64 = 1 << 14;

/// The number of steps of a turn is below this.
const TURN_STEPS: usize = 200;

/// Sent in place of the number of steps: changes of other processes follow.
const FOLLOW: u32 = u32::MAX;
/// Sent in place of the number of steps: remove everything.
const EMPTY: u32 = u32::MAX - 1;

const ROLE: &str = "FOREBAY_ORACLE_KEYS";
const DIR: &str = "FOREBAY_ORACLE_DIR";

/// Another process, as the process that deals the turns sees it.
struct Player {
    child: Child,
    from: BufReader<UnixStream>,
    to: BufWriter<UnixStream>,
}

impl Player {
    fn start(dir: &Path, listener: &UnixListener, keys: usize) -> Player {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["processes::player", "--exact", "--nocapture"])
            .env(ROLE, keys.to_string())
            .env(DIR, dir)
            .spawn()
            .unwrap();
        let (stream, _) = listener.accept().unwrap();
        let from = BufReader::new(stream.try_clone().unwrap());
        Player { child, from, to: BufWriter::new(stream) }
    }

    fn tell(&mut self, number: u32) {
        self.to.write_all(&number.to_le_bytes()).unwrap();
        self.to.flush().unwrap();
    }

    /// Makes the other process play this many steps, and returns its changes.
    fn play(&mut self, steps: u32) -> Vec<Change> {
        self.tell(steps);
        read_changes(&mut self.from).expect("the player has failed: see above")
    }

    fn follow(&mut self, changes: &[Change]) {
        self.tell(FOLLOW);
        write_changes(&mut self.to, changes).unwrap();
    }

    fn end(mut self) {
        drop((self.from, self.to));
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn several_processes_see_what_an_ordinary_map_has() {
    let mut random = Rng::of("several_processes_see_what_an_ordinary_map_has");
    for keys in 0..Keys::ALL.len() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let region = open(dir.path());
        let listener = UnixListener::bind(dir.path().join("turns")).unwrap();
        let start = |_| Player::start(dir.path(), &listener, keys);
        let mut players: Vec<_> = (0..PROCESSES).map(start).collect();
        let mut left = steps() / Keys::ALL.len();
        while left > 0 {
            let steps = 1 + random.below(left.min(TURN_STEPS));
            left -= steps;
            turn(&mut players, random.below(PROCESSES), steps as u32);
        }
        turn(&mut players, random.below(PROCESSES), EMPTY);
        players.into_iter().for_each(Player::end);
        let report = region.join().unwrap().check().unwrap();
        assert!(report.is_sound(), "{keys}: {report}");
        assert_eq!((report.entries, report.nodes), (0, 0), "{keys}: {report}");
    }
}

fn turn(players: &mut [Player], at: usize, steps: u32) {
    let changes = players[at].play(steps);
    let others = players.iter_mut().enumerate().filter(|(number, _)| *number != at);
    others.for_each(|(_, player)| player.follow(&changes));
}

fn open(dir: &Path) -> OrdRegion {
    let dir = dir.join("region");
    let config = OrdConfig { hint_bytes: HINT_BYTES, ..OrdConfig::with_bytes(64 << 20) };
    OrdRegion::open_or_create(&dir.join("maps"), &config).unwrap()
}

/// The loop of a player process, until its input ends. Without the player's environment it does
/// nothing.
#[test]
fn player() {
    let (Ok(keys), Some(dir)) = (std::env::var(ROLE), std::env::var_os(DIR)) else { return };
    // No process outlives a stopped test.
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let dir = PathBuf::from(dir);
    let region = open(&dir);
    let participant = region.join().unwrap();
    let options = MapOptions { hint_bytes: HINT_BYTES, ..MapOptions::default() };
    let map = participant.map("oracle", &options).unwrap();
    let keys = Keys::ALL[keys.parse::<usize>().unwrap()];
    let mut play = Play::new(&map, keys, Rng::of("player"));
    let stream = UnixStream::connect(dir.join("turns")).unwrap();
    let mut from = BufReader::new(stream.try_clone().unwrap());
    let mut to = BufWriter::new(stream);
    // The player holds some entry while others play: that entry stays as it was.
    let mut held = None;
    while let Ok(told) = read_number(&mut from) {
        if told == FOLLOW {
            play.follow(read_changes(&mut from).unwrap());
            continue;
        }
        if let Some((entry, value)) = held.take() {
            let entry: Entry<'_> = entry;
            assert_eq!(entry.value(), value, "of {entry:?}, which was held");
        }
        match told {
            EMPTY => play.empty(),
            steps => (0..steps).for_each(|_| play.step()),
        }
        play.compare_all();
        held = map.first().unwrap().map(|entry| {
            let value = entry.value().to_vec();
            (entry, value)
        });
        write_changes(&mut to, &play.take_changes()).unwrap();
    }
}
