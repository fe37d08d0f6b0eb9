//! The roles that the child processes of these tests play.

use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_shm::{
    Liveness, Opened, ParticipantStatus, Region, RegionErrorKind, RegionSpec, ReplacedWhy,
};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::shared::{SPEC, Shared, names_beside};
use forebay_testkit::process::{PATIENCE, SAY, now};

/// Plays the role that the environment names, if any.
pub(crate) fn run() {
    let Ok(role) = std::env::var("FOREBAY_ROLE") else {
        return;
    };
    let path = PathBuf::from(std::env::var_os("FOREBAY_REGION").unwrap());
    if role == "idle" {
        return wait_for_end();
    }
    // When the test is stopped, its processes die, too.
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    match &*role {
        "open" => open(&path),
        "once" => once(&Shared::open(&path)),
        "sweep" => drop(Shared::open(&path).sweep()),
        "churn" => churn(&Shared::open(&path)),
        "hold_until_waited" => hold_until_waited(&Shared::open(&path)),
        "hold_and_spawn" => hold_and(&Shared::open(&path), spawn_idle),
        "hold_and_fork" => hold_and(&Shared::open(&path), fork_idle),
        "open_too_large" => {
            Region::open_or_create(&path, &RegionSpec { bytes: 1 << 60, ..SPEC }).unwrap_err();
        }
        "limited" => limited(&path),
        "become_nobody" => become_nobody(&Shared::open(&path)),
        "tight" => tight(&path),
        "part_beside_child" => part_beside_child(&Shared::open(&path)),
        "drop_in_child" => drop_in_child(&Shared::open(&path)),
        other => panic!("there is no role {other}"),
    }
}

fn say(text: &str) {
    println!("{SAY}{text}");
}

fn wait_for_go() {
    let mut byte = [0];
    let _ = std::io::stdin().read_exact(&mut byte);
}

fn wait_for_end() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Opens the region at the same time as other processes.
fn open(path: &Path) {
    say("ready");
    wait_for_go();
    let region = Region::open_or_create(path, &SPEC).unwrap();
    let participant = region.join().unwrap();
    let opened = format!("{:?}", region.opened());
    let opened = opened.split(' ').next().unwrap();
    say(&format!("{opened} {:x} row{}", u128::from_le_bytes(region.seed()), participant.id().row));
    wait_for_end();
    participant.leave();
}

/// Plays the whole life of a participant once.
fn once(shared: &Shared) {
    let participant = shared.region.join().unwrap();
    shared.work(&participant);
    // Now there is something to read.
    shared.work(&participant);
    shared.sweep();
    participant.leave();
}

/// Plays the whole life of a participant repeatedly.
fn churn(shared: &Shared) {
    let number = std::env::var("FOREBAY_NUMBER").unwrap().parse().unwrap();
    let mut participant = shared.region.join().unwrap();
    say("ready");
    let mut round = 0_u64;
    while !shared.is_stopped() {
        shared.work(&participant);
        shared.count_progress(number);
        round += 1;
        if round.is_multiple_of(16) {
            shared.sweep();
        }
        if round.is_multiple_of(64) {
            participant.leave();
            participant = shared.region.join().unwrap();
        }
    }
    participant.leave();
}

/// Holds the lock until a thread sleeps on it.
fn hold_until_waited(shared: &Shared) {
    let participant = shared.region.join().unwrap();
    let lock = shared.lock();
    let guard = lock.lock(&participant).unwrap();
    say("holding");
    let deadline = now() + PATIENCE;
    while !shared.has_waiters() {
        assert!(now() < deadline, "no thread waits for the lock");
        std::thread::yield_now();
    }
    drop(guard);
    drop(lock);
    participant.leave();
}

fn hold_and(shared: &Shared, make_child: fn() -> u32) {
    let participant = shared.region.join().unwrap();
    let lock = shared.lock();
    let _guard = lock.lock(&participant).unwrap();
    say(&make_child().to_string());
    wait_for_end();
}

/// Starts a child that executes a program, and so has none of this process's files except standard
/// input.
#[expect(clippy::zombie_processes, reason = "it outlives us: that is the test")]
fn spawn_idle() -> u32 {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture"])
        .env("FOREBAY_ROLE", "idle")
        .stdin(Stdio::inherit())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.id()
}

/// Makes a region beyond the limit on the size of files: this must be an error and must not kill
/// the process.
fn limited(path: &Path) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(4096), maximum: None };
    setrlimit(Resource::Fsize, limit).unwrap();
    for error in [Region::open_or_create(path, &SPEC), Region::anonymous(&SPEC)] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("allocate the file"), "{error}");
    }
}

