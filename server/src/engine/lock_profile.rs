//! The profile of this process's locks. A server that can't have one serves all the same: that is
//! told once, and counted, and whoever asks for the profile hears why there is none.

use std::path::Path;

use forebay_shm::{CounterError, UnnamedProfile};
use forebay_sync::profile::{self, ProfilePlan, StackPlan};

use super::control::Control;
use super::runtime_paths::lock_profile_file;
use crate::clock;
use crate::config::ServerSettings;

/// Room for each place where we take a lock, several times over; the size in bytes says for how
/// many threads.
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

const PLAN_WITHOUT_STACKS: ProfilePlan =
    ProfilePlan { modules: 0, stacks: StackPlan::NONE, ..PLAN };

/// Makes the profile and records from now on, if the settings say so. The file has its name when
/// the server serves.
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
    // Of several servers in one process the first has the locks.
    if profile::install(made.profile()).is_err() {
        return Ok(None);
    }
    made.profile().set_stack_sample(settings.lock_profile_stacks.into());
    made.profile().turn(settings.lock_profile);
    Ok(Some(made))
}

/// Has a file of this size room for stacks?
pub(crate) fn has_room_for_stacks(bytes: u64) -> bool {
    plan(bytes).is_some_and(|plan| plan.stacks != StackPlan::NONE)
}

/// The plan for a file of this size: a small one has no room for stacks.
fn plan(bytes: u64) -> Option<ProfilePlan> {
    PLAN.within(bytes).or_else(|| PLAN_WITHOUT_STACKS.within(bytes))
}

/// What was made, if anything; an error is the operator's to know.
pub(super) fn told(
    control: &Control,
    made: Result<Option<UnnamedProfile>, CounterError>,
) -> Option<UnnamedProfile> {
    made.unwrap_or_else(|error| {
        control.lock_profile_failed(&error);
        None
    })
}

/// Gives the file its name. If that fails nobody could read what is recorded: then nothing is.
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
