//! The file of a lock profile: creating the profile of this process, and reading and switching the
//! profile of any process.
//!
//! A reader does not map the file, so a file that is truncated is an error, not a signal.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use forebay_sync::profile::{
    Clock, ProcessIdentity, Profile, ProfileBytes, ProfileHeader, ProfilePlan, ProfileSnapshot,
    SiteKind, Switch,
};

use crate::error::{CounterError, CounterErrorKind};
use crate::file::{self, Access, FileId, TempName};
use crate::modules;
use crate::process::Writer;

/// A profile of this process whose file does not have its name yet. Dropping the value removes the
/// file.
#[derive(Debug)]
pub struct UnnamedProfile {
    profile: &'static Profile,
    temp: TempName,
}

impl UnnamedProfile {
    /// Makes a profile with the same mode and checks of the directory as a counter file
    /// ([`CounterFile::create`](crate::CounterFile::create)); all its bytes are allocated. The
    /// profile stays mapped as long as the process lives.
    ///
    /// # Errors
    /// The plan is invalid, the directory is not private, the disk is full, or the system refuses.
    pub fn prepare(
        path: &Path,
        plan: ProfilePlan,
        program: &str,
        unix_ns: u64,
    ) -> Result<UnnamedProfile, CounterError> {
        if let Some(what) = plan.fault() {
            return Err(CounterError::definition(what));
        }
        let bytes = usize::try_from(plan.bytes()).map_err(|_| {
            CounterError::definition("the size of the profile is too large for this machine")
        })?;
        let (words, temp) = file::make(path, &[], bytes)?;
        let words = Box::leak(Box::new(words)).all();
        let Writer { pid, start_ticks, boot_id } = Writer::this_process();
        let kind = SiteKind::Places;
        let us = ProcessIdentity { pid, start_ticks, boot_id, unix_ns, program, kind };
        let profile = Profile::new(words, plan, Clock::fastest(), &us).ok_or_else(|| {
            CounterError::definition("the size of the profile is too large for this machine")
        })?;
        if plan.modules > 0 {
            modules::tell(&profile);
        }
        Ok(UnnamedProfile { profile: Box::leak(Box::new(profile)), temp })
    }

    /// The profile, which is switched off.
    #[must_use]
    pub fn profile(&self) -> &'static Profile {
        self.profile
    }

    /// Gives the file its name, and replaces an older file of that name.
    ///
    /// # Errors
    /// The system refuses.
    pub fn name(self) -> Result<(), CounterError> {
        self.temp.name()
    }
}

/// The file of a profile of any process.
#[derive(Debug)]
pub struct ProfileFile {
    path: PathBuf,
    file: File,
    byte_count: u64,
    id: FileId,
}

impl ProfileFile {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The file is missing, is another user's, or is not a plain file.
    pub fn open(path: &Path) -> Result<ProfileFile, CounterError> {
        ProfileFile::open_for(path, Access::Read)
    }

    /// Opens a file for switching.
    ///
    /// # Errors
    /// The errors of [`ProfileFile::open`]; also if the file cannot be written.
    pub fn open_to_switch(path: &Path) -> Result<ProfileFile, CounterError> {
        ProfileFile::open_for(path, Access::Write)
    }

    fn open_for(path: &Path, access: Access) -> Result<ProfileFile, CounterError> {
        let (file, byte_count) = file::open(path, access)?;
        let found = file
            .metadata()
            .map_err(|error| CounterError::io(path, "read the status of the file", error))?;
        Ok(ProfileFile { path: path.to_owned(), file, byte_count, id: FileId::of(&found) })
    }

    /// Reads a snapshot of the profile.
    ///
    /// # Errors
    /// The file is not a profile, was written by a newer program, is truncated or damaged, or
    /// cannot be read.
    pub fn read(&self) -> Result<ProfileSnapshot, CounterError> {
        ProfileSnapshot::of(self).map_err(|error| self.error(error))
    }

    /// Reads only the header, which names the process.
    ///
    /// # Errors
    /// The errors of [`ProfileFile::read`].
    pub fn about(&self) -> Result<ProfileHeader, CounterError> {
        ProfileHeader::of(self).map_err(|error| self.error(error))
    }

    /// Sets a switch of the profile. The profiled program obeys it from its next attempt to take a
    /// lock.
    ///
    /// # Errors
    /// The file is not a profile, is damaged, or cannot be written.
    pub fn switch(&self, switch: Switch, value: u64) -> Result<(), CounterError> {
        self.about()?;
        let written = self.file.write_all_at(&value.to_le_bytes(), switch.offset_bytes());
        written.map_err(|error| CounterError::io(&self.path, "write the file", error))
    }