/// Changes the user of the process, and checks that joining fails with a reason.
fn become_nobody(shared: &Shared) {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only the superuser can become another user");
    }
    let nobody = nix::unistd::Uid::from_raw(65534);
    nix::unistd::setresuid(nobody, nobody, nobody).unwrap();
    let error = shared.region.join().unwrap_err().to_string();
    assert!(error.contains("/proc/self/fd"), "{error}");
}

/// Mounts a file system with space for one region, which only this process sees. Only the superuser
/// may mount it.
fn tight(path: &Path) {
    use nix::mount::{MsFlags, mount};
    let dir = path.parent().unwrap();
    std::fs::create_dir(dir).unwrap();
    let mounted = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)
        .and_then(|()| {
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        })
        .and_then(|()| {
            let size = format!("size={},mode=0700", SPEC.bytes + 8192);
            mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), Some(&*size))
        });
    if let Err(error) = mounted {
        return say(&format!("cannot mount: {error}"));
    }
    tight_cases(path);
    say("done");
}

fn tight_cases(path: &Path) {
    let open = |bytes| Region::open_or_create(path, &RegionSpec { bytes, ..SPEC });
    let seed = open(SPEC.bytes).unwrap().seed();
    let error = open(SPEC.bytes + 4096).unwrap_err();
    let kept = matches!(error.kind, RegionErrorKind::NoSpace { old_is_kept: true, .. });
    assert!(kept, "the error does not mention the old region: {error}");
    assert_eq!(open(SPEC.bytes).unwrap().seed(), seed, "the old region is gone");
    for (at, case) in [(8, "another layout"), (50, "damaged")] {
        let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 2], at).unwrap();
        // An open file would still occupy its space.
        drop(file);
        let region = open(SPEC.bytes).unwrap();
        assert!(
            matches!(region.opened(), Opened::Replaced { .. }),
            "{case}: {:?}",
            region.opened()
        );
        if let Opened::Replaced { why: ReplacedWhy::Damaged { kept, .. } } = region.opened() {
            assert_eq!(*kept, None, "{case}: kept the old file without room for both");
        }
        assert_eq!(names_beside(path), ["region"], "{case}");
    }
}

/// Ends participants in every way while a child has copies of all descriptors.
fn part_beside_child(shared: &Shared) {
    let region = &shared.region;
    let (us, dropped, left) =
        (region.join().unwrap(), region.join().unwrap(), region.join().unwrap());
    let lock = shared.lock();
    std::mem::forget(lock.lock(&dropped).unwrap());
    fork_idle();
    let (dropped_id, left_id) = (dropped.id(), left.id());
    drop(dropped);
    assert!(!us.is_alive(dropped_id), "a dropped participant lives on through a child");
    assert_eq!(region.list()[1].status, ParticipantStatus::Dead);
    assert!(lock.lock_within(&us, PATIENCE).unwrap().must_repair());
    left.leave();
    let next = region.join().unwrap();
    assert_eq!(next.id().row, left_id.row, "the row of a participant that left is still taken");
    next.leave();
    assert_eq!(region.sweep(|_| _ = fork_idle()).unwrap(), 1);
    let next = region.join().unwrap();
    assert_eq!(next.id().row, dropped_id.row, "the row of a swept participant is still taken");
    say("done");
    wait_for_end();
}

/// Drops and leaves the parent's participants in a child, which must change nothing.
fn drop_in_child(shared: &Shared) {
    let us = shared.region.join().unwrap();
    let (dropped, left) = (shared.region.join().unwrap(), shared.region.join().unwrap());
    let ids = [dropped.id(), left.id()];
    let both = std::cell::Cell::new(Some((dropped, left)));
    let child = fork_that(|| {
        if let Some((dropped, left)) = both.take() {
            drop(dropped);
            left.leave();
        }
    });
    nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child.cast_signed()), None).unwrap();
    assert!(ids.iter().all(|id| us.is_alive(*id)), "{:?}", shared.region.list());
}

/// Forks a child that continues as a copy of this process, with all its files.
fn fork_idle() -> u32 {
    fork_that(|| {
        let mut bytes = [0; 16];
        while rustix::io::read(rustix::stdio::stdin(), &mut bytes).is_ok_and(|n| n > 0) {}
    })
}

/// Forks a child that runs a closure and kills itself.
fn fork_that(run: impl FnOnce()) -> u32 {
    // SAFETY: the child only makes system calls and frees memory until it kills itself, so it
    // cannot meet a lock that another thread held at the fork: the allocator's locks are free in a
    // child.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Parent { child } => child.as_raw().unsigned_abs(),
        nix::unistd::ForkResult::Child => {
            run();
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
            loop {
                std::hint::spin_loop();
            }
        }
    }
}
