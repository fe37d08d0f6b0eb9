//! Shows and switches the lock profile of this process.

use forebay_sync::profile::{Profile, StackPlan, installed};
use http::StatusCode;
use serde_json::json;

use super::body::{AdminResponse, json_answer, plain};
use super::query::{AdminQuery, QueryError};
use crate::clock;
use crate::engine::Control;

/// The largest value of `sample` and `stacks`; an even sparser sample would record nothing.
const SAMPLE_MAX: u64 = 1_000_000_000;

/// Answers with the state of the lock profile: whether it is on, and its sampling. The recorded
/// data is in the profile's file.
pub(super) fn look(control: &Control) -> AdminResponse {
    there(control).map_or_else(|| nothing(control), state)
}

/// Executes `?on`, `?off` or `?reset`, and answers with the new state. `on` may have `&sample=` and
/// `&stacks=`.
pub(super) fn switch(control: &Control, query: Option<&str>) -> AdminResponse {
    let Some(profile) = there(control) else {
        return nothing(control);
    };
    match change(profile, query) {
        Ok(()) => state(profile),
        Err(bad) => json_answer(StatusCode::BAD_REQUEST, &bad.to_json()),
    }
}

fn change(profile: &Profile, query: Option<&str>) -> Result<(), QueryError> {
    let query = AdminQuery::parse(query, &["on", "off", "reset", "sample", "stacks"])?;
    let (on, off, reset) = (query.is_set("on")?, query.is_set("off")?, query.is_set("reset")?);
    let (sample, stacks) = (query.number("sample")?, query.number("stacks")?);
    if !on && !off && !reset || on && off {
        return Err(QueryError::new("on", "give one of on, off and reset"));
    }
    if sample.is_some_and(|sample| !on || !(1..=SAMPLE_MAX).contains(&sample)) {
        return Err(QueryError::new(
            "sample",
            "give sample only together with on, as a number from 1 to 1000000000",
        ));
    }
    if stacks.is_some_and(|stacks| !on || stacks > SAMPLE_MAX) {
        return Err(QueryError::new(
            "stacks",
            "give stacks only together with on, as a number from 0 to 1000000000",
        ));
    }
    if stacks.is_some_and(|stacks| stacks > 0) && profile.plan().stacks == StackPlan::NONE {
        return Err(QueryError::new(
            "stacks",
            "the profile has no room for stacks; raise lock_profile_size",
        ));
    }
    if reset {
        profile.reset(clock::unix_ns());
    }
    if on {
        profile.set_skip(sample.unwrap_or(1) - 1);
        if let Some(stacks) = stacks {
            profile.set_stack_sample(stacks);
        }
    }
    if on || off {
        profile.turn(on);
    }
    Ok(())
}

fn state(profile: &'static Profile) -> AdminResponse {
    let (is_on, sample) = (profile.is_on(), profile.skip().saturating_add(1));
    let (stacks, generation) = (profile.stack_sample(), profile.generation());
    let state =
        json!({ "is_on": is_on, "sample": sample, "stacks": stacks, "generation": generation });
    json_answer(StatusCode::OK, &state)
}

/// Returns the installed profile; `None` if creating its file failed.
fn there(control: &Control) -> Option<&'static Profile> {
    installed().filter(|_| control.lock_profile_fault().is_none())
}

fn nothing(control: &Control) -> AdminResponse {
    let why =
        control.lock_profile_fault().unwrap_or("raise lock_profile_size and restart the server");
    plain(StatusCode::NOT_FOUND, format!("no lock profile: {why}\n"))
}