    /// Discards everything that the profile has recorded.
    ///
    /// # Errors
    /// The errors of [`ProfileFile::switch`].
    pub fn reset(&self, unix_ns: u64) -> Result<(), CounterError> {
        let generation = self.read()?.control.generation;
        self.switch(Switch::ResetUnixNs, unix_ns)?;
        self.switch(Switch::Generation, generation.wrapping_add(1))
    }

    /// Whether this file is still at its path; another file there belongs to a newer process.
    /// `None` if there is no file at the path.
    pub fn is_in_place(&self) -> Option<bool> {
        let found = std::fs::symlink_metadata(&self.path).ok()?;
        Some(FileId::of(&found) == self.id)
    }

    /// The path at which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, error: forebay_sync::profile::ProfileError) -> CounterError {
        CounterError::at(&self.path, CounterErrorKind::Profile(error))
    }
}

impl ProfileBytes for ProfileFile {
    fn byte_count(&self) -> u64 {
        self.byte_count
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }
}

/// Whether the process that writes this profile is still running.
#[must_use]
pub fn is_alive(about: &ProfileHeader) -> bool {
    let ProfileHeader { pid, start_ticks, boot_id, .. } = *about;
    Writer { pid, start_ticks, boot_id }.is_alive()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use forebay_sync::profile::StackPlan;

    use super::*;

    const PLAN: ProfilePlan = ProfilePlan {
        sites: 16,
        frames: 0,
        modules: 0,
        text_bytes: 256,
        threads: 2,
        rows: 16,
        pairs: 16,
        stacks: StackPlan::NONE,
    };

    #[test]
    fn a_profile_knows_the_programs_and_libraries_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/1.locks");
        let plan = ProfilePlan { modules: 256, text_bytes: 1 << 16, ..PLAN };
        UnnamedProfile::prepare(&path, plan, "", 5).unwrap().name().unwrap();
        let reading = ProfileFile::open(&path).unwrap().read().unwrap();
        let here = UnnamedProfile::prepare as *const () as u64;
        let ours = reading.modules.iter().find(|module| (module.start..module.end).contains(&here));
        let us = std::env::current_exe().unwrap();
        assert_eq!(ours.map(|module| &*module.path), us.to_str(), "{:?}", reading.modules);
        assert_eq!(reading.counts.modules_rejected, 0);
        drop(prepare(&path).name());
        assert!(ProfileFile::open(&path).unwrap().read().unwrap().modules.is_empty());
    }

    fn prepare(path: &Path) -> UnnamedProfile {
        UnnamedProfile::prepare(path, PLAN, "a program", 5).unwrap()
    }

    #[test]
    fn a_file_is_private_and_whole_and_has_its_name_when_it_is_given_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/1.locks");
        let unnamed = prepare(&path);
        assert!(!path.exists());
        unnamed.name().unwrap();
        let found = path.metadata().unwrap();
        assert_eq!((found.permissions().mode() & 0o777, found.len()), (0o600, PLAN.bytes()));
        assert!(found.blocks() * 512 >= PLAN.bytes(), "the file is not allocated completely");
        let file = ProfileFile::open(&path).unwrap();
        let about = file.about().unwrap();
        assert!(is_alive(&about));
        assert_eq!((&*about.program, about.created_unix_ns), ("a program", 5));
        drop(prepare(&path));
        assert_eq!(std::fs::read_dir(dir.path().join("run")).unwrap().count(), 1);
        assert_eq!(file.is_in_place(), Some(true));
        prepare(&path).name().unwrap();
        assert_eq!(file.is_in_place(), Some(false));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.is_in_place(), None);
    }

    #[test]
    fn who_maps_a_profile_sees_at_once_how_it_is_switched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/1.locks");
        let unnamed = prepare(&path);
        let profile = unnamed.profile();
        unnamed.name().unwrap();
        let file = ProfileFile::open_to_switch(&path).unwrap();
        assert!(!profile.is_on());
        file.switch(Switch::Enabled, 1).unwrap();
        file.switch(Switch::Skip, 9).unwrap();
        assert!(profile.is_on());
        file.reset(77).unwrap();
        let control = file.read().unwrap().control;
        assert_eq!((control.skip, control.generation, control.reset_unix_ns), (9, 2, 77));
        let read_only = ProfileFile::open(&path).unwrap();
        assert!(read_only.switch(Switch::Enabled, 0).is_err());
        assert!(profile.is_on());
    }

    #[test]
    fn a_plan_that_is_none_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/1.locks");
        let error =
            UnnamedProfile::prepare(&path, ProfilePlan { sites: 3, ..PLAN }, "", 0).unwrap_err();
        assert!(error.to_string().contains("the number of sites"), "{error}");
        assert!(!dir.path().join("run").exists());
    }
}
