//! The memory limit of the process's control group.
//!
//! A process that exceeds this limit is killed without a message, however much memory the machine
//! has, so the cache must fit into it from the start.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::statfs;

use super::start_error::StartError;
use crate::config::ServerSettings;
use crate::limits::PROGRAM_BYTES;

/// The mount point of control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// A memory limit, and the file that sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// The file of the control group.
    pub file: PathBuf,
}

/// Checks that the cache fits into the memory limit of the process.
///
/// # Errors
/// [`StartError::Memory`]: it does not fit.
pub(super) fn check_memory(settings: &ServerSettings) -> Result<(), StartError> {
    // If this file does not exist, the system has no control groups.
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let cache_bytes = match settings.cache_dir.path() {
        // The system can write the pages of a file on a disk back and reuse their memory.
        Some(dir) if !is_in_memory(dir) => private_bytes(settings),
        _ => settings.cache_size,
    };
    let held_bytes = cache_bytes + rate_limit_bytes(settings);
    check(memory_limit(Path::new(CGROUPS), &membership), held_bytes, settings.cache_size)
}

/// Checks that a second cache fits beside the memory that is in use. In an upgrade without a common
/// cache, the running server keeps its cache until it ends; without this check the system might
/// kill it.
///
/// # Errors
/// [`StartError::MemoryInUse`]: it does not fit.
pub(super) fn check_memory_beside(settings: &ServerSettings) -> Result<(), StartError> {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    check_beside(limits(Path::new(CGROUPS), &membership), settings.cache_size)
}

fn check_beside(limits: Vec<MemoryLimit>, cache_size: u64) -> Result<(), StartError> {
    let needed_bytes = cache_size.saturating_add(PROGRAM_BYTES);
    for limit in limits {
        let used_bytes = used_bytes(&limit);
        if limit.bytes < used_bytes.saturating_add(needed_bytes) {
            return Err(StartError::MemoryInUse { cache_size, used_bytes, limit });
        }
    }
    Ok(())
}

/// Returns the memory that the group of a limit uses, without cached pages of files, which the
/// system could write back; 0 if the system does not report it.
fn used_bytes(limit: &MemoryLimit) -> u64 {
    let (usage, prefix) = match limit.file.ends_with("memory.max") {
        true => ("memory.current", ""),
        false => ("memory.usage_in_bytes", "total_"),
    };
    let used = read_number(&limit.file.with_file_name(usage)).unwrap_or(0);
    let stat = fs::read_to_string(limit.file.with_file_name("memory.stat")).unwrap_or_default();
    let files = stat.lines().filter_map(|line| {
        let (name, bytes) = line.split_once(' ')?;
        let is_file = ["inactive_file", "active_file"].contains(&name.strip_prefix(prefix)?);
        bytes.parse::<u64>().ok().filter(|_| is_file)
    });
    used.saturating_sub(files.sum())
}

fn check(limit: Option<MemoryLimit>, cache_bytes: u64, cache_size: u64) -> Result<(), StartError> {
    match limit {
        Some(limit) if limit.bytes < cache_bytes.saturating_add(PROGRAM_BYTES) => {
            Err(StartError::Memory { cache_size, limit })
        }
        _ => Ok(()),
    }
}

/// Returns the bytes of the table of rate limits.
fn rate_limit_bytes(settings: &ServerSettings) -> u64 {
    u64::from(settings.rate_limit_entries) * 8
}

/// Returns the bytes of the cache that are not in its file: arriving responses, and copies for slow
/// clients.
fn private_bytes(settings: &ServerSettings) -> u64 {
    settings.cache_size / 100 * u64::from(settings.growing_percent_max) + settings.cache_size / 32
}

/// Whether a directory, or its nearest ancestor that exists, is on a file system in memory.
fn is_in_memory(dir: &Path) -> bool {
    let found = dir.ancestors().find_map(|dir| {
        // The last ancestor of a relative path is empty.
        let is_here = dir.as_os_str().is_empty();
        statfs(if is_here { Path::new(".") } else { dir }).ok()
    });
    found.is_none_or(|found| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&found.f_type))
}

