//! Purging and listing stored responses by host, prefix and tags. The tests follow tags from the
//! origin's response to their use in a purge.

mod common;
mod groups;
mod list;
mod plugins;
mod promise;
mod purge;
mod purge_method;
mod tags;
