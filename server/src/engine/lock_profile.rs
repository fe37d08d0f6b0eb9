//! The lock profile of this process. A server that cannot create its lock profile runs without it:
//! it logs and counts the failure, and reports the reason on the admin interface.

use std::path::Path;

use forebay_shm::{CounterError, UnnamedProfile};
use forebay_sync::profile::{self, ProfilePlan, StackPlan};

use super::control::Control;
use super::runtime_paths::lock_profile_file;
use crate::clock;
use crate::config::ServerSettings;

/// The sizes of the tables of a lock profile, with room for several times as many lock sites as
/// Forebay has. The size of the file determines the number of threads.
const PLAN: ProfilePlan = ProfilePlan {
    sites: 256,
    frames: 0,
    modules: 128,
    text_bytes: 32 << 10,
    threads: 1,
    rows: 64,
    pairs: 128,
    stacks: StackPlan { stacks: 512, frames: 48, samples: 128 },
};

/// The sizes of [`PLAN`], but without room for call stacks.
const PLAN_WITHOUT_STACKS: ProfilePlan =
    ProfilePlan { modules: 0, stacks: StackPlan::NONE, ..PLAN };

/// Creates the profile, and starts recording if the settings say so. Returns `None` if the settings
/// turn the profile off, or another server in this process has one. The file has no name yet: see
/// [`name`].
pub(super) fn prepare(
    settings: &ServerSettings,
    runtime_dir: &Path,
    port: u16,
) -> Result<Option<UnnamedProfile>, CounterError> {
    let Some(plan) = plan(settings.lock_profile_size) else {
        return Ok(None);
    };
    let program = std::env::args_os().next().unwrap_or_default();
    let unix_ns = clock::unix_ns();
    let path = lock_profile_file(runtime_dir, port);
    let made = UnnamedProfile::prepare(&path, plan, &program.to_string_lossy(), unix_ns)?;
    // If several servers run in one process, only the first has a profile.
    if profile::install(made.profile()).is_err() {
        return Ok(None);
    }
    made.profile().set_stack_sample(settings.lock_profile_stacks.into());
    made.profile().turn(settings.lock_profile);
    Ok(Some(made))
}

/// Whether a file of this size has room for call stacks.
pub(crate) fn has_room_for_stacks(bytes: u64) -> bool {
    plan(bytes).is_some_and(|plan| plan.stacks != StackPlan::NONE)
}

/// Returns the plan for a file of this size; a small file has no room for call stacks.
fn plan(bytes: u64) -> Option<ProfilePlan> {
    PLAN.within(bytes).or_else(|| PLAN_WITHOUT_STACKS.within(bytes))
}

/// Returns the profile if it was created; logs and counts an error.
pub(super) fn told(
    control: &Control,
    made: Result<Option<UnnamedProfile>, CounterError>,
) -> Option<UnnamedProfile> {
    made.unwrap_or_else(|error| {
        control.lock_profile_failed(&error);
        None
    })
}

/// Gives the profile's file its name. If that fails, no program could read the profile, so
/// recording stops.
pub(super) fn name(control: &Control, made: Option<UnnamedProfile>) {
    let Some(made) = made else {
        return;
    };
    let profile = made.profile();
    if let Err(error) = made.name() {
        profile.turn(false);
        control.lock_profile_failed(&error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_size_is_for_as_many_threads_as_its_reason_says() {
        let settings = ServerSettings::default();
        let plan = plan(settings.lock_profile_size).expect("there is room");
        assert_eq!((plan.threads, plan.fault()), (47, None));
        let one_more = ProfilePlan { threads: 48, ..PLAN }.bytes() - plan.bytes();
        assert!((58 << 10..60 << 10).contains(&one_more), "{one_more}");
        assert_eq!(super::plan(0), None);
    }

    #[test]
    fn a_small_file_has_room_for_places_before_it_has_room_for_stacks() {
        for (kib, threads, has_stacks) in
            [(90, 0, false), (110, 1, false), (350, 1, true), (330, 1, false)]
        {
            let found = plan(kib << 10).map_or(0, |plan| plan.threads);
            assert_eq!(
                (found > 0, has_room_for_stacks(kib << 10)),
                (threads > 0, has_stacks),
                "{kib}"
            );
        }
    }
}