/// The types of file systems in memory (`statfs(2)`).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
const RAMFS_MAGIC: rustix::fs::FsWord = 0x8584_58f6;

/// Returns the lowest memory limit of a process's group and the groups above it. `membership` is
/// the text of `/proc/PID/cgroup`, and `root` the mount point of control groups.
fn memory_limit(root: &Path, membership: &str) -> Option<MemoryLimit> {
    limits(root, membership).into_iter().min_by_key(|limit| limit.bytes)
}

/// Returns the limits of a process's group and of all groups above it.
fn limits(root: &Path, membership: &str) -> Vec<MemoryLimit> {
    let groups = membership.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    let of_groups = groups.flat_map(|(controllers, group)| {
        let trees: &[(&str, &str)] = match controllers {
            "" => &[("", "memory.max"), ("unified", "memory.max")],
            _ if controllers.split(',').any(|name| name == "memory") => {
                &[("memory", "memory.limit_in_bytes")]
            }
            _ => &[],
        };
        trees.iter().flat_map(|(tree, file)| limits_up(&root.join(tree), group, file))
    });
    of_groups.collect()
}

/// Returns the limits of a group and of the groups above it, up to the top of the tree.
fn limits_up(tree: &Path, group: &str, file: &str) -> Vec<MemoryLimit> {
    // In a container the group's name may begin outside the visible tree. Then the container's
    // limit is at the top of the tree.
    let is_visible = !Path::new(group).components().any(|part| part == Component::ParentDir);
    let group = Path::new(if is_visible { group.trim_start_matches('/') } else { "" });
    let limits = group.ancestors().filter_map(|group| {
        let file = tree.join(group).join(file);
        // The value "max" means no limit, and so does a file that does not exist.
        let bytes = read_number(&file).ok()?;
        Some(MemoryLimit { bytes, file })
    });
    limits.collect()
}

