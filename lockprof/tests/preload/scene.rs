//! A directory for a test: a program is compiled into it and run there, and leaves profiles there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use forebay_sync::profile::{ProfileSnapshot, SiteTotals};
use forebay_testkit::has_compiler;
use tempfile::TempDir;

/// A directory with a compiled program that a test runs.
pub(crate) struct Scene {
    dir: TempDir,
    name: &'static str,
}

/// The counts of a program's actions, by the kind of lock and the name of the count.
type Counts = BTreeMap<(String, String), u64>;

impl Scene {
    /// Compiles a program. Returns `None` if there is no compiler, so that the test is skipped.
    pub(crate) fn compile(name: &'static str) -> Option<Scene> {
        let compiler = if name.ends_with(".cc") { "c++" } else { "cc" };
        if !has_compiler(compiler) {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(compiler);
        let flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Werror", "-pthread", "-o"];
        command.args(flags).arg(dir.path().join("program")).arg(source(name)).arg("-ldl");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Scene { dir, name })
    }

    /// Compiles `plugin.c` as a library, to a file of this name.
    pub(crate) fn compile_plugin(&self, name: &str, flags: &[&str]) {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-g", "-fno-omit-frame-pointer", "-DPLUGIN", "-shared", "-fPIC", "-o"]);
        cc.arg(self.path(name)).arg(source("plugin.c")).args(flags);
        assert!(cc.status().unwrap().success(), "{name}");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command that runs the program with recording.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("program"));
        command.args(arguments).current_dir(self.dir.path());
        command.env("LD_PRELOAD", library()).env("LOCKPROF_FILE", self.path("profile"));
        command.env("LOCKPROF_THREADS", "80").env("LOCKPROF_ROWS", "128");
        command
    }

    /// Runs the program, which must succeed.
    pub(crate) fn run(&self, command: &mut Command) -> Output {
        let output = command.output().unwrap();
        let (said, failed) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{} {:?}: {said}{failed}", self.name, output.status);
        assert!(failed.is_empty(), "{}: {failed}", self.name);
        output
    }

    /// Reads the profile of this name, and removes it.
    pub(crate) fn take(&self, name: &str) -> ProfileSnapshot {
        let path = self.path(name);
        let reading = ProfileSnapshot::of(&fs::read(&path).unwrap()[..]).unwrap();
        fs::remove_file(path).unwrap();
        reading
    }

    /// Names of all profiles in the directory.
    pub(crate) fn profiles(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.starts_with("profile")).collect();
        names.sort();
        names
    }

    /// Runs a case in which `profile_count` processes make profiles, and compares the report of
    /// each process with its profile.
    pub(crate) fn compare_all(
        &self,
        arguments: &[&str],
        profile_count: usize,
    ) -> Vec<ProfileSnapshot> {
        self.compare_all_of(&mut self.command(arguments), profile_count)
    }

    pub(crate) fn compare_all_of(
        &self,
        command: &mut Command,
        profile_count: usize,
    ) -> Vec<ProfileSnapshot> {
        let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let output = self.run(command);
        let names = self.profiles();
        assert_eq!(names.len(), profile_count, "{arguments:?}: {names:?}");
        let take = |name: &String| {
            let reading = self.take(name);
            compare(&output, &reading, &format!("{arguments:?}: {name}"));
            let counts = &reading.counts;
            assert_eq!(counts.lost, 0, "{arguments:?}: {name}");
            reading
        };
        names.iter().map(take).collect()
    }

    /// Runs the program and compares its report with the profile.
    pub(crate) fn compare(&self, arguments: &[&str]) -> ProfileSnapshot {
        let output = self.run(&mut self.command(arguments));
        let reading = self.take("profile");
        compare(&output, &reading, &format!("{} {arguments:?}", self.name));
        reading
    }
}

/// The path of a program's source.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Compares the report of a program with its profile.
pub(crate) fn compare(output: &Output, reading: &ProfileSnapshot, case: &str) {
    let expected = expected(output, reading.about.pid);
    let found = found(reading);
    assert!(!expected.is_empty(), "{case}: the program reported no counts");
    for (what, count) in &expected {
        assert_eq!(found.get(what).copied().unwrap_or(0), *count, "{case}: {what:?}");
    }
}

fn expected(output: &Output, pid: u32) -> Counts {
    let said = String::from_utf8_lossy(&output.stdout);
    let mut expected = Counts::new();
    for line in said.lines() {
        if let ["expect", of, kind, field, count] = line.split('|').collect::<Vec<_>>()[..]
            && of == pid.to_string()
        {
            expected.insert((kind.into(), field.into()), count.parse().unwrap());
        }
    }
    expected
}

fn found(reading: &ProfileSnapshot) -> Counts {
    let mut found = Counts::new();
    for (kind, totals) in by_kind(reading) {
        for (field, count) in [
            ("count", totals.count),
            ("holds", totals.holds.iter().sum()),
            ("try_failed", totals.try_failed_count),
            ("timed_out", totals.timed_out_count),
            ("shared", totals.shared_count),
            ("owner_died", totals.owner_died_count),
            ("asleep", totals.asleep_count),
            ("delays", totals.try_delay_count),
        ] {
            found.insert((kind.clone(), field.into()), count);
        }
    }
    found
}

/// The totals by kind of lock. No event may lack a site.
pub(crate) fn by_kind(reading: &ProfileSnapshot) -> BTreeMap<String, SiteTotals> {
    let mut kinds = BTreeMap::<String, SiteTotals>::new();
    for (key, totals) in reading.threads.iter().flat_map(|thread| &thread.rows) {
        let site = reading.sites.get(key).unwrap_or_else(|| panic!("no site for {key:#x}"));
        kinds.entry(site.name.to_string()).or_default().add(totals);
    }
    kinds
}

/// The path of the library that cargo has built for this test.
pub(crate) fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent().unwrap().join("liblockprof.so")
}