fn read_number(file: &Path) -> io::Result<u64> {
    fs::read_to_string(file)?.trim().parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use forebay_testkit::server::Folder;

    use super::*;

    const V1_UNLIMITED: &str = "9223372036854771712\n";

    /// Columns: files below the mount point; the text of `/proc/self/cgroup`; the lowest limit.
    type Case =
        (&'static [(&'static str, &'static str)], &'static str, Option<(u64, &'static str)>);

    const CASES: &[Case] = &[
        (&[], "", None),
        (&[], "0::/", None),
        (&[("memory.max", "max\n")], "0::/", None),
        (&[("memory.max", "1000\n")], "0::/", Some((1000, "memory.max"))),
        (
            &[("a/memory.max", "3000\n"), ("a/b/memory.max", "max\n"), ("c/memory.max", "1\n")],
            "0::/a/b",
            Some((3000, "a/memory.max")),
        ),
        (
            &[("a/memory.max", "3000\n"), ("a/b/memory.max", "2000\n")],
            "0::/a/b",
            Some((2000, "a/b/memory.max")),
        ),
        (&[("memory.max", "500\n")], "0::/../other", Some((500, "memory.max"))),
        (
            &[
                ("memory/memory.limit_in_bytes", V1_UNLIMITED),
                ("memory/docker/x/memory.limit_in_bytes", "700\n"),
            ],
            "9:name=systemd:/\n4:cpu,memory:/docker/x\n0::/\n",
            Some((700, "memory/docker/x/memory.limit_in_bytes")),
        ),
        (
            &[("memory/memory.limit_in_bytes", "900\n")],
            "4:memory:/docker/invisible\n",
            Some((900, "memory/memory.limit_in_bytes")),
        ),
        (
            &[("memory/memory.limit_in_bytes", "900\n"), ("unified/s/memory.max", "800\n")],
            "4:memory:/\n0::/s\n",
            Some((800, "unified/s/memory.max")),
        ),
    ];

    #[test]
    fn the_lowest_limit_of_a_group_and_those_above_it_counts() {
        for (files, membership, expected) in CASES {
            let root = Folder::new();
            for (file, text) in *files {
                let file = root.path(file);
                fs::create_dir_all(file.parent().expect("a folder")).expect("it is ours");
                fs::write(file, text).expect("it is ours");
            }
            let found = memory_limit(&root.path(""), membership);
            let expected =
                expected.map(|(bytes, file)| MemoryLimit { bytes, file: root.path(file) });
            assert_eq!(found, expected, "{files:?} {membership:?}");
        }
    }

    #[test]
    fn a_second_cache_fits_beside_the_memory_in_use_but_for_files() {
        let (cache_size, limit) = (256 << 20, 600 << 20);
        let most = limit - cache_size - PROGRAM_BYTES;
        let files = 100 << 20;
        let stat = |prefix: &str| {
            let half = files / 2;
            format!("anon 7\n{prefix}inactive_file {half}\n{prefix}active_file {half}\nx\n")
        };
        let versions = [
            ("", "0::/a", ("memory.max", "memory.current"), ""),
            (
                "memory/",
                "4:memory:/a",
                ("memory.limit_in_bytes", "memory.usage_in_bytes"),
                "total_",
            ),
        ];
        for (tree, membership, (limit_file, usage_file), prefix) in versions {
            // The group above has the tighter limit, because other processes use its memory.
            for (used, fits) in [(most + files, true), (most + files + 1, false)] {
                let root = Folder::new();
                fs::create_dir_all(root.path(&format!("{tree}a"))).expect("it is ours");
                let write = |file: &str, text: String| {
                    fs::write(root.path(&format!("{tree}{file}")), text).expect("it is ours");
                };
                write(limit_file, limit.to_string());
                write(usage_file, used.to_string());
                write("memory.stat", stat(prefix));
                write(&format!("a/{limit_file}"), (limit - 1).to_string());
                write(&format!("a/{usage_file}"), "0".to_owned());
                let checked = check_beside(limits(&root.path(""), membership), cache_size);
                assert_eq!(checked.is_ok(), fits, "{membership} {used}: {checked:?}");
            }
        }
    }

    #[test]
    fn a_directory_is_in_memory_if_its_nearest_ancestor_is() {
        // The folder of this crate is on a disk, unless the whole tree is in memory.
        let here = statfs(".").expect("it exists").f_type;
        let is_here = here == TMPFS_MAGIC || here == RAMFS_MAGIC;
        let shm = statfs("/dev/shm").is_ok_and(|found| found.f_type == TMPFS_MAGIC);
        let cases = [
            ("cache", is_here),
            ("cache/below", is_here),
            ("./cache", is_here),
            (".", is_here),
            ("/proc", false),
            ("/dev/shm", shm),
            ("/dev/shm/absent/below", shm),
        ];
        for (dir, expected) in cases {
            assert_eq!(is_in_memory(Path::new(dir)), expected, "{dir}");
        }
    }

    #[test]
    fn a_cache_that_does_not_fit_is_refused_with_the_limit_and_its_file() {
        let limit = |bytes| Some(MemoryLimit { bytes, file: "/sys/x/memory.max".into() });
        let cache_size = 256 << 20;
        assert!(check(None, cache_size, cache_size).is_ok());
        assert!(check(limit(cache_size + PROGRAM_BYTES), cache_size, cache_size).is_ok());
        let refused = check(limit(200 << 20), cache_size, cache_size).expect_err("it is too large");
        assert_eq!(
            refused.to_string(),
            "cache_size (256 MiB) and 32 MiB for the program exceed the memory limit of 200 MiB \
             in /sys/x/memory.max; lower cache_size, or raise the limit"
        );
    }
}
